"""Functions that TFLite has no operator for, in float32 by operators that it has.

On 8 bits those of one value are tables instead (:mod:`engine.export.tflite.elementwise`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from engine.export.tflite.emitter import Emitter, Form
from engine.export.tflite.layer import Layer

_SELU = (1.6732632423543772, 1.0507009873554805)
"""Alpha and gamma, where a node does not give them (ONNX, Selu)."""


class Formula:
    """Operators in a row, each of which writes a float32 tensor of its own."""

    def __init__(self, emitter: Emitter, label: str) -> None:
        self._emitter = emitter
        self._label = label

    def number(self, *values: float) -> int:
        """A constant; one number, or a row of them."""
        return self._emitter.constant("number", np.array(values, np.float32))

    def __call__(self, kind: str, *inputs: int) -> int:
        """An operator on values that are broadcast."""
        shape = np.broadcast_shapes(*map(self._emitter.shape, inputs))
        return self._emitter.compute(kind, inputs, self._name(kind), shape)

    def over(self, kind: str, source: int, axes: Sequence[int], *, keep: bool = True) -> int:
        """A reduction over axes; they stay with size 1 where ``keep``."""
        before = self._emitter.shape(source)
        gone = {axis % len(before) for axis in axes}
        shape = [1 if at in gone else size for at, size in enumerate(before)]
        if not keep:
            shape = [size for at, size in enumerate(before) if at not in gone]
        where = self._emitter.ints("axes", sorted(gone))
        return self._emitter.compute(kind, [source, where], self._name(kind), shape, keep_dims=keep)

    def _name(self, kind: str) -> str:
        return f"{self._label}/{kind.lower()}"


def by_formula(layer: Layer, emitter: Emitter, form: Form) -> None:
    """A function of one value that is in :data:`FORMULAS`, in float32."""
    formula = Formula(emitter, layer.target.value.name or layer.node.op_type)
    result = FORMULAS[layer.node.op_type](layer, formula, emitter.as_float(layer.data, form))
    emitter.finish(layer.target, form, result)


def _reciprocal(layer: Layer, f: Formula, x: int) -> int:
    return f("DIV", f.number(1.0), x)


def _hard_sigmoid(layer: Layer, f: Formula, x: int) -> int:
    alpha, beta = layer.attribute("alpha", 0.2), layer.attribute("beta", 0.5)
    line = f("ADD", f("MUL", x, f.number(alpha)), f.number(beta))
    return f("MAXIMUM", f("MINIMUM", line, f.number(1.0)), f.number(0.0))


def _softplus(layer: Layer, f: Formula, x: int) -> int:
    """``max(x, 0) + log(1 + exp(-|x|))``, which does not overflow."""
    small = f("EXP", f("NEG", f("ABS", x)))
    return f("ADD", f("RELU", x), f("LOG", f("ADD", small, f.number(1.0))))


def _mish(layer: Layer, f: Formula, x: int) -> int:
    return f("MUL", x, f("TANH", _softplus(layer, f, x)))


def _softsign(layer: Layer, f: Formula, x: int) -> int:
    return f("DIV", x, f("ADD", f("ABS", x), f.number(1.0)))


def _below_zero(f: Formula, x: int, alpha: float, scale: float = 1.0) -> int:
    """``alpha (exp(min(x, 0) / scale) - 1)``."""
    low = f("MINIMUM", x, f.number(0.0))
    if scale != 1.0:
        low = f("DIV", low, f.number(scale))
    return f("MUL", f("SUB", f("EXP", low), f.number(1.0)), f.number(alpha))


def _elu(layer: Layer, f: Formula, x: int) -> int:
    return f("ADD", f("RELU", x), _below_zero(f, x, layer.attribute("alpha", 1.0)))


def _celu(layer: Layer, f: Formula, x: int) -> int:
    alpha = layer.attribute("alpha", 1.0)
    return f("ADD", f("RELU", x), _below_zero(f, x, alpha, alpha))


def _selu(layer: Layer, f: Formula, x: int) -> int:
    alpha, gamma = layer.attribute("alpha", _SELU[0]), layer.attribute("gamma", _SELU[1])
    return f("MUL", f("ADD", f("RELU", x), _below_zero(f, x, alpha)), f.number(gamma))


def _swish(layer: Layer, f: Formula, x: int) -> int:
    alpha = layer.attribute("alpha", 1.0)
    inner = x if alpha == 1.0 else f("MUL", x, f.number(alpha))
    return f("MUL", x, f("LOGISTIC", inner))


def _atan(layer: Layer, f: Formula, x: int) -> int:
    one = f.number(1.0)  # in the shape of x: ATAN2 does not broadcast
    return f("ATAN2", x, f("MINIMUM", f("MAXIMUM", x, one), one))


FORMULAS: Mapping[str, Callable[[Layer, Formula, int], int]] = {
    "Atan": _atan,
    "Celu": _celu,
    "Elu": _elu,
    "HardSigmoid": _hard_sigmoid,
    "Mish": _mish,
    "Reciprocal": _reciprocal,
    "Selu": _selu,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Swish": _swish,
}
"""Operator -> its formula."""
