"""In the child: conversions to ONNX that tf2onnx lets us give (its ``custom_op_handlers``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize

__all__ = ["HANDLERS", "Nudged", "nudged"]

Handler = Callable[[Any, Any, str, list[Any]], Any]


@dataclass(frozen=True)
class Nudged:
    """The range of a FakeQuant after zero was moved onto a step; float32, one element a channel.

    Attributes:
        scale: size of a step.
        zero_point: the step that means 0, from the operator's lowest step on.
        low, high: the values of the lowest and of the highest step.
        steps: numbers of the lowest and of the highest step.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    low: np.ndarray
    high: np.ndarray
    steps: tuple[int, int]


def nudged(low: np.ndarray, high: np.ndarray, bits: int, *, narrow: bool) -> Nudged:
    """The range that TensorFlow really uses (Nudge in fake_quant_ops_functor.h), in float32."""
    lowest, highest = (1 if narrow else 0), (1 << bits) - 1
    low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
    first, last = np.float32(lowest), np.float32(highest)
    scale = (high - low) / (last - first)
    with np.errstate(divide="ignore", invalid="ignore"):
        wished = first - low / scale
    # std::round: halves away from zero, and none of these is negative
    zero_point = np.floor(np.clip(wished, first, last) + np.float32(0.5))
    return Nudged(
        scale,
        zero_point,
        (first - zero_point) * scale,
        (last - zero_point) * scale,
        (lowest, highest),
    )


def _fake_quant(ctx: Any, node: Any, name: str, args: list[Any]) -> None:
    """Clip to the range, then QuantizeLinear and DequantizeLinear with its parameters."""
    del args
    ranges = _range_of(node)
    bits, narrow = int(node.get_attr_int("num_bits")), bool(node.get_attr_int("narrow_range"))
    if not (np.all(np.isfinite(ranges)) and np.all(ranges[0] < ranges[1])):
        raise UnsupportedOperatorError(
            f"Node {sanitize(name)!r} is a {node.type} with an empty range.",
            remedy="Finish its training, or cut the graph before it.",
        )
    found = nudged(*ranges, bits, narrow=narrow)
    if bits > 8:
        _emulate(ctx, node, found)
        return
    axis = {} if found.scale.ndim == 0 else {"axis": len(ctx.get_shape(node.input[0])) - 1}
    shape, dtype = ctx.get_shape(node.output[0]), ctx.get_dtype(node.output[0])
    source, outputs = node.input[0], list(node.output)
    ctx.remove_node(name)
    if found.steps != (0, 255):
        low, high = (ctx.make_const(f"{name}/{k}", v).output[0] for k, v in _ends(found))
        source = ctx.make_node("Max", [source, low], shapes=[shape], dtypes=[dtype]).output[0]
        source = ctx.make_node("Min", [source, high], shapes=[shape], dtypes=[dtype]).output[0]
    scale = ctx.make_const(f"{name}/scale", found.scale).output[0]
    zero = ctx.make_const(f"{name}/zero_point", found.zero_point.astype(np.uint8)).output[0]
    quantized = ctx.make_node(
        "QuantizeLinear",
        [source, scale, zero],
        attr=axis,
        shapes=[shape],
        dtypes=[TensorProto.UINT8],
        name=f"{name}/quantize",
    )
    ctx.make_node(
        "DequantizeLinear",
        [quantized.output[0], scale, zero],
        attr=axis,
        outputs=outputs,
        shapes=[shape],
        dtypes=[dtype],
        name=name,
    )


def _range_of(node: Any) -> tuple[np.ndarray, np.ndarray]:
    if node.type == "FakeQuantWithMinMaxArgs":
        low, high = node.get_attr_value("min"), node.get_attr_value("max")
    else:
        low, high = (node.inputs[i].get_tensor_value(as_list=False) for i in (1, 2))
    return np.asarray(low, np.float32), np.asarray(high, np.float32)


def _ends(found: Nudged) -> tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]:
    return ("low", found.low.astype(np.float32)), ("high", found.high.astype(np.float32))


def _emulate(ctx: Any, node: Any, found: Nudged) -> None:
    """More steps than 8 bits have: TensorFlow's own formula in floats."""
    shape, dtype = ctx.get_shape(node.output[0]), ctx.get_dtype(node.output[0])
    name, source, outputs = node.name, node.input[0], list(node.output)
    ctx.remove_node(name)
    (_, low), (_, high) = _ends(found)
    half, inverse = np.float32(0.5), np.float32(1) / found.scale
    chain: tuple[tuple[str, np.ndarray | None], ...] = (
        ("Max", low),
        ("Min", high),
        ("Sub", low),
        ("Mul", inverse.astype(np.float32)),
        ("Add", np.asarray(half)),
        ("Floor", None),
        ("Mul", found.scale.astype(np.float32)),
        ("Add", low),
    )
    for number, (op, value) in enumerate(chain):
        inputs = [source]
        if value is not None:
            inputs.append(ctx.make_const(f"{name}/constant_{number}", value).output[0])
        last = number == len(chain) - 1
        made = ctx.make_node(
            op,
            inputs,
            outputs=outputs if last else None,
            shapes=[shape],
            dtypes=[dtype],
            name=name if last else f"{name}/step_{number}",
        )
        source = made.output[0]


def _remainder(ctx: Any, node: Any, name: str, args: list[Any]) -> None:
    """The remainder with the sign of the dividend, C's fmod and ``%``."""
    del args
    shape, dtype = ctx.get_shape(node.output[0]), ctx.get_dtype(node.output[0])
    inputs, outputs = list(node.input), list(node.output)
    ctx.remove_node(name)
    ctx.make_node(
        "Mod", inputs, attr={"fmod": 1}, outputs=outputs, shapes=[shape], dtypes=[dtype], name=name
    )


HANDLERS: dict[str, Handler] = {
    "FakeQuantWithMinMaxArgs": _fake_quant,
    "FakeQuantWithMinMaxVars": _fake_quant,
    "FakeQuantWithMinMaxVarsPerChannel": _fake_quant,
    "Mod": _remainder,
    "TruncateMod": _remainder,
}
"""Operator -> what writes its nodes into tf2onnx's graph (arguments: graph, node, name, none)."""
