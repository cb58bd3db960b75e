"""Operators that take and give integers with their scales, in the form of Q/DQ nodes.

``QLinearConv(x, ...)`` is ``QuantizeLinear(Conv(DequantizeLinear(x), ...))``: the same numbers by
ONNX's definition, and ONNX Runtime builds its integer kernels from either form. Every stage of this
program knows the latter. ``ConvInteger``, ``MatMulInteger`` and ``DynamicQuantizeLinear`` stay as
they are: their scales are computed at run time.

Those of ONNX's own domain are rewritten at the pinned opset, where scales per channel exist; those
of ONNX Runtime's (``com.microsoft``, docs/ContribOperators.md of onnxruntime) at the model's, so
that types can be inferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.graph.ir.rewriting import Context, Replacement, Rewrite, attribute

__all__ = ["MICROSOFT_QLINEAR", "QLINEAR", "UnfitError"]

# DequantizeLinear and QuantizeLinear take an axis from here on
_PER_AXIS = 13


class UnfitError(UnsupportedOperatorError):
    """A node that has no form of ONNX's own operators."""


def unfit(node: onnx.NodeProto, why: str) -> UnfitError:
    """The error for a node that cannot be rewritten."""
    return UnfitError(
        f"{sanitize(node.op_type, 60)} at node {sanitize(node.name, 100)!r} cannot be taken: "
        f"{why}.",
        remedy="Export the model with opset 13 or newer in ONNX Runtime's QDQ format, or cut the "
        "node off with 'inputs' or 'outputs'.",
    )


class _Quantized(Replacement):
    """Writes the Q/DQ nodes around one node."""

    def __init__(self, node: onnx.NodeProto, context: Context) -> None:
        super().__init__(node, context)
        self._base = next(name for name in node.output if name)

    def scale(self, index: int) -> np.ndarray:
        """The constant that an input is: without dimensions, or one number per channel."""
        name = self.given(index)
        array = self.context.known(name) if name else None
        if array is None:
            raise unfit(
                self.replaced, f"its scale or zero point {sanitize(name, 80)!r} is computed"
            )
        return np.asarray(array).reshape(()) if array.size == 1 else np.asarray(array)

    def float(self, index: int, *, axis: int | None = None) -> str:
        """Dequantize input ``index``, whose scale and zero point are the two inputs after it."""
        scale = self.scale(index + 1)
        zero = self.scale(index + 2) if self.given(index + 2) else None
        return self.dequantized(self.given(index), scale, zero, axis)

    def dequantized(
        self, name: str, scale: np.ndarray, zero: np.ndarray | None, axis: int | None
    ) -> str:
        """A DequantizeLinear of ``name``; ``axis`` is where scales per channel lie."""
        if scale.ndim and axis is None:
            raise unfit(self.replaced, "it has a scale per channel where only one is defined")
        inputs = [name, self.context.constant(f"{name}_scale", scale)]
        if zero is not None:
            full = np.array(np.broadcast_to(zero, scale.shape))
            inputs.append(self.context.constant(f"{name}_zero_point", full))
        out = self.context.name(f"{name}_dequantized")
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [out]))
        if scale.ndim:
            self.nodes[-1].attribute.append(helper.make_attribute("axis", axis))
        return out

    def op(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The float operator; gives the name of its result."""
        out = self.context.name(f"{self._base}_float")
        node = helper.make_node(op, list(inputs), [out], self.replaced.name, **attributes)
        self.nodes.append(node)
        return out

    def quantize(self, result: str, index: int) -> Sequence[onnx.NodeProto]:
        """Quantize the result by scale and zero point at ``index``; gives all nodes."""
        if self.scale(index).ndim:
            raise unfit(self.replaced, "its result has a scale per channel")
        inputs = [result, self.context.constant(f"{self._base}_scale", self.scale(index))]
        if self.given(index + 1):
            zero = self.scale(index + 1)
            inputs.append(self.context.constant(f"{self._base}_zero_point", zero))
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, [self._base]))
        return self.nodes


# -- ONNX's own, at the pinned opset --------------------------------------------------------------

_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _conv(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """Inputs: x, scale, zero point, w, scale, zero point, scale and zero point of y, bias.

    The bias is int32 in units of the scales of x and w multiplied, by QLinearConv's definition.
    """
    q = _Quantized(node, context)
    inputs = [q.float(0), q.float(3, axis=0)]
    if q.given(8):
        scale = np.asarray(q.scale(1) * q.scale(4), np.float32)
        inputs.append(q.dequantized(q.given(8), scale, None, 0))
    return q.quantize(q.op("Conv", inputs, **q.kept(*_CONV)), 6)


def _matmul(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """Scales of a may be per row, those of b per column."""
    q = _Quantized(node, context)
    return q.quantize(q.op("MatMul", [q.float(0, axis=-2), q.float(3, axis=-1)]), 6)


QLINEAR: dict[str, Rewrite] = {"QLinearConv": _conv, "QLinearMatMul": _matmul}
"""Operators of ONNX; to be rewritten at the pinned opset."""


# -- ONNX Runtime's, at the opset of the model ---------------------------------------------------


def _binary(op: str, node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    q = _Quantized(node, context)
    return q.quantize(q.op(op, [q.float(0), q.float(3)]), 6)


def _unary(
    op: str, kept: tuple[str, ...], node: onnx.NodeProto, context: Context
) -> Sequence[onnx.NodeProto]:
    if attribute(node, "channels_last"):
        raise unfit(node, "its channels come last")
    q = _Quantized(node, context)
    return q.quantize(q.op(op, [q.float(0)], **q.kept(*kept)), 3)


def _concat(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """Scale and zero point of the result come first, then three inputs per part."""
    q = _Quantized(node, context)
    parts = [q.float(index) for index in range(2, len(node.input), 3)]
    return q.quantize(q.op("Concat", parts, **q.kept("axis")), 0)


def _softmax(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """``opset`` says whose Softmax is meant: until 12 that of the tensor flattened to two axes."""
    if (attribute(node, "opset") < 13) != (context.opset < 13):
        raise unfit(node, f"it means Softmax of opset {attribute(node, 'opset')}")
    return _unary("Softmax", ("axis",), node, context)


def _where(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    q = _Quantized(node, context)
    return q.quantize(q.op("Where", [q.given(0), q.float(1), q.float(4)]), 7)


def _gemm(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """A and b, int32 c in units of alpha and both scales; a result without a scale is float."""
    q = _Quantized(node, context)
    alpha = next((a.f for a in node.attribute if a.name == "alpha"), 1.0)
    columns = 0 if attribute(node, "transB") else 1
    if q.scale(4).ndim and context.opset < _PER_AXIS:
        raise unfit(node, f"opset {context.opset} has no scales per channel")
    inputs = [q.float(0), q.float(3, axis=columns)]
    if q.given(6):
        scale = np.asarray(np.float32(alpha) * q.scale(1) * q.scale(4), np.float32)
        inputs.append(q.dequantized(q.given(6), scale, None, 0))
    result = q.op("Gemm", inputs, **q.kept("alpha", "transA", "transB"))
    if q.given(7):
        return q.quantize(result, 7)
    q.nodes[-1].output[0] = node.output[0]
    return q.nodes


def _plain(node: onnx.NodeProto, context: Context) -> None:
    """Quantize- and DequantizeLinear of ONNX Runtime are ONNX's, with types that came later."""
    node.domain = ""


_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")

MICROSOFT_QLINEAR: dict[str, Rewrite] = {
    "DequantizeLinear": _plain,
    "QGemm": _gemm,
    "QLinearAdd": partial(_binary, "Add"),
    "QLinearAveragePool": partial(_unary, "AveragePool", _POOL),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": partial(_unary, "GlobalAveragePool", ()),
    "QLinearLeakyRelu": partial(_unary, "LeakyRelu", ("alpha",)),
    "QLinearMul": partial(_binary, "Mul"),
    "QLinearSigmoid": partial(_unary, "Sigmoid", ()),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _where,
    "QuantizeLinear": _plain,
}
"""Operators of ``com.microsoft``; to be rewritten at the opset of the model."""
