"""Operators that ONNX Runtime's own optimizer and quantizer write, in terms of ONNX's.

Their meaning is that of docs/ContribOperators.md of onnxruntime. Those with a short definition are
written out; attention and the like are refused by name, as any operator of another domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import helper

from engine.frontends.formula import Formula, apply, sigmoid, tanh
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

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Add an operator; gives the name of its result."""
        out = self.context.name(output or f"{self.replaced.output[0]}_{op.lower()}")
        self.nodes.append(
            helper.make_node(op, list(inputs), [out], self.replaced.name, **attributes)
        )
        return out

    def scalar(self, value: float) -> str:
        """A constant without dimensions."""
        name = f"{self.replaced.output[0]}_constant"
        return self.context.constant(name, np.array(value, np.float32))

    def ints(self, *values: int) -> str:
        """An int64 vector."""
        return self.context.ints("last_axis", *values)

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

    def float(self, name: str, default: float) -> float:
        """A number among the attributes."""
        return next((float(a.f) for a in self.replaced.attribute if a.name == name), default)


def _written(write: Callable[[_Written], Sequence[Formula | None]]) -> Rewrite:
    """A rewrite; what ``write`` gives become the outputs of the node, where it has them."""

    def rewritten(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
        at = _Written(node, context)
        results = [None if formula is None else formula.written() for formula in write(at)]
        names = {r: out for r, out in zip(results, node.output, strict=False) if r and out}
        for inner in at.nodes:
            for field in (inner.input, inner.output):
                field[:] = [names.get(name, name) for name in field]
        return at.nodes

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
    attributes = {a.name: a for a in w.replaced.attribute}
    kind = attributes["activation"].s.decode() if "activation" in attributes else ""
    known = "activation_params" in attributes
    numbers = list(attributes["activation_params"].floats) if known else []
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

_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


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
    if attribute(node, "transBatchA") or attribute(node, "transBatchB"):
        raise unfit(node, "it transposes batches")
    sides = list(node.input[:2])
    for index, flag in enumerate(("transA", "transB")):
        if not attribute(node, flag):
            continue
        shape = w.context.shape(sides[index])
        if shape is None or len(shape) < 2:
            raise unfit(node, "the rank of what it transposes is not known")
        rank = len(shape)
        perm = [*range(rank - 2), rank - 1, rank - 2]
        sides[index] = w.node("Transpose", [sides[index]], perm=perm)
    y, alpha = Formula(w, "MatMul", sides), w.float("alpha", 1.0)
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
    variance = w.mean(x * x) + w.float("epsilon", 1e-12)
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
    "QuickGelu": _written(lambda w: [w.x() * sigmoid(w.x() * w.float("alpha", 1.702))]),
    "SkipLayerNormalization": _written(partial(_skip_norm, centred=True)),
    "SkipSimplifiedLayerNormalization": _written(partial(_skip_norm, centred=False)),
}
