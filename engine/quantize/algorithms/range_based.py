"""Algorithms that only choose ranges: weights rounded to nearest, biases corrected."""

from __future__ import annotations

from engine.base.events import Reporter
from engine.graph.ir import Graph
from engine.quantize.algorithms.activations import activation_table
from engine.quantize.algorithms.ranges import Ranges, choose_ranges
from engine.quantize.calibration.observations import Observations
from engine.quantize.planning.plan import Plan
from engine.quantize.prepared import Feeds, Prepared
from engine.quantize.settings import QuantizeSettings
from engine.quantize.techniques.bias import correct_biases
from engine.quantize.weights import quantize_weights

__all__ = ["prepare", "quantize_with_ranges"]


def prepare(
    graph: Graph,
    plan: Plan,
    observations: Observations,
    settings: QuantizeSettings,
    _feeds: Feeds | None,
    reporter: Reporter,
) -> Prepared:
    """Quantize by the ranges that the algorithm of the settings chooses.

    As :class:`~engine.quantize.prepared.Prepare`; the samples are not read.
    """
    ranges = choose_ranges(graph, plan, observations, settings) if plan.tensors else {}
    reporter.check_cancelled()
    return quantize_with_ranges(ranges, graph, plan, observations, settings)


def quantize_with_ranges(
    ranges: Ranges,
    graph: Graph,
    plan: Plan,
    observations: Observations,
    settings: QuantizeSettings,
) -> Prepared:
    """Quantize with ranges that are chosen: granularity and bias correction as in the settings."""
    activations = activation_table(graph, plan, observations, ranges, settings.ranges)
    weights = quantize_weights(graph, plan, activations, settings.granularity)
    if settings.bias_correction and observations.samples:
        weights = correct_biases(graph, plan, activations, weights, observations)
    return Prepared(graph, plan, activations, weights)
