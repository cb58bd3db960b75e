"""Collects the statistics that all candidates of ``accurate`` are built from, in two passes over
the samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from engine.graph.ir import Graph, TensorSpec
from engine.quantize.algorithms.accurate.assemble import CalibrationStats, RangeEnd, noise_shares
from engine.quantize.algorithms.accurate.range_margin import (
    best_margin_rules,
    tail_thresholds,
)
from engine.quantize.algorithms.accurate.statistics import (
    Statistics,
    StatisticsRunner,
    TailStats,
    observe,
    observe_tails,
    residual_terms,
)
from engine.quantize.interface import CalibratedGraph, Feeds
from engine.quantize.planning.plan import Plan
from engine.quantize.techniques.channels import find_channels
from engine.quantize.techniques.equalize import consumer_noise, noise_gains
from engine.quantize.techniques.softmax import find_logits

# Augmentation: copies of a calibration image that extend the observed ranges.
#
# Twenty pictures show few of the values that a channel can take. A mirrored, shrunk or enlarged
# picture with more contrast is as likely a picture, and finds more of them. The copies serve ranges
# alone: means and second moments come from the samples as they are.

COPIES = 2
"""Copies of every sample: one half as large with more contrast, and one enlarged."""

# Strong on purpose: what is looked for are ends of ranges.
_SMALLER, _LARGER, _CONTRAST = 2.0, 1.8, 1.8


def are_images(inputs: Sequence[TensorSpec]) -> bool:
    """Whether all inputs are (1, 1 or 3, H, W) float32 of some size."""
    return bool(inputs) and all(
        spec.dtype == "float32"
        and len(spec.shape) == 4
        and spec.shape[1] in (1, 3)
        and all((size or 0) >= 8 for size in spec.shape[2:])
        for spec in inputs
    )


def augment(
    feed: Mapping[str, np.ndarray], limits: Mapping[str, tuple[float, float]], turn: int
) -> dict[str, np.ndarray]:
    """An augmented sample, mirrored: half as large with more contrast (turn 0), or enlarged (1).

    Args:
        feed: input -> (1, C, H, W) float32.
        limits: input -> smallest and largest value over all samples; no copy goes beyond.
        turn: which copy.
    """
    copy = {}
    for name, array in feed.items():
        mirrored = array[..., ::-1]
        if turn:
            copy[name] = _resized(mirrored, 1 / _LARGER)
            continue
        middle = float(array.mean())
        strong = middle + (_resized(mirrored, _SMALLER) - middle) * _CONTRAST
        copy[name] = np.clip(strong, *limits[name]).astype(np.float32)
    return copy


def _resized(array: np.ndarray, step: float) -> np.ndarray:
    """Every ``step``-th pixel around the middle; beyond the borders the picture is mirrored."""
    rows, columns = (_places(size, step) for size in array.shape[2:])
    resized: np.ndarray = np.ascontiguousarray(array[:, :, rows][:, :, :, columns])
    return resized


def _places(size: int, step: float) -> np.ndarray:
    places = np.floor((np.arange(size) - size / 2) * step + size / 2).astype(np.int64)
    places = np.abs(places) % (2 * size)
    mirrored: np.ndarray = np.where(places >= size, 2 * size - 1 - places, places)
    return mirrored


def collect_statistics(calibrated: CalibratedGraph, feeds: Feeds, samples: int) -> CalibrationStats:
    """Run so many samples twice, and two augmented copies of each image.

    Raises:
        QuantizationError: a tensor is not finite.
        SimulationError: the graph does not run.
    """
    graph, plan, reporter = calibrated.graph, calibrated.plan, calibrated.reporter
    channels = find_channels(graph, plan)
    sizes = {name: groups.size for name, groups in channels.groups.items()}
    sums = residual_terms(graph, plan)
    logits = find_logits(graph, plan)
    partners = (name for term in sums for name in (term, *sums[term]))
    watched = dict.fromkeys((*_watched(graph, plan), *partners, *logits.tensors))
    runs = StatisticsRunner(graph, list(watched), sums)
    statistics = observe(runs, plan, sizes, feeds, samples, reporter)
    samples = statistics.samples
    inputs = {spec.name for spec in graph.inputs}
    upper, lower = {}, {}
    for name in plan.tensors:
        if name in plan.sources or name in inputs:
            continue
        seen = statistics.tensors[name]
        if seen.high.max(initial=0.0) > 0:
            upper[name] = np.maximum(tail_thresholds(seen.high), 0.0)
        if seen.low.min(initial=0.0) < 0:
            lower[name] = np.maximum(tail_thresholds(-seen.low), 0.0)
    again, turns = _with_copies(graph, feeds, statistics)
    above, below = observe_tails(runs, upper, lower, again, turns * samples, reporter, logits)
    power = {name: seen.mean_square for name, seen in statistics.tensors.items()}
    variance = {
        name: np.maximum(power[name] - seen.mean**2, 1e-6 * power[name])
        for name, seen in statistics.tensors.items()
    }
    readers = consumer_noise(graph, channels, power, variance)
    gains, shares = noise_gains(channels, readers), noise_shares(graph)

    def with_rules(tails: Mapping[str, TailStats]) -> dict[str, RangeEnd]:
        ends = {}
        for name, tail in tails.items():
            gain = np.ones(tail.threshold.size)
            groups = channels.groups.get(name)
            if groups is not None and gains[groups].any():
                gain = gains[groups]
            share = shares.get(name, 1.0) * (0.5 if plan.clamps.get(name) else 1.0)
            ends[name] = RangeEnd(tail, best_margin_rules(tail, samples, gain, share))
        return ends

    return CalibrationStats(
        graph=graph,
        plan=plan,
        settings=calibrated.settings,
        channels=channels,
        statistics=statistics,
        above=with_rules(above),
        below=with_rules(below),
        readers=readers,
        logits=logits.ranges(),
        shares=shares,
    )


def _watched(graph: Graph, plan: Plan) -> list[str]:
    """The tensors with a scale of their own, and the inputs of weighted nodes."""
    roots = [name for name in plan.tensors if name not in plan.sources]
    tensors = set(plan.tensors)
    read = (tensor for _, _, tensor in plan.weighted(graph) if tensor in tensors)
    return list(dict.fromkeys((*roots, *read)))


def _with_copies(graph: Graph, feeds: Feeds, statistics: Statistics) -> tuple[Feeds, int]:
    """The samples, then copy by copy of all of them; and how many times the samples that is."""
    limits = {
        spec.name: (float(values.min()), float(values.max()))
        for spec in graph.inputs
        if (values := statistics.values.get(spec.name)) is not None and values.size
    }
    if not are_images(graph.inputs) or len(limits) < len(graph.inputs):
        return feeds, 1

    def again() -> Iterator[Mapping[str, np.ndarray]]:
        yield from feeds()
        for turn in range(COPIES):
            for feed in feeds():
                yield augment(feed, limits, turn)

    return again, 1 + COPIES
