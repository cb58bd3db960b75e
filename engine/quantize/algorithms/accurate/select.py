"""Selects a candidate by its error on calibration samples that it was not built from.

Every step rests on an assumption (independent rounding errors, tails that fall off exponentially,
copies that look like pictures), and a graph may break any of them. So the recipe with each
weighing of :mod:`~engine.quantize.algorithms.accurate.range_margin` and the plain form are each
made from three quarters of the samples and compared on the last quarter. Equalization without
margin is no candidate: a few judges may like it, and a channel that goes beyond its samples is
lost.

What counts are decibels: per output those of all judges together and the mean of those of each, so
that neither one picture decides alone nor its error is lost among many good ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from engine.base.events import LogLine, Reporter
from engine.graph.execute import Session
from engine.graph.metrics import ErrorSums, error_sums
from engine.quantize.algorithms.accurate.assemble import CalibrationStats, Candidate, assemble
from engine.quantize.algorithms.accurate.evaluator import CandidateEvaluator, can_evaluate
from engine.quantize.interface import Feeds, Prepared
from engine.quantize.qdq.insert import insert_qdq
from engine.report import sqnr_text

CANDIDATES: Mapping[str, Candidate] = {
    "equalized, room for the furthest sample": Candidate(margin="far"),
    "equalized, room for most samples": Candidate(margin="most"),
    "ranges as seen": Candidate(equalize=False, margin=""),
}
"""The first of equals is chosen."""

# The plain form has to be better by this (dB): few samples are left to judge by, and over all
# models the whole recipe is the best one.
_MARGIN = 2.0

# Samples to judge by, at most, and how many there have to be at all.
_JUDGES = 8
_FEWEST = 8

# Decibels that stand for no error at all.
_EXACT = 150.0

Outputs = Mapping[str, list[np.ndarray]]
Run = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def select_candidate(stats: CalibrationStats, feeds: Feeds, reporter: Reporter) -> Candidate:
    """The candidate with the least noise at the graph's outputs."""
    samples = stats.statistics.samples
    # beyond 8 bits nothing but a value that is clipped counts, and few samples clip none
    wide = all(form.bits > 8 for form in stats.plan.formats.values())
    if samples < _FEWEST or wide:
        return next(iter(CANDIDATES.values()))
    held = set(range(0, samples, max(4, -(-samples // _JUDGES))))
    seen = [row for row in range(samples) if row not in held]
    judges = [feed for row, feed in enumerate(feeds()) if row in held]
    exact = _outputs(Session(stats.graph).run, judges)
    run_of = _runner(stats)
    best, least = Candidate(), np.inf
    for title, candidate in CANDIDATES.items():
        reporter.check_cancelled()
        ready = assemble(stats, candidate.without_feedback(), seen)
        level = noise_level(exact, _outputs(run_of(ready), judges))
        reporter.emit(LogLine(f"{title}: {sqnr_text(-level, digits=1)} on samples held out"))
        level += 0.0 if candidate.equalize else _MARGIN
        if level < least:
            best, least = candidate, level
    return best


def _runner(stats: CalibrationStats) -> Callable[[Prepared], Run]:
    """What runs a candidate: one session for all where :class:`CandidateEvaluator` can, else one
    for each.
    """
    if can_evaluate(stats.graph, stats.plan):
        evaluator = CandidateEvaluator(stats.graph, stats.plan)

        def tried(ready: Prepared) -> Run:
            inputs = evaluator.inputs(ready.activations, ready.weights)
            return lambda feed: evaluator.run(feed, inputs)

        return tried

    def built(ready: Prepared) -> Run:
        graph, *_ = insert_qdq(ready.graph, ready.plan, ready.activations, ready.weights)
        return Session(graph).run

    return built


def _outputs(run: Run, judges: Iterable[Mapping[str, np.ndarray]]) -> Outputs:
    outputs: dict[str, list[np.ndarray]] = {}
    for feed in judges:
        for name, array in run(feed).items():
            outputs.setdefault(name, []).append(array)
    return outputs


def noise_level(exact: Outputs, found: Outputs) -> float:
    """Noise power over signal power in dB, the mean over the outputs.

    Of each output the mean of two: of all samples together, and the mean over the samples.

    Args:
        exact, found: output -> its arrays, one a sample.
    """
    levels = []
    for name, arrays in exact.items():
        sums = [error_sums(a, b)[0] for a, b in zip(arrays, found[name], strict=True)]
        audible = [one for one in sums if one.signal > 0]
        if audible:
            single = np.mean([_level(one) for one in audible])
            levels.append((float(single) + _level(sum(audible, ErrorSums()))) / 2)
    return float(np.mean(levels)) if levels else -_EXACT


def _level(sums: ErrorSums) -> float:
    return -_EXACT if sums.sqnr is None else -min(sums.sqnr, _EXACT)
