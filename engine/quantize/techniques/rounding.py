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

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from engine.quantize.planning.node_properties import weight_axes
from engine.quantize.weights import LayerWeights

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
