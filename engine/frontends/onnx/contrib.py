"""Operators that ONNX Runtime's own optimizer and quantizer write, in terms of ONNX's.

Their meaning is that of docs/ContribOperators.md of onnxruntime. Those with a short definition are
written out; attention and the like are refused by name, as any operator of another domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import helper

from engine.frontends.onnx.qlinear import MICROSOFT_QLINEAR, unfit
from engine.graph.ir.rewriting import Context, Replacement, Rewrite, attribute, rewrite

__all__ = ["MICROSOFT", "is_written_out", "write_out"]

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

    def number(self, value: float) -> str:
        """A constant without dimensions."""
        return self.context.constant(f"{self.node.output[0]}_constant", np.array(value, np.float32))

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator; gives the name of its result."""
        out = self.context.name(f"{self.node.output[0]}_{op.lower()}")
        self.nodes.append(helper.make_node(op, list(inputs), [out], self.node.name, **attributes))
        return out

    def mean(self, x: str) -> str:
        """The mean over the last axis, which is kept."""
        if self.context.opset < 18:
            return self.op("ReduceMean", x, axes=[-1], keepdims=1)
        return self.op("ReduceMean", x, self.context.ints("last_axis", -1), keepdims=1)

    def finished(self, *results: str) -> Sequence[onnx.NodeProto]:
        """All nodes; ``results`` become the outputs of the node, in order, where it has them."""
        names = {r: o for r, o in zip(results, self.node.output, strict=False) if r and o}
        for node in self.nodes:
            for field in (node.input, node.output):
                for index, name in enumerate(field):
                    field[index] = names.get(name, name)
        return self.nodes


def _float(node: onnx.NodeProto, name: str, default: float) -> float:
    return next((float(a.f) for a in node.attribute if a.name == name), default)


# -- activations ---------------------------------------------------------------------------------


def _erf_gelu(w: _Written, x: str) -> str:
    """``x / 2 * (1 + erf(x / sqrt 2))``."""
    erf = w.op("Erf", w.op("Div", x, w.number(sqrt(2))))
    return w.op("Mul", w.op("Mul", x, w.op("Add", erf, w.number(1))), w.number(0.5))


def _gelu(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    w = _Written(node, context)
    return w.finished(_erf_gelu(w, node.input[0]))


def _bias_gelu(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    w = _Written(node, context)
    return w.finished(_erf_gelu(w, w.op("Add", *node.input)))


def _fast_gelu(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``, after an optional bias."""
    w = _Written(node, context)
    x = w.op("Add", *node.input) if w.given(1) else node.input[0]
    cube = w.op("Mul", w.op("Mul", w.op("Mul", x, x), x), w.number(0.044715))
    tanh = w.op("Tanh", w.op("Mul", w.op("Add", x, cube), w.number(sqrt(2 / pi))))
    return w.finished(w.op("Mul", w.op("Mul", x, w.op("Add", tanh, w.number(1))), w.number(0.5)))


def _quick_gelu(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """``x * sigmoid(alpha * x)``."""
    w = _Written(node, context)
    x = node.input[0]
    gate = w.op("Sigmoid", w.op("Mul", x, w.number(_float(node, "alpha", 1.702))))
    return w.finished(w.op("Mul", x, gate))


def _activated(w: _Written, x: str) -> str:
    """The activation of a fused node, by its ``activation`` and ``activation_params``."""
    kind = next((a.s.decode() for a in w.node.attribute if a.name == "activation"), "")
    given = next((list(a.floats) for a in w.node.attribute if a.name == "activation_params"), [])
    if kind in ("", "Relu", "Sigmoid", "Tanh"):
        return w.op(kind, x) if kind else x
    if kind == "LeakyRelu" and len(given) == 1:
        return w.op(kind, x, alpha=given[0])
    if kind == "HardSigmoid" and len(given) == 2:
        return w.op(kind, x, alpha=given[0], beta=given[1])
    if kind == "Clip" and len(given) == 2:
        if w.context.opset < 11:
            return w.op(kind, x, min=given[0], max=given[1])
        return w.op(kind, x, w.number(given[0]), w.number(given[1]))
    raise unfit(w.node, f"its activation is {kind!r} with {len(given)} parameters")


# -- fused operators -----------------------------------------------------------------------------

_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _fused_conv(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """Convolution, then an addition (input 3), then the activation."""
    w = _Written(node, context)
    inputs = [name for name in node.input[:3] if name]
    y = w.op("Conv", *inputs, **w.kept(*_CONV))
    if w.given(3):
        y = w.op("Add", y, w.given(3))
    return w.finished(_activated(w, y))


def _fused_gemm(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    if any(a.name.startswith("activation_") for a in node.attribute):
        raise unfit(node, "its activation has parameters")
    w = _Written(node, context)
    product = w.op("Gemm", *node.input, **w.kept("alpha", "beta", "transA", "transB"))
    return w.finished(_activated(w, product))


def _fused_matmul(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """``alpha * A' * B'``, with matrices transposed where the attributes say so."""
    if attribute(node, "transBatchA") or attribute(node, "transBatchB"):
        raise unfit(node, "it transposes batches")
    w = _Written(node, context)
    a, b = node.input[0], node.input[1]
    for flag in ("transA", "transB"):
        if not attribute(node, flag):
            continue
        name = a if flag == "transA" else b
        shape = context.shape(name)
        if shape is None or len(shape) < 2:
            raise unfit(node, "the rank of what it transposes is not known")
        rank = len(shape)
        turned = w.op("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
        a, b = (turned, b) if flag == "transA" else (a, turned)
    y = w.op("MatMul", a, b)
    alpha = _float(node, "alpha", 1.0)
    return w.finished(y if alpha == 1 else w.op("Mul", y, w.number(alpha)))


def _skip_layer_norm(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """Normalizes ``input + skip + bias`` over the last axis: gamma is input 2, beta 3, bias 4."""
    if any(node.output[1:3]):
        raise unfit(node, "its mean and deviation are used")
    w = _Written(node, context)
    x = w.op("Add", node.input[0], node.input[1])
    if w.given(4):
        x = w.op("Add", x, w.given(4))
    centred = w.op("Sub", x, w.mean(x))
    y = _scaled(w, centred)
    if w.given(3):
        y = w.op("Add", y, w.given(3))
    return w.finished(y, "", "", x)


def _skip_rms_norm(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """As SkipLayerNormalization without the mean; bias is input 3."""
    if any(node.output[1:3]):
        raise unfit(node, "its mean and deviation are used")
    w = _Written(node, context)
    x = w.op("Add", node.input[0], node.input[1])
    if w.given(3):
        x = w.op("Add", x, w.given(3))
    return w.finished(_scaled(w, x), "", "", x)


def _scaled(w: _Written, x: str) -> str:
    """``x`` over the root of its mean square, times gamma (input 2)."""
    variance = w.op("Add", w.mean(w.op("Mul", x, x)), w.number(_float(w.node, "epsilon", 1e-12)))
    return w.op("Mul", w.op("Div", x, w.op("Sqrt", variance)), w.node.input[2])


_REWRITES: dict[str, Rewrite] = {
    **MICROSOFT_QLINEAR,
    "BiasGelu": _bias_gelu,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": _gelu,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
}
