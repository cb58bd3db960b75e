"""``kl_divergence``, and a look at whether it lost against ``normal``.

The ranges of :mod:`engine.quantize.algorithms.range_search` are bounded tensor by tensor; what a
whole network makes of them is found out by running it: both quantizations on calibration samples,
side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from engine.base.events import LogLine
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import ErrorSums, decibel, error_sums
from engine.quantize.algorithms.range_search import RangeCost
from engine.quantize.algorithms.ranges import Ranges, choose_ranges, quantize_with_ranges
from engine.quantize.calibration.observations import Observations
from engine.quantize.interface import CalibratedGraph, Prepared
from engine.quantize.qdq.insert import insert_qdq
from engine.report import gain_text

LOSS_LIMIT = 3.0
"""dB below ``normal`` on one output, on calibration samples, from which the user is warned."""

_SAMPLES = 8
_NAMED = 3  # tensors that a finding names


def prepare(calibrated: CalibratedGraph) -> Prepared:
    """Quantize by divergence; findings tell where that is worse than ``normal``.

    As :data:`~engine.quantize.interface.Prepare`; without ``feeds`` nothing is compared.
    """
    feeds, reporter, seen = calibrated.feeds, calibrated.reporter, calibrated.observations
    ranges = choose_ranges(calibrated)
    ready = quantize_with_ranges(ranges, calibrated)
    plain = replace(calibrated, settings=replace(calibrated.settings, algorithm="normal"))
    usual = choose_ranges(plain)
    if feeds is None or ranges == usual:
        return ready
    reporter.check_cancelled()
    other = quantize_with_ranges(usual, plain)
    lost, samples = sqnr_losses(calibrated.graph, ready, other, islice(feeds(), _SAMPLES))
    over = f"{samples} calibration sample{'' if samples == 1 else 's'}"
    text = ", ".join(f"{sanitize(name, 60)} {gain_text(-loss)}" for name, loss in lost.items())
    reporter.emit(LogLine(f"kl_divergence against normal, over {over}: {text}"))
    findings = tuple(
        _finding(name, gain_text(-loss), over, _clipped(ranges, usual, seen))
        for name, loss in lost.items()
        if loss > LOSS_LIMIT
    )
    return replace(ready, findings=findings)


def sqnr_losses(
    graph: Graph, first: Prepared, second: Prepared, feeds: Iterable[Mapping[str, np.ndarray]]
) -> tuple[dict[str, float], int]:
    """Output -> by how many dB the first quantization is below the second, simulated, and over how
    many samples.

    Args:
        graph: the float graph.
        first, second: two quantizations of it.
        feeds: samples; read one at a time.
    """
    golden = Session(graph)
    quantized = [
        Session(insert_qdq(one.graph, one.plan, one.activations, one.weights)[0])
        for one in (first, second)
    ]
    names = [spec.name for spec in graph.outputs if spec.dtype == "float32"]
    sums = {name: (ErrorSums(), ErrorSums()) for name in names}
    for feed in feeds:
        expected = golden.run(feed)
        outputs = [session.run(feed) for session in quantized]
        for name in names:
            new = error_sums(expected[name], *(one[name] for one in outputs))
            sums[name] = sums[name][0] + new[0], sums[name][1] + new[1]
    lost = {name: _loss(first.noise, second.noise) for name, (first, second) in sums.items()}
    return lost, max((first.samples for first, _ in sums.values()), default=0)


def _loss(first: float, second: float) -> float:
    """The first noise over the second in dB; infinite where only the second is none."""
    level = 0.0 if first == second else decibel(first, second)
    return math.inf if level is None else level


def _clipped(ranges: Ranges, usual: Ranges, observations: Observations) -> str:
    """Which tensors are clipped most."""
    clipped = sorted(
        (
            (_clipped_share(observations, name, ranges[name]), name)
            for name in ranges
            if ranges[name] != usual[name]
        ),
        reverse=True,
    )[:_NAMED]
    return "; ".join(
        f"{sanitize(name, 60)} {usual[name][0]:.4g}..{usual[name][1]:.4g} became "
        f"{ranges[name][0]:.4g}..{ranges[name][1]:.4g}, which clips {100 * share:.2g} % of its "
        "energy"
        for share, name in clipped
    )


def _finding(output: str, gain: str, over: str, causes: str) -> Finding:
    """What is lost on one output."""
    return Finding(
        code="kl-divergence-loses",
        severity="warning",
        where=output,
        what=f"kl_divergence gives output {sanitize(output, 60)!r} {gain} against normal "
        f"(simulated, over {over}).",
        cause=f"It clipped {causes}." if causes else "It chose other ranges than normal.",
        remedy="Choose normal, mmse or accurate, or set these ranges by hand.",
        changes={"quantized_algorithm": "normal"},
    )


def _clipped_share(observations: Observations, tensor: str, ends: tuple[float, float]) -> float:
    """The energy that lies beyond a range, of the tensor's energy."""
    histogram = observations[tensor].histogram
    if histogram is None:
        return 0.0
    low, high = histogram.edges
    energy = float((histogram.counts * ((low + high) / 2) ** 2).sum())
    clipped = RangeCost(histogram).clipping(np.array(ends[0]), np.array(ends[1]), law=False)
    return float(clipped) / energy if energy else 0.0
