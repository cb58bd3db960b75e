"""From observations to the range of every activation tensor."""

from __future__ import annotations

from engine.graph.ir import Graph
from engine.quantize.calibrate import Observations
from engine.quantize.plan import Plan
from engine.quantize.settings import QuantizeSettings

__all__ = ["choose_ranges"]


def choose_ranges(
    graph: Graph, plan: Plan, observations: Observations, settings: QuantizeSettings
) -> dict[str, tuple[float, float]]:
    """The range of every tensor that has one of its own, by the algorithm of the settings.

    Args:
        graph: the float graph.
        plan: of this graph.
        observations: of the same graph.
        settings: the algorithm; ranges set by hand win over it.

    Returns:
        root tensor (see :attr:`~engine.quantize.plan.Plan.sources`) -> (minimum, maximum) in its
        unit, in the order of the graph.

    Raises:
        QuantizationError: the observations belong to another graph.
    """
    roots = [name for name in plan.tensors if name not in plan.sources]
    ranges = {name: (observations[name].minimum, observations[name].maximum) for name in roots}
    return ranges | {name: settings.ranges[name] for name in roots if name in settings.ranges}
