"""From ranges to the parameters of every activation tensor."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from engine.graph.ir import Graph, QuantParams
from engine.quantize.calibration.observations import Observations
from engine.quantize.dtypes.formats import Format
from engine.quantize.dtypes.scheme import activation_params
from engine.quantize.planning.node_properties import Clamp
from engine.quantize.planning.plan import Plan, root_of

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
