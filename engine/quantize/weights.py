"""The constants of weighted layers as integers: rounded to nearest, ready for an algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.graph.ir import Graph, QuantParams
from engine.quantize.dtypes.scheme import weight_params
from engine.quantize.planning.node_properties import data_inputs
from engine.quantize.planning.plan import Plan


@dataclass(frozen=True)
class LayerWeights:
    """The constants of one weighted node, quantized.

    Attributes:
        params: of the weight.
        integers: the weight as it is stored, of its shape and ``params.dtype`` (see
            :meth:`engine.graph.ir.QuantParams.quantize`).
        bias: real values, float32, one per output channel; None without a bias. When the QDQ graph
            is written it becomes what the layer's scheme asks for: int32 at scale ``input scale *
            weight scale`` in w8a8. A node of Conv, ConvTranspose or Gemm without a bias in the
            float graph may get one.
    """

    params: QuantParams
    integers: np.ndarray
    bias: np.ndarray | None


def quantize_weights(
    graph: Graph, plan: Plan, activations: Mapping[str, QuantParams], granularity: str
) -> dict[str, LayerWeights]:
    """Weights of all weighted nodes of the plan, rounded to the nearest integer.

    Args:
        graph: the float graph.
        plan: of this graph.
        activations: parameters of the plan's tensors.
        granularity: ``channel`` or ``layer`` (one scale a tensor).

    Returns:
        node name -> its quantized constants, in the order of the graph.
    """
    layer_weights: dict[str, LayerWeights] = {}
    for node in graph.nodes:
        weight_plan = plan.weights.get(node.name or "")
        if weight_plan is None:
            continue
        data = next(v for v in data_inputs(node) if v.name != weight_plan.weight)
        weight = graph.constant(weight_plan.weight)
        if weight is None:
            raise ValueError(f"{weight_plan.weight} is not a constant")
        bias = None if weight_plan.bias is None else graph.constant(weight_plan.bias)
        scheme = plan.schemes[weight_plan.node]
        axis = weight_plan.axis if granularity == "channel" and scheme.per_channel else None
        read = activations[plan.read_as(data.name or "", weight_plan.node)]
        bounded = bias if scheme.bias == "int32" else None
        params = weight_params(weight, axis, bounded, read.scale[0], scheme.weight)
        layer_weights[weight_plan.node] = LayerWeights(params, params.quantize(weight), bias)
    return layer_weights
