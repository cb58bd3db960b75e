"""From observations to the range and the parameters of every activation tensor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from engine.graph.ir import Graph, QuantParams
from engine.quantize.algorithms.range_search import least_cost_range, least_divergence_range
from engine.quantize.calibration.observations import Observation, Observations
from engine.quantize.dtypes.formats import Format
from engine.quantize.dtypes.scheme import activation_params
from engine.quantize.interface import CalibratedGraph, Prepared
from engine.quantize.planning.node_properties import Clamp, Role
from engine.quantize.planning.plan import Plan, root_of
from engine.quantize.techniques.rounding import correct_biases

Range = tuple[float, float]

_HEADROOM = 2.0


def absorbs(params: QuantParams, clamp: Clamp) -> bool:
    """Whether saturation at these parameters does what the clamp does, for every value.

    Rounding is monotone, so ``Q(clip(x, low, high)) = clip(Q(x), Q(low), Q(high))``: the clamp is
    redundant exactly where its bounds fall on the ends of the integers. ONNX Runtime fuses on the
    same condition (300 random ranges gave no other answer), else the layer before runs in float.
    """
    bounds = np.array([clamp.low, clamp.high], dtype=np.float32)
    with np.errstate(over="ignore"):
        steps = params.quantize(bounds)
    return bool(int(steps[0]) == params.limits[0] and int(steps[1]) == params.limits[1])


def activation_table(
    graph: Graph,
    plan: Plan,
    seen: Observations,
    ranges: Mapping[str, Range] | None = None,
    fixed: Collection[str] = (),
) -> dict[str, QuantParams]:
    """Parameters of all tensors and constants of the plan, in the order of the graph.

    Chains of operators that move values share the range of their source; the inputs of a Concat
    that nothing else reads take the range of its output (see
    :class:`~engine.quantize.planning.plan.Plan`). Tensors in half precision have parameters, too;
    a tensor that is read in another format has a second entry under the name of its
    :class:`~engine.quantize.planning.mixed.DtypeBoundary`.

    Args:
        graph: the float graph.
        plan: of this graph.
        seen: of the same graph.
        ranges: of :func:`~engine.quantize.algorithms.ranges.choose_ranges`; without it, of
            what was seen.
        fixed: roots whose range was set by hand: neither a Concat nor a margin changes it.

    Raises:
        QuantizationError: the observations belong to another graph.
    """
    roots = _shared(plan, seen, ranges, fixed)
    table: dict[str, QuantParams] = {}
    boundaries: dict[str, QuantParams] = {}
    for name, form in plan.formats.items():
        array = graph.constant(name)
        if array is not None:
            full = array if array.size else np.zeros(1)
            used: Range = (float(full.min()), float(full.max()))
            own: Range | None = used
            free = False
            clamps: tuple[Clamp, ...] = ()
        else:
            root = root_of(name, plan.sources)
            used = roots.get(root, (0.0, 0.0))
            watched = seen.tensors.get(name)
            own = None if watched is None else (watched.minimum, watched.maximum)
            free = root not in fixed
            clamps = plan.clamps.get(root, ())
        table[name] = activation_params(*_roomy(used, form, clamps, free), own, form)
        for boundary in plan.boundaries.get(name, ()):
            room = _roomy(used, boundary.form, clamps, free)
            boundaries[boundary.name] = activation_params(*room, own, boundary.form)
    return table | boundaries


def _shared(
    plan: Plan,
    seen: Observations,
    ranges: Mapping[str, Range] | None,
    fixed: Collection[str],
) -> dict[str, Range]:
    """Root tensor -> its range, the inputs of Concats with that of the output."""
    roots: dict[str, Range] = {}
    for name in plan.tensors:
        if name not in plan.sources:
            roots[name] = (
                (seen[name].minimum, seen[name].maximum) if ranges is None else ranges[name]
            )
    # later Concats first: the range of an inner one may come from an outer one
    for concat in reversed(plan.concats):
        source = root_of(concat.output, plan.sources)
        for root in concat.sharing:
            clamps = plan.clamps.get(root, ())
            if root not in fixed and _takes(plan.formats[root], roots[source], clamps):
                roots[root] = roots[source]
    return roots


def _roomy(used: Range, form: Format, clamps: Collection[Clamp], free: bool) -> Range:
    """The range with a margin where the format has bits for it.

    With 16 bits what new samples lose beyond the calibrated range is far more than the one bit
    that twice the range costs; dynamic fixed point has up to a bit of margin by itself.
    """
    if not free or form.kind != "affine" or form.bits < 16:
        return used
    low = max([_HEADROOM * min(used[0], 0.0), *(min(clamp.low, 0.0) for clamp in clamps)])
    high = min([_HEADROOM * max(used[1], 0.0), *(max(clamp.high, 0.0) for clamp in clamps)])
    return low, high


def _takes(form: Format, shared: Range, clamps: Collection[Clamp]) -> bool:
    """Whether a tensor of a format may take a Concat's range; affine ones absorb their clamps."""
    params = activation_params(*shared, form=form)
    return form.kind != "affine" or all(absorbs(params, clamp) for clamp in clamps)


Ranges = Mapping[str, tuple[float, float]]
"""Root tensor -> (minimum, maximum) in its unit."""

Search = Callable[[Observation, int, Sequence[Clamp], bool], tuple[float, float]]

# algorithms that look for a range; the others take what was seen
_SEARCHES: Mapping[str, Search] = MappingProxyType(
    {"kl_divergence": least_divergence_range, "mmse": least_cost_range}
)


def choose_ranges(calibrated: CalibratedGraph) -> dict[str, tuple[float, float]]:
    """The range of every tensor that has one of its own, by the algorithm of the settings.

    User-defined ranges override the algorithm.

    Returns:
        root tensor (see :attr:`~engine.quantize.planning.plan.Plan.sources`) -> (minimum, maximum)
        in its unit, in the order of the graph.

    Raises:
        QuantizationError: the observations belong to another graph.
    """
    graph, plan, settings = calibrated.graph, calibrated.plan, calibrated.settings
    search = _SEARCHES.get(settings.algorithm)
    inputs = {spec.name for spec in graph.inputs}
    whole = unclipped_tensors(graph, plan) if search is not None else frozenset[str]()
    limits: dict[str, tuple[float, float]] = {}
    for name in plan.tensors:
        if name in plan.sources:
            continue
        seen, form = calibrated.observations[name], plan.formats.get(name)
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


def prepare(calibrated: CalibratedGraph) -> Prepared:
    """Quantize by the ranges that the algorithm of the settings chooses.

    As :data:`~engine.quantize.interface.Prepare`; the samples are not read.
    """
    ranges = choose_ranges(calibrated) if calibrated.plan.tensors else {}
    calibrated.reporter.check_cancelled()
    return quantize_with_ranges(ranges, calibrated)


def quantize_with_ranges(ranges: Ranges, calibrated: CalibratedGraph) -> Prepared:
    """Quantize with ranges that are chosen: granularity and bias correction as in the settings."""
    graph, plan, seen = calibrated.graph, calibrated.plan, calibrated.observations
    activations = activation_table(graph, plan, seen, ranges, calibrated.settings.ranges)
    weights = calibrated.nearest(activations)
    if calibrated.settings.bias_correction and seen.samples:
        weights = correct_biases(graph, plan, weights, seen)
    return Prepared(graph, plan, activations, weights)
