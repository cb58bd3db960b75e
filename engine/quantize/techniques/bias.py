"""Analytic bias correction: biases absorb the mean error that rounded weights make.

A layer with weights ``Wq`` instead of ``W`` is off by ``conv(x, Wq - W)``, whose mean over all
calibration samples and output positions is ``(Wq - W)`` times the mean input under each place of
the kernel (:mod:`engine.quantize.calibration.input_means`). The bias takes it back. Nothing is
estimated: after it the mean error over the float inputs is 0 but for the bias's own rounding.
Inputs are those of the float graph: with quantized ones a shift of an earlier layer would be
counted twice.

Source: Nagel et al., "Data-free quantization through weight equalization and bias correction"
(2019), section 4.2, with means that calibration measured instead of those that batch normalization
implies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams
from engine.quantize.calibration.observations import Observations
from engine.quantize.planning.plan import Plan
from engine.quantize.weights import LayerWeights


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
    corrected = dict(weights)
    for node in graph.nodes:
        name = node.name or ""
        weight_plan, layer_weights = plan.weights.get(name), weights.get(name)
        seen = observations.inputs.get(name)
        if weight_plan is None or layer_weights is None or seen is None:
            continue
        weight = graph.constant(weight_plan.weight)
        if weight is None:
            continue
        error = weight.astype(np.float64) - layer_weights.params.dequantize(layer_weights.integers)
        shift = mean_output(node, error, seen.mean)
        bias = shift if layer_weights.bias is None else layer_weights.bias.reshape(-1) + shift
        corrected[name] = replace(layer_weights, bias=bias.astype(np.float32))
    return corrected


def mean_output(node: ir.Node, weight: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The mean output of a weighted node without bias, one value per output channel, float64.

    Args:
        node: Conv, ConvTranspose or Gemm.
        weight: in the node's own layout.
        mean: of the input under each place of the kernel, ``(channels, *kernel)``.
    """
    if node.op_type == "Gemm":
        matrix = weight if node.attributes.get_int("transB", 0) else weight.T
        output: np.ndarray = matrix.astype(np.float64) @ mean
        return output
    groups = node.attributes.get_int("group", 1)
    inputs = mean.reshape(groups, mean.shape[0] // groups, -1)
    parts = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    axes = "giok,gik->go" if node.op_type == "ConvTranspose" else "goik,gik->go"
    outputs: np.ndarray = np.einsum(axes, parts, inputs).reshape(-1)
    return outputs
