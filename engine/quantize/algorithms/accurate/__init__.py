"""Our algorithm ``accurate``: ranges optimised against the error of downstream layers.

The recipe, each step in a module of its own: statistics of every channel (:mod:`statistics`,
:mod:`moments`, :mod:`augmentation`), ranges with a margin by cross-validation
(:mod:`range_margin`), channels equalized by activation ranges (:mod:`channels`, :mod:`equalize`),
the range before a Softmax (:mod:`softmax`), weights with error feedback and biases corrected
(:mod:`rounding`), and a choice on samples held out (:mod:`select_candidate`). What comes out is
plain w8a8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.events import LogLine
from engine.quantize.algorithms.accurate.assemble import assemble
from engine.quantize.algorithms.accurate.collect import collect_statistics
from engine.quantize.algorithms.accurate.select import select_candidate
from engine.quantize.interface import CalibratedGraph, Feeds, Prepared

__all__ = ["SAMPLES", "prepare"]

SAMPLES = 128
"""Samples that are looked at, at most: statistics are kept per sample and channel, so that memory
would grow with a dataset.
"""


def prepare(calibrated: CalibratedGraph) -> Prepared:
    """Quantize by ``accurate``.

    As :data:`~engine.quantize.interface.Prepare`. Of the observations only their number of samples
    is used, as ranges of whole tensors are too little for channels. Of more than ``SAMPLES``, as
    many are looked at, spread evenly; they are read up to five times.

    Raises:
        QuantizationError: without ``feeds``, or a tensor is not finite.
        SimulationError: the graph does not run.
    """
    if calibrated.feeds is None:
        raise QuantizationError(
            "The algorithm 'accurate' reads the calibration samples again.",
            cause="It was given observations without the samples.",
            remedy="Give the dataset, or choose the algorithm 'normal'.",
        )
    samples, reporter = calibrated.observations.samples, calibrated.reporter
    feeds, count = _spread(calibrated.feeds, samples)
    if count < samples:
        reporter.emit(LogLine(f"accurate looks at {count} of {samples} samples, spread evenly"))
    stats = collect_statistics(calibrated, feeds, count)
    candidate = select_candidate(stats, feeds, reporter)
    return assemble(stats, candidate, range(stats.statistics.samples))


def _spread(feeds: Feeds, samples: int) -> tuple[Feeds, int]:
    """Of the samples that calibration read at most ``SAMPLES``, spread evenly; and how many."""
    count = min(samples, SAMPLES)
    chosen = frozenset(index * samples // count for index in range(count))

    def some() -> Iterator[Mapping[str, np.ndarray]]:
        for index, feed in enumerate(islice(feeds(), samples)):
            if index in chosen:
                yield feed

    return some, count
