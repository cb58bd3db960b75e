"""Operators that torch's exporter of script modules writes wrongly, or not where it could.

Imported in the child process only: it needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch.onnx import symbolic_helper


def nearest_elements(size: int, wanted: int, scale: float | None, *, exact: bool) -> np.ndarray:
    """Which element each of ``wanted`` takes of ``size``, as int64.

    ATen/native/UpSample.h, ``nearest_neighbor_compute_source_index`` and the ``exact`` form of it:
    in float32, where ``floor(6 * (20 / 24))`` and ``floor(6 / 1.2)`` are not the same.
    """
    step = np.float32(1.0 / scale) if scale else np.float32(size) / np.float32(wanted)
    place = np.arange(wanted, dtype=np.float32)
    if exact:
        place = place + np.float32(0.5)
    chosen: np.ndarray = np.minimum(np.floor(place * step).astype(np.int64), size - 1)
    return chosen


def _nearest(axes: int, *, exact: bool) -> Callable[..., Any]:
    """A picture of ``axes`` axes after batch and channel: Resize where its factors are whole
    numbers, else a Gather for each axis.
    """

    def resize(g: Any, x: Any, size: Any, *scales: Any) -> Any:
        sizes = symbolic_helper._get_tensor_sizes(x)
        if sizes is None or any(n is None for n in sizes[2:]):
            return symbolic_helper._unimplemented("upsample_nearest", "input of unknown size", x)
        scale_factors = _scales(scales, axes)
        new_sizes = _wanted(size, sizes[2:], scale_factors)
        if new_sizes is None:
            return symbolic_helper._unimplemented("upsample_nearest", "output of unknown size", x)
        if all(new % old == 0 for old, new in zip(sizes[2:], new_sizes, strict=True)):
            factors = [new / old for old, new in zip(sizes[2:], new_sizes, strict=True)]
            return _whole(g, x, [1.0, 1.0, *factors])
        for axis, (old, new, scale) in enumerate(
            zip(sizes[2:], new_sizes, scale_factors, strict=True), start=2
        ):
            chosen = torch.from_numpy(nearest_elements(old, new, scale, exact=exact))
            if not (old == new and torch.equal(chosen, torch.arange(old))):
                x = g.op("Gather", x, g.op("Constant", value_t=chosen), axis_i=axis)
        return x

    return resize


def _whole(g: Any, x: Any, factors: Sequence[float]) -> Any:
    empty = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
    scales = g.op("Constant", value_t=torch.tensor(factors, dtype=torch.float32))
    return g.op(
        "Resize",
        x,
        empty,
        scales,
        mode_s="nearest",
        coordinate_transformation_mode_s="asymmetric",
        nearest_mode_s="floor",
    )


def _scales(values: Sequence[Any], axes: int) -> list[float | None]:
    """The factors that the call names: a list, or one argument per axis; None where it does not."""
    if len(values) == 1:
        constant = symbolic_helper._maybe_get_const(values[0], "fs")
        values = constant if isinstance(constant, list) else [None] * axes
        return [float(v) if v is not None else None for v in values]
    numbers = [symbolic_helper._maybe_get_const(value, "f") for value in values[-axes:]]
    return [float(n) if isinstance(n, float | int) else None for n in numbers]


def _wanted(size: Any, old: Sequence[int], scales: Sequence[float | None]) -> list[int] | None:
    if not symbolic_helper._is_none(size):
        constant = symbolic_helper._maybe_get_const(size, "is")
        return [int(n) for n in constant] if isinstance(constant, list) else None
    if any(scale is None for scale in scales):
        return None
    return [int(n * (scale or 1.0)) for n, scale in zip(old, scales, strict=True)]


def _unflatten(g: Any, x: Any, axis: Any, sizes: Any, names: Any = None) -> Any:
    """``aten::unflatten``: torch's own form loses the rank, which what follows needs."""
    old = symbolic_helper._get_tensor_sizes(x)
    along = symbolic_helper._maybe_get_const(axis, "i")
    new = symbolic_helper._maybe_get_const(sizes, "is")
    if old is None or None in old or not isinstance(new, list):
        return symbolic_helper._unimplemented("unflatten", "sizes that are not known", x)
    along = along % len(old)
    shape = torch.tensor([*old[:along], *new, *old[along + 1 :]])
    return g.op("Reshape", x, g.op("Constant", value_t=shape))


def _log_sigmoid(g: Any, x: Any) -> Any:
    """``-softplus(-x)``: the logarithm of a sigmoid near 0 has lost its digits."""
    return g.op("Neg", g.op("Softplus", g.op("Neg", x)))


def _expm1(g: Any, x: Any) -> Any:
    """``exp(x) - 1``, which next to 0 has fewer digits than torch's."""
    return g.op("Sub", g.op("Exp", x), _floats(g, 1.0))


# --------------------------------------------------------------------------------------- attention

# ``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` take fused operators when no gradient
# is wanted, so most traces hold them; torch has no ONNX form of either. What they compute is in
# ATen/native/transformers/transformer.cpp and attention.cpp.

_MASK_OF_KEYS = 1  # attention.cpp: 0 is a mask of (L, L), 1 of (B, L), 2 of (B, heads, L, L)
_BOOL = 9  # TensorProto.DataType


def encoder_layer(g: Any, x: Any, width: Any, heads: Any, *more: Any) -> Any:
    """``aten::_transformer_encoder_layer_fwd`` of ``x`` (batch, steps, width).

    ``more``: weight and bias of the projections in and out; whether it uses GELU, whether it
    normalises first, epsilon; weight and bias of two normalisations and of the two layers up and
    down; mask and kind of mask, which may lack.
    """
    projections, (use_gelu, norm_first, epsilon), norms, ways = (
        more[:4],
        more[4:7],
        (more[7:9], more[9:11]),
        (more[11:13], more[13:15]),
    )
    before = bool(_constant(norm_first, "i"))
    eps = float(_constant(epsilon, "f"))

    def normal(value: Any, number: int) -> Any:
        return g.op("LayerNormalization", value, *norms[number], epsilon_f=eps)

    y = normal(x, 0) if before else x
    x = g.op("Add", x, _attended(g, (y, y, y), width, heads, projections, more[15:])[0])
    if not before:
        x = normal(x, 0)
    y = _linear(g, normal(x, 1) if before else x, *ways[0])
    y = _gelu(g, y) if _constant(use_gelu, "i") else g.op("Relu", y)
    x = g.op("Add", x, _linear(g, y, *ways[1]))
    return x if before else normal(x, 1)


def attention(
    g: Any, query: Any, key: Any, value: Any, width: Any, heads: Any, *more: Any
) -> tuple[Any, Any]:
    """``aten::_native_multi_head_attention``: (batch, steps, width), and the weights if wanted.

    ``more``: weight and bias of the projections in and out; then, which may lack, the mask, whether
    the weights are wanted, whether they are averaged, and the kind of mask.
    """
    mask, need_weights, average, kind = [*more[4:], *[None] * 4][:4]
    masks = (mask, kind)
    result, weights = _attended(g, (query, key, value), width, heads, more[:4], masks)
    if need_weights is not None and not _constant(need_weights, "i"):
        return result, g.op("Constant", value_t=torch.zeros(0))
    if average is None or _constant(average, "i"):
        weights = g.op("ReduceMean", weights, axes_i=[1], keepdims_i=0)
    return result, weights


def _attended(
    g: Any,
    inputs: Sequence[Any],
    width: Any,
    heads: Any,
    projections: Sequence[Any],
    masks: Sequence[Any],
) -> tuple[Any, Any]:
    """The result (batch, steps, width) and the weights (batch, heads, steps, steps).

    Args:
        inputs: query, key and value.
        projections: weight and bias in, weight and bias out.
        masks: the mask and its kind, as far as they are given.
    """
    in_weight, in_bias, *out = projections
    mask, kind = [*masks, None, None][:2]
    count, size = int(_constant(heads, "i")), int(_constant(width, "i"))
    thirds = _ints(g, [size] * 3)
    weights = g.op("Split", in_weight, thirds, axis_i=0, outputs=3)
    biases = g.op("Split", in_bias, thirds, axis_i=0, outputs=3)
    parted = []
    for x, weight, bias in zip(inputs, weights, biases, strict=True):
        split = g.op("Reshape", _linear(g, x, weight, bias), _ints(g, [0, 0, count, -1]))
        parted.append(g.op("Transpose", split, perm_i=[0, 2, 1, 3]))
    q, k, v = parted
    q = g.op("Mul", q, _floats(g, 1 / sqrt(size // count)))
    scores = g.op("MatMul", q, g.op("Transpose", k, perm_i=[0, 1, 3, 2]))
    if mask is not None and not symbolic_helper._is_none(mask):
        hidden = g.op("Cast", mask, to_i=_BOOL)
        if kind is not None and _constant(kind, "i") == _MASK_OF_KEYS:
            hidden = g.op("Unsqueeze", hidden, _ints(g, [1, 2]))
        scores = g.op("Where", hidden, _floats(g, float("-inf")), scores)
    chances = g.op("Softmax", scores, axis_i=-1)
    mixed = g.op("Transpose", g.op("MatMul", chances, v), perm_i=[0, 2, 1, 3])
    joined = g.op("Reshape", mixed, _ints(g, [0, 0, -1]))
    return _linear(g, joined, *out), chances


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


OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::_native_multi_head_attention": attention,
    "aten::_transformer_encoder_layer_fwd": encoder_layer,
    "aten::expm1": _expm1,
    "aten::log_sigmoid": _log_sigmoid,
    "aten::unflatten": _unflatten,
    **{
        f"aten::{kind}{axes}d": _nearest(axes, exact=kind.startswith("_"))
        for kind in ("upsample_nearest", "_upsample_nearest_exact")
        for axes in (1, 2, 3)
    },
}
"""Operator -> symbolic function for the exporter of script modules."""
