"""Operators that torch's exporter of script modules writes wrongly, or not where it could.

Imported in the child process only: it needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.onnx import symbolic_helper

from engine.frontends.pytorch.attention import attention, encoder_layer

__all__ = ["OPERATORS", "nearest_elements"]


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
        given = _scales(scales, axes)
        wanted = _wanted(size, sizes[2:], given)
        if wanted is None:
            return symbolic_helper._unimplemented("upsample_nearest", "output of unknown size", x)
        if all(new % old == 0 for old, new in zip(sizes[2:], wanted, strict=True)):
            factors = [new / old for old, new in zip(sizes[2:], wanted, strict=True)]
            return _whole(g, x, [1.0, 1.0, *factors])
        for axis, (old, new, scale) in enumerate(
            zip(sizes[2:], wanted, given, strict=True), start=2
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
        found = symbolic_helper._maybe_get_const(values[0], "fs")
        values = found if isinstance(found, list) else [None] * axes
        return [float(v) if v is not None else None for v in values]
    numbers = [symbolic_helper._maybe_get_const(value, "f") for value in values[-axes:]]
    return [float(n) if isinstance(n, float | int) else None for n in numbers]


def _wanted(size: Any, old: Sequence[int], scales: Sequence[float | None]) -> list[int] | None:
    if not symbolic_helper._is_none(size):
        found = symbolic_helper._maybe_get_const(size, "is")
        return [int(n) for n in found] if isinstance(found, list) else None
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
    return g.op("Sub", g.op("Exp", x), _number(g, 1.0))


def _number(g: Any, value: float) -> Any:
    return g.op("Constant", value_t=torch.tensor(value, dtype=torch.float32))


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
