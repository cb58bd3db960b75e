"""The fused attention that torch runs in evaluation mode, written out for the script exporter.

``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` take these operators when no gradient
is wanted, so most traces hold them; torch has no ONNX form of either. What they compute is in
ATen/native/transformers/transformer.cpp and attention.cpp. Imported in the child process only.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch.onnx import symbolic_helper

__all__ = ["attention", "encoder_layer"]

_MASK_OF_KEYS = 1  # attention.cpp: 0 is a mask of (L, L), 1 of (B, L), 2 of (B, heads, L, L)
_BOOL = 9  # TensorProto.DataType


def encoder_layer(
    g: Any,
    x: Any,
    width: Any,
    heads: Any,
    in_weight: Any,
    in_bias: Any,
    out_weight: Any,
    out_bias: Any,
    use_gelu: Any,
    norm_first: Any,
    epsilon: Any,
    norm1_weight: Any,
    norm1_bias: Any,
    norm2_weight: Any,
    norm2_bias: Any,
    up_weight: Any,
    up_bias: Any,
    down_weight: Any,
    down_bias: Any,
    mask: Any = None,
    mask_type: Any = None,
) -> Any:
    """``aten::_transformer_encoder_layer_fwd`` of ``x`` (batch, steps, width)."""
    before = bool(_constant(norm_first, "i"))
    eps = float(_constant(epsilon, "f"))

    def normal(value: Any, weight: Any, bias: Any) -> Any:
        return g.op("LayerNormalization", value, weight, bias, epsilon_f=eps)

    y = normal(x, norm1_weight, norm1_bias) if before else x
    y = _attended(
        g, y, y, y, heads, in_weight, in_bias, out_weight, out_bias, mask, mask_type, width
    )[0]
    x = g.op("Add", x, y)
    if not before:
        x = normal(x, norm1_weight, norm1_bias)
    y = normal(x, norm2_weight, norm2_bias) if before else x
    y = _linear(g, y, up_weight, up_bias)
    y = _gelu(g, y) if _constant(use_gelu, "i") else g.op("Relu", y)
    x = g.op("Add", x, _linear(g, y, down_weight, down_bias))
    return x if before else normal(x, norm2_weight, norm2_bias)


def attention(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    width: Any,
    heads: Any,
    in_weight: Any,
    in_bias: Any,
    out_weight: Any,
    out_bias: Any,
    mask: Any = None,
    need_weights: Any = None,
    average: Any = None,
    mask_type: Any = None,
) -> tuple[Any, Any]:
    """``aten::_native_multi_head_attention``: (batch, steps, width), and the weights if wanted."""
    result, weights = _attended(
        g, query, key, value, heads, in_weight, in_bias, out_weight, out_bias, mask, mask_type,
        width,
    )  # fmt: skip
    if need_weights is not None and not _constant(need_weights, "i"):
        return result, g.op("Constant", value_t=torch.zeros(0))
    if average is None or _constant(average, "i"):
        weights = g.op("ReduceMean", weights, axes_i=[1], keepdims_i=0)
    return result, weights


def _attended(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    heads: Any,
    in_weight: Any,
    in_bias: Any,
    out_weight: Any,
    out_bias: Any,
    mask: Any,
    mask_type: Any,
    width: Any,
) -> tuple[Any, Any]:
    """The result (batch, steps, width) and the weights (batch, heads, steps, steps)."""
    count, size = int(_constant(heads, "i")), int(_constant(width, "i"))
    thirds = _ints(g, [size] * 3)
    weights = g.op("Split", in_weight, thirds, axis_i=0, outputs=3)
    biases = g.op("Split", in_bias, thirds, axis_i=0, outputs=3)
    parted = []
    for x, weight, bias in zip((query, key, value), weights, biases, strict=True):
        split = g.op("Reshape", _linear(g, x, weight, bias), _ints(g, [0, 0, count, -1]))
        parted.append(g.op("Transpose", split, perm_i=[0, 2, 1, 3]))
    q, k, v = parted
    q = g.op("Mul", q, _floats(g, 1 / sqrt(size // count)))
    scores = g.op("MatMul", q, g.op("Transpose", k, perm_i=[0, 1, 3, 2]))
    if mask is not None and not symbolic_helper._is_none(mask):
        hidden = g.op("Cast", mask, to_i=_BOOL)
        if mask_type is not None and _constant(mask_type, "i") == _MASK_OF_KEYS:
            hidden = g.op("Unsqueeze", hidden, _ints(g, [1, 2]))
        scores = g.op("Where", hidden, _floats(g, float("-inf")), scores)
    chances = g.op("Softmax", scores, axis_i=-1)
    mixed = g.op("Transpose", g.op("MatMul", chances, v), perm_i=[0, 2, 1, 3])
    joined = g.op("Reshape", mixed, _ints(g, [0, 0, -1]))
    return _linear(g, joined, out_weight, out_bias), chances


def _linear(g: Any, x: Any, weight: Any, bias: Any) -> Any:
    product = g.op("MatMul", x, g.op("Transpose", weight, perm_i=[1, 0]))
    return g.op("Add", product, bias)


def _gelu(g: Any, x: Any) -> Any:
    cumulative = g.op("Add", g.op("Erf", g.op("Mul", x, _floats(g, sqrt(0.5)))), _floats(g, 1.0))
    return g.op("Mul", g.op("Mul", x, cumulative), _floats(g, 0.5))


def _constant(value: Any, kind: str) -> Any:
    return symbolic_helper._maybe_get_const(value, kind)


def _ints(g: Any, numbers: list[int]) -> Any:
    return g.op("Constant", value_t=torch.tensor(numbers, dtype=torch.int64))


def _floats(g: Any, number: float) -> Any:
    return g.op("Constant", value_t=torch.tensor(number, dtype=torch.float32))
