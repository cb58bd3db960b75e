"""Weights rounded with error feedback, and biases that absorb what rounding shifts.

Rounding one weight of a column disturbs the output; the weights that are not rounded yet take that
up as far as their inputs are correlated (Frantar et al. 2022, "GPTQ", section 3). With the Cholesky
factor ``H = R^T R`` of the second moments the error is ``|R (w - q)|^2``, and the same integers
come out, without an inverse of H, by back substitution from the last weight to the first: Babai's
nearest plane (Babai 1986; that both are one is shown by Chen et al. 2025, "The geometry of LLM
quantization"). The mean error that is left goes into the bias: ``bias += (W - Wq) E[x]`` (Nagel et
al. 2019, section 4.2, with E[x] measured on the calibration samples).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph
from engine.graph.ir.spec import numbers_of
from engine.quantize.calibration.observations import Observations
from engine.quantize.interface import LayerWeights
from engine.quantize.planning.node_properties import weight_axes
from engine.quantize.planning.plan import Plan

_DAMPING = 0.05


def round_with_feedback(
    weight: np.ndarray, scale: np.ndarray, second: np.ndarray, limit: int = 127
) -> np.ndarray:
    """Integers of a weight that make less error at the layer's output than the nearest ones.

    Args:
        weight: (G, M, K) in real units: groups, output channels of a group, inputs.
        scale: (G, M): step of every output channel.
        second: (G, K, K): second moments of the inputs.
        limit: the largest absolute integer.

    Returns:
        (G, M, K) float64 of whole numbers.
    """
    groups, _, length = weight.shape
    if not np.isfinite(second).all():
        return _nearest(weight, scale, limit)
    diagonal = np.einsum("gkk->gk", second)
    order = np.argsort(diagonal, axis=1, kind="stable")  # the largest are rounded first
    rows = np.arange(groups)[:, None]
    work = (weight.astype(np.float64) / scale[..., None]).transpose(0, 2, 1)[rows, order]
    ordered = second[rows[..., None], order[:, :, None], order[:, None, :]].astype(np.float64)
    damping = _DAMPING * diagonal.mean(axis=1) + 1e-30
    ordered[:, np.arange(length), np.arange(length)] += damping[:, None]
    try:
        factor = np.linalg.cholesky(ordered).transpose(0, 2, 1)
    except np.linalg.LinAlgError:
        return _nearest(weight, scale, limit)
    factor = factor / np.einsum("gkk->gk", factor)[:, :, None]
    errors = np.zeros_like(work)
    for k in range(length - 1, -1, -1):
        fed = np.matmul(factor[:, k, None, k + 1 :], errors[:, k + 1 :])[:, 0]
        rounded = np.clip(np.rint(work[:, k] + fed), -limit, limit)
        errors[:, k] = work[:, k] - rounded
    levels = np.empty_like(work)
    levels[rows, order] = np.rint(work - errors)
    integers: np.ndarray = levels.transpose(0, 2, 1)
    return integers


def _nearest(weight: np.ndarray, scale: np.ndarray, limit: int) -> np.ndarray:
    nearest: np.ndarray = np.clip(np.rint(weight / scale[..., None]), -limit, limit)
    return nearest.astype(np.float64)


def weight_matrix(node: ir.Node, weight: np.ndarray, groups: int) -> np.ndarray:
    """(G, M, K) of a weight of Conv, Gemm or MatMul."""
    flat = weight.T if weight_axes(node)[0] else weight.reshape(weight.shape[0], -1)
    return flat.reshape(groups, flat.shape[0] // groups, flat.shape[1])


def with_feedback(
    node: ir.Node, weight: np.ndarray, nearest: LayerWeights, second: np.ndarray
) -> LayerWeights:
    """A layer's constants with the weight rounded by :func:`round_with_feedback`.

    Args:
        node: Conv, Gemm or MatMul.
        weight: real values, in the node's own layout.
        nearest: rounded to nearest, to symmetric integers.
        second: (G, K, K), of the inputs.
    """
    matrix = weight_matrix(node, weight, len(second))
    scale = np.asarray(nearest.params.scale, dtype=np.float64)
    steps = scale.reshape((1, 1) if scale.size == 1 else (len(second), -1))
    limit = nearest.params.limits[1]
    levels = round_with_feedback(matrix, np.broadcast_to(steps, matrix.shape[:2]), second, limit)
    flat = levels.reshape(-1, matrix.shape[2])
    turned = (flat.T if weight_axes(node)[0] else flat).reshape(weight.shape)
    integers = np.ascontiguousarray(turned.astype(nearest.integers.dtype))
    return replace(nearest, integers=integers)


def corrected_bias(
    weight: np.ndarray, rounded: np.ndarray, bias: np.ndarray | None, mean: np.ndarray
) -> np.ndarray:
    """The bias that undoes the mean error of rounded weights, (G M,) float32.

    Args:
        weight, rounded: (G, M, K), real and dequantized.
        bias: (G M,) or None.
        mean: (G, K): mean of the inputs.
    """
    shift = np.einsum("gmk,gk->gm", weight.astype(np.float64) - rounded, mean).reshape(-1)
    base = np.zeros(shift.size) if bias is None else bias.astype(np.float64).reshape(-1)
    corrected: np.ndarray = (base + shift).astype(np.float32)
    return corrected


# Analytic bias correction: biases absorb the mean error that rounded weights make.
#
# A layer with weights ``Wq`` instead of ``W`` is off by ``conv(x, Wq - W)``, whose mean over all
# calibration samples and output positions is ``(Wq - W)`` times the mean input under each place of
# the kernel (:mod:`engine.quantize.calibration.input_means`). The bias takes it back. Nothing is
# estimated: after it the mean error over the float inputs is 0 but for the bias's own rounding.
# Inputs are those of the float graph: with quantized ones a shift of an earlier layer would be
# counted twice.
#
# Source: Nagel et al., "Data-free quantization through weight equalization and bias correction"
# (2019), section 4.2, with means that calibration measured instead of those that batch
# normalization implies.


def correct_biases(
    graph: Graph,
    plan: Plan,
    weights: Mapping[str, LayerWeights],
    observations: Observations,
) -> dict[str, LayerWeights]:
    """The same layers, with biases that undo the mean error of their rounded weights.

    Args:
        graph: the float graph.
        plan: of this graph.
        weights: node name -> its quantized constants.
        observations: of the same graph.

    Returns:
        node name -> its constants, in the order of ``weights``.
    """
    corrected = dict(weights)
    for node, weight_plan, _ in plan.weighted(graph):
        name = weight_plan.node
        seen = observations.inputs.get(name)
        if seen is None:
            continue
        layer_weights, weight = weights[name], numbers_of(graph.value(weight_plan.weight))
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
