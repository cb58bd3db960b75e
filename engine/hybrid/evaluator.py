"""Evaluates a choice of layers and ranges: quantizes the model and runs it on a few samples.

Nothing is approximated: a trial quantizes with the settings of the build and simulates the result.
What does not depend on the choice (float results, observations) is computed once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from engine.accuracy.rounding import rounding_sensitivity
from engine.base.errors import UsageError
from engine.base.events import CallbackReporter, LogLine, NullReporter, Reporter
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import ErrorSums, decibel, error_sums
from engine.quantize import Observations, Quantized, QuantizeSettings, quantize
from engine.wire.accuracy import RoundingSensitivity

Feeds = Sequence[Mapping[str, np.ndarray]]
_Key = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, tuple[float, ...]], ...]]

_SAMPLES = 32
_BYTES = 64 << 20
_KEPT = 256


@dataclass(frozen=True)
class EvalResult:
    """The result of one evaluation; simulated, over the evaluator's samples.

    Attributes:
        layers, ranges: what was asked for, by layer and by tensor.
        noise: output -> power of its error over that of its float values.
        seconds: of wall time, measured.
        score: of the user's function; None without one.
    """

    layers: Mapping[str, str]
    ranges: Mapping[str, tuple[float, float]]
    noise: Mapping[str, float]
    seconds: float
    score: float | None = None

    @property
    def sqnr(self) -> dict[str, float | None]:
        """Output -> SQNR in dB; None without error."""
        return sqnr_of(self.noise)


def sqnr_of(noise: Mapping[str, float]) -> dict[str, float | None]:
    """Output -> SQNR in dB, of the power of its error over that of its values."""
    return {name: decibel(1.0, value) for name, value in noise.items()}


def subsample(feeds: Iterable[Mapping[str, np.ndarray]], count: int = _SAMPLES) -> Feeds:
    """The first samples, at most ``count`` and 64 MiB of them, at least one.

    Raises:
        UsageError: there is none.
    """
    chosen: list[Mapping[str, np.ndarray]] = []
    room = _BYTES
    for feed in islice(feeds, count):
        room -= sum(array.nbytes for array in feed.values())
        if chosen and room < 0:
            break
        chosen.append({name: np.array(array) for name, array in feed.items()})
    if not chosen:
        raise UsageError("There is no sample to try a choice of layers on.")
    return chosen


class Evaluator:
    """Evaluates choices of layers for one model over one set of samples.

    Args:
        graph: the float graph.
        observations: of the same graph.
        settings: of the build; its layers and ranges are what every trial starts from.
        feeds: the samples that outputs are compared on.
        everything: gives all calibration samples anew, for algorithms that read them.
        score: of the outputs of all samples, larger is better; instead of SQNR.
        reporter: asked whether to stop.
    """

    def __init__(
        self,
        graph: Graph,
        observations: Observations,
        settings: QuantizeSettings,
        feeds: Feeds,
        *,
        everything: Callable[[], Iterable[Mapping[str, np.ndarray]]] | None = None,
        score: Callable[[Sequence[Mapping[str, np.ndarray]]], float] | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.feeds = feeds
        self.reporter = reporter or NullReporter()
        self._observations = observations
        self._everything = everything or (lambda: iter(feeds))
        self._score = score
        self.outputs = [s.name for s in graph.outputs if s.dtype == "float32"]
        session = Session(graph)
        self._golden = [session.run(feed, self.outputs) for feed in feeds]
        self._known: dict[_Key, EvalResult] = {}
        self._last: tuple[_Key, Quantized] | None = None
        self._moved: dict[_Key, RoundingSensitivity] = {}

    def run(
        self,
        layers: Mapping[str, str] | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
    ) -> EvalResult:
        """Quantize with these layers and ranges, beside those of the settings, and compare.

        Raises:
            QuantizationError: a name or a dtype that does not fit.
            SimulationError: the build does not run.
        """
        self.reporter.check_cancelled()
        chosen = {**self.settings.layers, **(layers or {})}
        spans = {**self.settings.ranges, **(ranges or {})}
        key = _key(chosen, spans)
        if key in self._known:
            return self._known[key]
        begun = time.perf_counter()
        done = self.build(chosen, spans)
        noise, score = self._compare(done.graph)
        outcome = EvalResult(chosen, spans, noise, time.perf_counter() - begun, score)
        self._known[key] = outcome
        self._last = (key, done)
        while len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        return outcome

    def build(
        self, layers: Mapping[str, str], ranges: Mapping[str, tuple[float, float]]
    ) -> Quantized:
        """The build with exactly these layers and ranges; that of the last trial is kept."""
        key = _key(layers, ranges)
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        return quantize(
            self.graph,
            self._observations,
            replace(self.settings, layers=dict(layers), ranges=dict(ranges)),
            feeds=self._everything,
            reporter=_silent(self.reporter),
        )

    def rounding(
        self, layers: Mapping[str, str], ranges: Mapping[str, tuple[float, float]]
    ) -> RoundingSensitivity:
        """How far other roundings move the outputs of a build with exactly these layers and ranges.

        Raises:
            QuantizationError: a name or a dtype that does not fit.
            SimulationError: the build does not run.
        """
        key = _key(layers, ranges)
        if key not in self._moved:
            done = self.build(layers, ranges)
            self._last = (key, done)
            self._moved[key] = rounding_sensitivity(
                done.graph,
                done.layers,
                self.feeds,
                golden=self.graph,
                inner=False,
                reporter=_silent(self.reporter),
            )
            while len(self._moved) > _KEPT:
                del self._moved[next(iter(self._moved))]
        return self._moved[key]

    def _compare(self, graph: Graph) -> tuple[dict[str, float], float | None]:
        session = Session(graph)
        sums = dict.fromkeys(self.outputs, ErrorSums())
        results: list[Mapping[str, np.ndarray]] = []
        for feed, golden in zip(self.feeds, self._golden, strict=True):
            self.reporter.check_cancelled()
            simulated = session.run(feed, self.outputs)
            for name in self.outputs:
                sums[name] += error_sums(golden[name], simulated[name])[0]
            if self._score is not None:
                results.append(simulated)
        noise = {name: own.share for name, own in sums.items()}
        return noise, None if self._score is None else float(self._score(results))


def _key(layers: Mapping[str, str], ranges: Mapping[str, tuple[float, float]]) -> _Key:
    return tuple(sorted(layers.items())), tuple(sorted((n, tuple(r)) for n, r in ranges.items()))


def _silent(reporter: Reporter) -> Reporter:
    """The reporter without the log lines and progress of every single quantization."""

    def cancelled() -> bool:
        reporter.check_cancelled()
        return False

    return CallbackReporter(
        lambda event: (
            reporter.emit(event) if isinstance(event, LogLine) and event.level == "error" else None
        ),
        cancelled,
    )
