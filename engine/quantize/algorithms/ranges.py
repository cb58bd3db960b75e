"""From observations to the range of every activation tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from engine.base.events import Reporter
from engine.graph.ir import Graph
from engine.quantize.algorithms.activations import activation_table
from engine.quantize.algorithms.kl import least_divergence_range
from engine.quantize.algorithms.mmse_range import least_cost_range
from engine.quantize.calibration.observations import Observation, Observations
from engine.quantize.dtypes.formats import Format
from engine.quantize.planning.node_properties import Clamp
from engine.quantize.planning.operators import Role
from engine.quantize.planning.plan import Plan, root_of
from engine.quantize.prepared import Feeds, Prepared
from engine.quantize.settings import QuantizeSettings
from engine.quantize.techniques.bias import correct_biases
from engine.quantize.weights import quantize_weights

Ranges = Mapping[str, tuple[float, float]]
"""Root tensor -> (minimum, maximum) in its unit."""

Search = Callable[[Observation, int, Sequence[Clamp], bool], tuple[float, float]]

# algorithms that look for a range; the others take what was seen
_SEARCHES: Mapping[str, Search] = MappingProxyType(
    {"kl_divergence": least_divergence_range, "mmse": least_cost_range}
)


def choose_ranges(
    graph: Graph, plan: Plan, observations: Observations, settings: QuantizeSettings
) -> dict[str, tuple[float, float]]:
    """The range of every tensor that has one of its own, by the algorithm of the settings.

    Args:
        graph: the float graph.
        plan: of this graph.
        observations: of the same graph.
        settings: the algorithm; user-defined ranges override it.

    Returns:
        root tensor (see :attr:`~engine.quantize.planning.plan.Plan.sources`) -> (minimum, maximum)
        in its unit, in the order of the graph.

    Raises:
        QuantizationError: the observations belong to another graph.
    """
    search = _SEARCHES.get(settings.algorithm)
    inputs = {spec.name for spec in graph.inputs}
    whole = unclipped_tensors(graph, plan) if search is not None else frozenset[str]()
    limits: dict[str, tuple[float, float]] = {}
    for name in plan.tensors:
        if name in plan.sources:
            continue
        seen, form = observations[name], plan.formats.get(name)
        if name in settings.ranges:
            limits[name] = settings.ranges[name]
        elif search is None or name in inputs or not has_arbitrary_scale(form):
            # an input's limits are those of pixels
            limits[name] = (seen.minimum, seen.maximum)
        else:
            steps = 255 if form is None else form.high - form.low
            limits[name] = search(seen, steps, plan.clamps.get(name, ()), name in whole)
    return limits


def has_arbitrary_scale(form: Format | None) -> bool:
    """Whether any number can be the scale: dynamic fixed point and half precision have none."""
    return form is None or form.kind in ("affine", "symmetric")


def unclipped_tensors(graph: Graph, plan: Plan) -> frozenset[str]:
    """Roots of tensors that are never clipped: results, and what float operators read.

    Nothing behind them averages an error out, a Softmax amplifies it, and the largest value of a
    result is what users look at.
    """
    roots: set[str] = set()
    for name in plan.tensors:
        value = graph.value(name)
        readers = [plan.roles.get(use.node.name or "", Role.FLOAT) for use in value.uses()]
        if value.is_graph_output() or Role.FLOAT in readers:
            roots.add(root_of(name, plan.sources))
    # the inputs of a Concat may take its scale
    for concat in reversed(plan.concats):
        if root_of(concat.output, plan.sources) in roots:
            roots.update(concat.sharing)
    return frozenset(roots)


# Algorithms that only choose ranges: weights rounded to nearest, biases corrected.


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
