"""ONNX Runtime's own operators in terms of ONNX's, and those of ONNX's that it computes otherwise.

``QLinearConv(x, ...)`` is ``QuantizeLinear(Conv(DequantizeLinear(x), ...))``: the same numbers by
ONNX's definition, and ONNX Runtime builds its integer kernels from either form. Every stage of this
program knows the latter. ``ConvInteger``, ``MatMulInteger`` and ``DynamicQuantizeLinear`` stay as
they are: their scales are computed at run time.

Operators of ONNX's own domain are rewritten at the pinned opset, where scales per channel exist;
those of ONNX Runtime's (``com.microsoft``, docs/ContribOperators.md of onnxruntime) at the model's,
so that types can be inferred. Those with a short definition are written out; attention and the like
are refused by name, as any operator of another domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import helper

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.formula import Formula, apply, sigmoid, tanh
from engine.graph.ir.rewriting import Context, Replacement, Rewrite, attribute, rewrite, without

# DequantizeLinear and QuantizeLinear take an axis from here on
_PER_AXIS = 13


_QDQ = (
    "Export the model with opset 13 or newer in ONNX Runtime's QDQ format, or cut the node off "
    "with 'inputs' or 'outputs'."
)


def unfit(node: onnx.NodeProto, why: str, remedy: str = _QDQ) -> UnsupportedOperatorError:
    """The error for a node that cannot be rewritten in terms of ONNX's own operators."""
    return UnsupportedOperatorError(
        f"{sanitize(node.op_type, 60)} at node {sanitize(node.name, 100)!r} cannot be taken: "
        f"{why}.",
        remedy=remedy,
    )


class _Quantized(Replacement):
    """Writes the Q/DQ nodes around one node."""

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
        attributes = {"axis": axis} if scale.ndim else {}
        return self.node("DequantizeLinear", inputs, f"{name}_dequantized", **attributes)

    def op(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The float operator; gives the name of its result."""
        name = self.replaced.name
        return self.node(op, inputs, f"{self._base}_float", name=name, **attributes)

    def quantize(self, result: str, index: int) -> Sequence[onnx.NodeProto]:
        """Quantize the result by scale and zero point at ``index``; gives all nodes."""
        if self.scale(index).ndim:
            raise unfit(self.replaced, "its result has a scale per channel")
        inputs = [result, self.context.constant(f"{self._base}_scale", self.scale(index))]
        if self.given(index + 1):
            zero = self.scale(index + 1)
            inputs.append(self.context.constant(f"{self._base}_zero_point", zero))
        return self.finished(self.node("QuantizeLinear", inputs))


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


def _plain(op: str, axes: Sequence[int | None], *kept: str) -> Rewrite:
    """Operands with their scale and zero point, then those of the result.

    Args:
        op: of ONNX, in floats.
        axes: along which each operand may have a scale per channel.
        kept: attributes.
    """

    def rewritten(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
        if attribute(node, "channels_last", 0):
            raise unfit(node, "its channels come last")
        q = _Quantized(node, context)
        operands = [q.float(3 * number, axis=axis) for number, axis in enumerate(axes)]
        return q.quantize(q.op(op, operands, **q.kept(*kept)), 3 * len(axes))

    return rewritten


QLINEAR: dict[str, Rewrite] = {
    "QLinearConv": _conv,
    "QLinearMatMul": _plain("MatMul", (-2, -1)),  # per row of a, per column of b
}
"""Operators of ONNX; to be rewritten at the pinned opset."""


# -- ONNX Runtime's, at the opset of the model ---------------------------------------------------


def _concat(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """Scale and zero point of the result come first, then three inputs per part."""
    q = _Quantized(node, context)
    parts = [q.float(index) for index in range(2, len(node.input), 3)]
    return q.quantize(q.op("Concat", parts, **q.kept("axis")), 0)


def _softmax(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """``opset`` says whose Softmax is meant: until 12 that of the tensor flattened to two axes."""
    meant = attribute(node, "opset", 0)
    if (meant < 13) != (context.opset < 13):
        raise unfit(node, f"it means Softmax of opset {meant}")
    return _plain("Softmax", (None,), "axis")(node, context)


def _where(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    q = _Quantized(node, context)
    return q.quantize(q.op("Where", [q.given(0), q.float(1), q.float(4)]), 7)


def _gemm(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """A and b, int32 c in units of alpha and both scales; a result without a scale is float."""
    q = _Quantized(node, context)
    alpha = attribute(node, "alpha", 1.0)
    columns = 0 if attribute(node, "transB", 0) else 1
    if q.scale(4).ndim and context.opset < _PER_AXIS:
        raise unfit(node, f"opset {context.opset} has no scales per channel")
    inputs = [q.float(0), q.float(3, axis=columns)]
    if q.given(6):
        scale = np.asarray(np.float32(alpha) * q.scale(1) * q.scale(4), np.float32)
        inputs.append(q.dequantized(q.given(6), scale, None, 0))
    result = q.op("Gemm", inputs, **q.kept("alpha", "transA", "transB"))
    return q.quantize(result, 7) if q.given(7) else q.finished(result)


def _renamed(node: onnx.NodeProto, context: Context) -> None:
    """Quantize- and DequantizeLinear of ONNX Runtime are ONNX's, with types that came later."""
    node.domain = ""


_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")

MICROSOFT_QLINEAR: dict[str, Rewrite] = {
    "DequantizeLinear": _renamed,
    "QGemm": _gemm,
    "QLinearAdd": _plain("Add", (None, None)),
    "QLinearAveragePool": _plain("AveragePool", (None,), *_POOL),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _plain("GlobalAveragePool", (None,)),
    "QLinearLeakyRelu": _plain("LeakyRelu", (None,), "alpha"),
    "QLinearMul": _plain("Mul", (None, None)),
    "QLinearSigmoid": _plain("Sigmoid", (None,)),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _where,
    "QuantizeLinear": _renamed,
}
"""Operators of ``com.microsoft``; to be rewritten at the opset of the model."""


MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""


def is_written_out(node: onnx.NodeProto) -> bool:
    """Whether :func:`write_out` knows the operator."""
    return node.domain == MICROSOFT and node.op_type in _REWRITES


def write_out(graph: onnx.GraphProto, opset: int) -> None:
    """Rewrite ONNX Runtime's operators, in place and within the model's opset.

    Raises:
        UnsupportedOperatorError: a form that has no equal; names the node.
    """
    rewrite(graph, _REWRITES, domain=MICROSOFT, opset=opset)


class _Written(Replacement):
    """Writes one node out; constants are float32, other floats are refused by type inference."""

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Add an operator; gives the name of its result."""
        return super().node(op, inputs, output, name=self.replaced.name, **attributes)

    def x(self, index: int = 0) -> Formula:
        """An input to compute with."""
        return Formula.of(self, self.replaced.input[index])

    def plus(self, x: Formula, index: int) -> Formula:
        """``x`` and the input ``index``, where that is given."""
        return x + self.given(index) if self.given(index) else x

    def mean(self, x: Formula) -> Formula:
        """The mean over the last axis, which is kept."""
        if self.context.opset < 18:
            return apply("ReduceMean", x, axes=[-1], keepdims=1)
        return x.reduced("ReduceMean", -1)


def _written(write: Callable[[_Written], Sequence[Formula | None]]) -> Rewrite:
    """A rewrite; what ``write`` gives become the outputs of the node, where it has them."""

    def rewritten(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
        at = _Written(node, context)
        return at.finished(*("" if result is None else result.written() for result in write(at)))

    return rewritten


# -- activations ---------------------------------------------------------------------------------


def _erf_gelu(x: Formula) -> Formula:
    """``x / 2 * (1 + erf(x / sqrt 2))``."""
    return x * (apply("Erf", x / sqrt(2)) + 1) * 0.5


def _fast_gelu(w: _Written) -> Sequence[Formula]:
    """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``, after an optional bias."""
    x = w.plus(w.x(), 1)
    return [x * (tanh((x + x * x * x * 0.044715) * sqrt(2 / pi)) + 1) * 0.5]


def _activated(w: _Written, x: Formula) -> Sequence[Formula]:
    """The activation of a fused node, by its ``activation`` and ``activation_params``."""
    kind = attribute(w.replaced, "activation", b"").decode("utf-8", "replace")
    numbers = attribute(w.replaced, "activation_params", list[float]())
    match kind, numbers:
        case "", _:
            return [x]
        case (("Relu" | "Sigmoid" | "Tanh"), _):
            return [apply(kind, x)]
        case "LeakyRelu", [alpha]:
            return [apply(kind, x, alpha=alpha)]
        case "HardSigmoid", [alpha, beta]:
            return [apply(kind, x, alpha=alpha, beta=beta)]
        case "Clip", [low, high] if w.context.opset < 11:
            return [apply(kind, x, min=low, max=high)]
        case "Clip", [low, high]:
            return [apply(kind, x, low, high)]
    raise unfit(w.replaced, f"its activation is {kind!r} with {len(numbers)} parameters")


# -- fused operators -----------------------------------------------------------------------------


def _fused_conv(w: _Written) -> Sequence[Formula]:
    """Convolution, then an addition (input 3), then the activation."""
    inputs = [name for name in w.replaced.input[:3] if name]
    return _activated(w, w.plus(Formula(w, "Conv", inputs, **w.kept(*_CONV)), 3))


def _fused_gemm(w: _Written) -> Sequence[Formula]:
    if any(a.name.startswith("activation_") for a in w.replaced.attribute):
        raise unfit(w.replaced, "its activation has parameters")
    kept = w.kept("alpha", "beta", "transA", "transB")
    return _activated(w, Formula(w, "Gemm", list(w.replaced.input), **kept))


def _fused_matmul(w: _Written) -> Sequence[Formula]:
    """``alpha * A' * B'``, with matrices transposed where the attributes say so."""
    node = w.replaced
    if attribute(node, "transBatchA", 0) or attribute(node, "transBatchB", 0):
        raise unfit(node, "it transposes batches")
    sides = list(node.input[:2])
    for index, flag in enumerate(("transA", "transB")):
        if not attribute(node, flag, 0):
            continue
        shape = w.context.shape(sides[index])
        if shape is None or len(shape) < 2:
            raise unfit(node, "the rank of what it transposes is not known")
        rank = len(shape)
        perm = [*range(rank - 2), rank - 1, rank - 2]
        sides[index] = w.node("Transpose", [sides[index]], perm=perm)
    y, alpha = Formula(w, "MatMul", sides), attribute(w.replaced, "alpha", 1.0)
    return [y if alpha == 1 else y * alpha]


def _skip_norm(w: _Written, *, centred: bool) -> Sequence[Formula | None]:
    """Normalizes ``input + skip + bias`` over the last axis: gamma is input 2.

    With ``centred`` by mean and deviation, beta is input 3 and bias 4; without, by the root of
    the mean square, and bias is input 3.
    """
    if any(w.replaced.output[1:3]):
        raise unfit(w.replaced, "its mean and deviation are used")
    whole = w.plus(w.x() + w.replaced.input[1], 4 if centred else 3)
    x = whole - w.mean(whole) if centred else whole
    variance = w.mean(x * x) + attribute(w.replaced, "epsilon", 1e-12)
    y = x / apply("Sqrt", variance) * w.replaced.input[2]
    return [w.plus(y, 3) if centred else y, None, None, whole]


_REWRITES: dict[str, Rewrite] = {
    **MICROSOFT_QLINEAR,
    "BiasGelu": _written(lambda w: [_erf_gelu(w.plus(w.x(), 1))]),
    "FastGelu": _written(_fast_gelu),
    "FusedConv": _written(_fused_conv),
    "FusedGemm": _written(_fused_gemm),
    "FusedMatMul": _written(_fused_matmul),
    "Gelu": _written(lambda w: [_erf_gelu(w.x())]),
    "QuickGelu": _written(
        lambda w: [w.x() * sigmoid(w.x() * attribute(w.replaced, "alpha", 1.702))]
    ),
    "SkipLayerNormalization": _written(partial(_skip_norm, centred=True)),
    "SkipSimplifiedLayerNormalization": _written(partial(_skip_norm, centred=False)),
}


# Operators of the pinned opset in which ONNX Runtime differs from ONNX, or which it lacks.
#
# They are brought to a form that both agree on, or refused by name.


def complete(graph: onnx.GraphProto) -> None:
    """Write defaults out that ONNX's own inference does not find; before inference, in place."""
    rewrite(graph, _BEFORE)


def rewrite_for_ort(graph: onnx.GraphProto, weights: Mapping[str, onnx.TensorProto]) -> bool:
    """Rewrite what ONNX Runtime does otherwise; in place, at the pinned opset, after inference.

    Args:
        graph: the graph.
        weights: the constants that were stripped from it.

    Returns:
        Whether anything changed: then types are to be inferred again.

    Raises:
        UnsupportedOperatorError: what has no form that both agree on.
    """
    return rewrite(graph, _AFTER, weights=weights)


def _axes_of_variance(node: onnx.NodeProto, context: Context) -> None:
    """MeanVarianceNormalization over batch, height and width, which is the default."""
    if not any(a.name == "axes" for a in node.attribute):
        node.attribute.append(helper.make_attribute("axes", [0, 2, 3]))


def _batch_first(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """``layout`` 1 of recurrent operators, which ONNX Runtime's kernels do not take."""
    if not attribute(node, "layout", 0):
        return None
    without(node, "layout")
    before, after = [], []
    for index, perm in ((0, [1, 0, 2]), (5, [1, 0, 2]), (6, [1, 0, 2])):
        if index < len(node.input) and node.input[index]:
            turned = context.name(f"{node.input[index]}_time_first")
            before.append(helper.make_node("Transpose", [node.input[index]], [turned], perm=perm))
            node.input[index] = turned
    for index, name in enumerate(node.output):
        if name:
            inner = context.name(f"{name}_time_first")
            perm = [2, 0, 1, 3] if index == 0 else [1, 0, 2]
            after.append(helper.make_node("Transpose", [inner], [name], perm=perm))
            node.output[index] = inner
    return [*before, node, *after]


def _unpooled(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """MaxUnpool with an output shape: indices count in the size without it, zeros fill the rest.

    ONNX Runtime counts in the given size, and so puts values elsewhere than the operator's own
    tests want.
    """
    if len(node.input) < 3 or not node.input[2]:
        return None
    shape = context.shape(node.input[0])
    if shape is None:
        raise _refusal(node, "it has an output shape, and the size of its input is not known")
    at = Replacement(node, context)
    kept = at.kept("kernel_shape", "pads", "strides")
    plain = at.node("MaxUnpool", node.input[:2], name=node.name, **kept)
    more = at.node("Sub", [node.input[2], at.node("Shape", [plain])])
    pads = at.node("Concat", [at.ints(*[0] * len(shape)), more], axis=0)
    return at.finished(at.node("Pad", [plain, pads]))


def _random_dropout(node: onnx.NodeProto, context: Context) -> None:
    """Dropout in training mode is random: no build of it could be compared with the model."""
    training = context.known(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    has_ratio = len(node.input) > 1 and node.input[1]
    ratio = context.known(node.input[1]) if has_ratio else None
    if training is not None and training.any() and not (ratio is not None and not ratio.any()):
        raise _refusal(node, "it is in training mode, in which its result is random")


def _ceil_pool(node: onnx.NodeProto, context: Context) -> None:
    """A last window that would start in the padding at the end does not exist.

    Opset 22 says so and ONNX Runtime does so in every opset, but inference of opset 21 counts it.
    Where some axis loses its window, the sizes are written out as padding, without ``ceil_mode``.
    """
    shape = context.shape(node.input[0])
    mode = attribute(node, "auto_pad", b"NOTSET")
    if (
        not attribute(node, "ceil_mode", 0)
        or shape is None
        or mode not in (b"NOTSET", b"VALID", b"")
    ):
        return
    kernel = attribute(node, "kernel_shape", list[int]())
    rank = len(kernel)
    strides = attribute(node, "strides", [1] * rank)
    dilations = attribute(node, "dilations", [1] * rank)
    pads = attribute(node, "pads", [0] * (2 * rank)) if mode != b"VALID" else [0] * (2 * rank)
    if len(shape) != rank + 2 or len(strides) != rank or len(pads) != 2 * rank or 0 in strides:
        return
    loses = widens = False
    for axis in range(rank):
        window = dilations[axis] * (kernel[axis] - 1) + 1
        room = shape[axis + 2] + pads[axis] + pads[rank + axis] - window
        over = -room % strides[axis]
        if over and room + over >= shape[axis + 2] + pads[axis]:
            loses = True
        elif over:
            widens = True
            pads[rank + axis] += over
    if not loses:
        return
    if widens and attribute(node, "count_include_pad", 0):
        raise _refusal(node, "ceil_mode enlarges one axis and not another, and padding is counted")
    without(node, "ceil_mode", "pads", "auto_pad")
    node.attribute.append(helper.make_attribute("pads", pads))


def _refusal(node: onnx.NodeProto, why: str) -> UnsupportedOperatorError:
    remedy = (
        "Change it before exporting, or cut it off: name the tensor before it in 'outputs', or "
    )
    return unfit(node, why, f"{remedy}the one after it in 'inputs'.")


_BEFORE: dict[str, Rewrite] = {"MeanVarianceNormalization": _axes_of_variance}

_AFTER: dict[str, Rewrite] = {
    "AveragePool": _ceil_pool,
    "Dropout": _random_dropout,
    "GRU": _batch_first,
    "LSTM": _batch_first,
    "LpPool": _ceil_pool,
    "MaxPool": _ceil_pool,
    "MaxUnpool": _unpooled,
    "RNN": _batch_first,
    **QLINEAR,
}
