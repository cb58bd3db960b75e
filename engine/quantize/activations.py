"""From ranges to the parameters of every activation tensor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.graph.ir import Graph, QuantParams
from engine.quantize.calibrate import Observation, Observations
from engine.quantize.plan import Clamp, Plan, root_of
from engine.quantize.scheme import activation_params

__all__ = ["absorbs", "activation_table"]


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
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, QuantParams]:
    """Parameters of all tensors and constants of the plan, in the order of the graph.

    Chains of operators that move values share the scale of their source; the inputs of a Concat
    that nothing else reads take the scale of its output (see :class:`~engine.quantize.plan.Plan`).

    Args:
        graph: the float graph.
        plan: of this graph.
        seen: of the same graph.
        ranges: of :func:`choose_ranges`; what was seen where it is None.

    Raises:
        QuantizationError: the observations belong to another graph.
    """
    roots: dict[str, QuantParams] = {}
    for name in plan.tensors:
        if name not in plan.sources:
            own = seen[name] if ranges is None else Observation(*ranges[name])
            roots[name] = _from(own)
    # later Concats first: the scale of an inner one may come from an outer one
    for concat in reversed(plan.concats):
        shared = roots[root_of(concat.output, plan.sources)]
        for root in concat.sharing:
            if all(absorbs(shared, clamp) for clamp in plan.clamps.get(root, ())):
                roots[root] = shared
    table: dict[str, QuantParams] = {}
    for name in plan.constants:
        array = graph.constant(name)
        if array is not None:
            table[name] = _from(Observation(float(array.min()), float(array.max())))
    for name in plan.tensors:
        params = roots[root_of(name, plan.sources)]
        own = seen[name]
        table[name] = QuantParams(
            dtype=params.dtype,
            scale=params.scale,
            zero_point=params.zero_point,
            minimum=params.minimum,
            maximum=params.maximum,
            observed_minimum=own.minimum,
            observed_maximum=own.maximum,
        )
    return table


def _from(observation: Observation) -> QuantParams:
    return activation_params(observation.minimum, observation.maximum)
