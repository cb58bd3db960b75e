"""Scores over labelled samples, float against simulated: top-k, or a function of the user's.

One sample is in memory at a time, and of every sample a few numbers are kept in sums: a dataset
may have any size.

A scoring function is called for every sample of both models::

    def score(outputs, label, sample):   # -> a number, or a dict of name -> number
        ...

``outputs``: output name -> array, ``label``: of the sample, ``sample``: ``{"index", "paths",
"inputs"}``. Its numbers are averaged over the samples. A metric of the whole set (mAP) is a class::

    class Metric:
        def update(self, outputs, label, sample): ...
        def result(self): ...            # -> a number, or a dict of name -> number

One object of it is made for the float model and one for the simulated one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from inspect import isclass
from typing import Any, Protocol

import numpy as np

from engine.accuracy.labelled import Label, LabelledDataset
from engine.base.errors import DatasetError, UsageError
from engine.base.events import NullReporter, Progress, Reporter
from engine.base.text import sanitize
from engine.dataset import Preprocess
from engine.graph.ir import TensorSpec
from engine.graph.ir.custom_shapes import user_code_errors
from engine.wire.accuracy import Score

# How sure a score over a limited number of samples is: 95 % confidence intervals.

_Z = 1.959963984540054  # of the normal distribution, two-sided 95 %

Interval = tuple[float, float]


def share_interval(right: int, samples: int) -> Interval:
    """Of a share: Wilson's score interval, which holds near 0 and 1 and for few samples.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    if samples < 1:
        return 0.0, 1.0
    share, square = right / samples, _Z * _Z
    centre = (share + square / (2 * samples)) / (1 + square / samples)
    spread = share * (1 - share) / samples + square / (4 * samples * samples)
    half = _Z * math.sqrt(spread) / (1 + square / samples)
    return max(0.0, centre - half), min(1.0, centre + half)


def paired_interval(only_first: int, only_second: int, samples: int) -> Interval:
    """Of the second share less the first, both of the same samples.

    What both got right or wrong says nothing of the difference. Agresti and Min's interval for
    matched pairs (Simple improved confidence intervals for comparing matched proportions, 2005):
    half a sample is added to each of the four cells, so that equal answers do not claim certainty.
    """
    first, second, count = only_first + 0.5, only_second + 0.5, samples + 2.0
    difference = (second - first) / count
    variance = ((first + second) - (second - first) ** 2 / count) / (count * count)
    half = _Z * math.sqrt(variance)
    return max(-1.0, difference - half), min(1.0, difference + half)


def mean_interval(total: float, squares: float, samples: int) -> Interval | None:
    """Of a mean, by the normal distribution; None for fewer than two samples.

    Args:
        total, squares: sums of the values and of their squares.
        samples: how many values.
    """
    if samples < 2:
        return None
    mean = total / samples
    variance = max(0.0, (squares - samples * mean * mean) / (samples - 1))
    half = _Z * math.sqrt(variance / samples)
    return mean - half, mean + half


Outputs = Mapping[str, np.ndarray]
Predict = Callable[[Mapping[str, np.ndarray]], Outputs]
"""Feeds of one sample -> output name -> array."""

_EVERY = 25
NOTE = (
    "Intervals: 95 %, for samples drawn at random from what the model will meet. They do not "
    "apply to samples of another kind."
)


@dataclass(frozen=True)
class Evaluated:
    """The figures over a dataset.

    Attributes:
        samples: how many were run.
        scores: one for each figure.
        agreement: share of the samples with the same first answer; None for a function.
        note: what the intervals mean.
    """

    samples: int
    scores: tuple[Score, ...]
    agreement: float | None = None
    note: str = NOTE


class Metric(Protocol):
    """What is kept of every sample."""

    def add(self, golden: Outputs, simulated: Outputs, label: Label, sample: Any, /) -> None:
        """Take a sample's results of both models."""

    def result(self, samples: int, /) -> Evaluated:
        """The figures."""


class TopK:
    """How often the label is among the k largest values of an output.

    Args:
        output: name of the output with the scores of the classes.
        top: further values of k beside 1.
        offset: is added to a label: 1 for networks with a class for the background before those
            of the dataset.
    """

    def __init__(self, output: str, top: Sequence[int] = (5,), offset: int = 0) -> None:
        self._output, self._offset = output, offset
        self._top = sorted({1, *top})
        # per k: both right, only float, only simulated
        self._counts = {k: [0, 0, 0] for k in self._top}
        self._agreed = 0

    def add(self, golden: Outputs, simulated: Outputs, label: Label, sample: Any, /) -> None:
        """Take a sample.

        Raises:
            DatasetError: the label is no class of the output.
        """
        scores = [np.ravel(side[self._output]) for side in (golden, simulated)]
        count = scores[0].size
        if not isinstance(label, int) or not 0 <= label + self._offset < count:
            raise DatasetError(
                f"The label {sanitize(str(label), 80)} is none of the {count} classes of "
                f"{sanitize(self._output, 80)}.",
                cause=f"Labels are numbers from 0; {self._offset} is added to each.",
                remedy="Correct the list, or give --label-offset or --output.",
            )
        ranks = [_rank(one, label + self._offset) for one in scores]
        for k, cells in self._counts.items():
            right = [rank < k for rank in ranks]
            if any(right):
                cells[0 if all(right) else 1 if right[0] else 2] += 1
        self._agreed += int(np.argmax(scores[0]) == np.argmax(scores[1]))

    def result(self, samples: int, /) -> Evaluated:
        """The share of right answers for every k."""
        rows = []
        for k, (both, first, second) in self._counts.items():
            rows.append(
                Score(
                    name=f"top-{k}",
                    golden=(both + first) / samples,
                    simulated=(both + second) / samples,
                    golden_interval=share_interval(both + first, samples),
                    simulated_interval=share_interval(both + second, samples),
                    difference=(second - first) / samples,
                    difference_interval=paired_interval(first, second, samples),
                )
            )
        return Evaluated(samples, tuple(rows), self._agreed / samples)


def _rank(scores: np.ndarray, label: int) -> int:
    """How many classes come before the label; of equal scores the first comes first.

    A score that is no number is nobody's answer: its class comes last.
    """
    clean = np.where(np.isnan(scores), -np.inf, scores.astype(np.float64))
    own = clean[label]
    return int(np.count_nonzero(clean > own) + np.count_nonzero(clean[:label] == own))


@dataclass
class _Sums:
    """Of one figure of a function: sums of values and squares, float, simulated, difference."""

    totals: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    squares: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    count: int = 0

    def add(self, golden: float, simulated: float) -> None:
        for place, value in enumerate((golden, simulated, simulated - golden)):
            self.totals[place] += value
            self.squares[place] += value * value
        self.count += 1


class _PerSample:
    """The mean of what a function says of every sample."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name
        self._sums: dict[str, _Sums] = {}

    def add(self, golden: Outputs, simulated: Outputs, label: Label, sample: Any, /) -> None:
        with _calling(self._name):
            answers = [self._function(dict(side), label, sample) for side in (golden, simulated)]
        first, second = (_numbers(answer, self._name) for answer in answers)
        if first.keys() != second.keys():
            raise UsageError(f"{self._name} gave other figures for the two models.")
        for name in first:
            self._sums.setdefault(name, _Sums()).add(first[name], second[name])

    def result(self, samples: int, /) -> Evaluated:
        rows = []
        for name, sums in self._sums.items():
            means = [total / sums.count for total in sums.totals]
            spans = [
                mean_interval(total, squares, sums.count)
                for total, squares in zip(sums.totals, sums.squares, strict=True)
            ]
            golden, simulated, difference = zip(means, spans, strict=True)
            rows.append(Score(name, *simulated, *difference, *golden))
        return Evaluated(samples, tuple(rows))


class _WholeSet:
    """What a class makes of all samples."""

    def __init__(self, make_side: Callable[[], Any], name: str) -> None:
        with _calling(name):
            self._sides = (make_side(), make_side())
        self._name = name

    def add(self, golden: Outputs, simulated: Outputs, label: Label, sample: Any, /) -> None:
        with _calling(self._name):
            for side, outputs in zip(self._sides, (golden, simulated), strict=True):
                side.update(dict(outputs), label, sample)

    def result(self, samples: int, /) -> Evaluated:
        with _calling(self._name):
            answers = [side.result() for side in self._sides]
        first, second = (_numbers(answer, self._name) for answer in answers)
        rows = [
            Score(name, second[name], None, second[name] - value, None, value, None)
            for name, value in first.items()
            if name in second
        ]
        note = "A figure of the whole set: how sure it is cannot be said from one set."
        return Evaluated(samples, tuple(rows), note=note)


def metric_of(found: Any, name: str) -> Metric:
    """The metric that a user's function or class is.

    Raises:
        UsageError: neither a function nor a class with ``update`` and ``result``.
    """
    if isclass(found) and callable(getattr(found, "update", None)) and hasattr(found, "result"):
        return _WholeSet(found, name)
    if callable(found) and not isclass(found):
        return _PerSample(found, name)
    raise UsageError(
        f"{sanitize(name, 120)} is not a scoring function.",
        cause="It is a function (outputs, label, sample) or a class with update and result.",
        remedy="See docs/accuracy.md, or `rknntui evaluate --help`.",
    )


def _calling(name: str) -> AbstractContextManager[None]:
    what = f"{sanitize(name, 120)} failed"
    return user_code_errors("The scoring function", what, UsageError)


def _numbers(returned: Any, name: str) -> dict[str, float]:
    """A function's answer as figures by name.

    Raises:
        UsageError: it is no number and no dict of numbers.
    """
    named = returned if isinstance(returned, Mapping) else {"score": returned}
    try:
        if any(isinstance(value, str | bytes) for value in named.values()):
            raise TypeError("a text is not a number, even where it reads like one")
        values = {str(key): float(value) for key, value in named.items()}
        if not values or not all(math.isfinite(value) for value in values.values()):
            raise ValueError("not finite")
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{sanitize(name, 120)} gave {sanitize(repr(returned), 80)}.",
            cause="A score is a finite number, or a dict of name -> finite number.",
            remedy="Correct what the function returns.",
        ) from error
    return values


def evaluate_labelled(
    golden: Predict,
    simulated: Predict,
    labelled: LabelledDataset,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess,
    metric: Metric,
    reporter: Reporter | None = None,
) -> Evaluated:
    """Run every sample through both models.

    Args:
        golden, simulated: the float model and the quantized one here.
        labelled: the samples.
        inputs: of the model.
        preprocess: how files become inputs.
        metric: what is counted.
        reporter: told of the progress, asked whether to stop.

    Raises:
        DatasetError: a sample cannot be read, does not fit or has no usable label.
        UsageError: the user's function fails.
    """
    reporter = reporter or NullReporter()
    total = len(labelled)
    for index, feeds in enumerate(labelled.feeds(inputs, preprocess, reporter)):
        if index % _EVERY == 0:
            reporter.check_cancelled()
            reporter.emit(Progress("score", index, total))
        label = labelled.labels[index]
        sample = {"index": index, "paths": labelled.paths(index), "inputs": feeds}
        results = golden(feeds), simulated(feeds)
        try:
            metric.add(*results, label, sample)
        except DatasetError as error:
            raise DatasetError(
                f"{labelled.where(index)}: {error.what}", cause=error.cause, remedy=error.remedy
            ) from error
    return metric.result(total)
