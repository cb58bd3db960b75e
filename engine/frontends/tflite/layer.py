"""One operator while it is written: what the functions of operators read and write with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.emit import Input
from engine.frontends.formula import Formula
from engine.frontends.tflite.schema import RELU, RELU6, RELU_N1_TO_1, TANH, Operator
from engine.frontends.tflite.tensors import (
    FIRST,
    LAST,
    NUMBERS,
    Frame,
    Tensors,
    Value,
    checked_shape,
    quantization_of,
)

Handler = Callable[["Layer"], None]

_BOUNDS = {RELU: (0.0, math.inf), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
"""Fused activation -> bounds of the result (ActivationFunctionType)."""


class Layer:
    """One operator while it is written: what a handler works with.

    Attributes:
        operator: as the file has it.
        name: of the layer: that of its first output, as the file names no operators.
        tensors: of the file, and their forms in the graph.
        inline: writes the subgraph of a number with values as its inputs; its outputs.
    """

    def __init__(
        self,
        tensors: Tensors,
        frame: Frame,
        operator: Operator,
        inline: Callable[[int, Sequence[Value]], list[Value]],
    ) -> None:
        self.tensors = tensors
        self.emit = tensors.emit
        self.inline = inline
        self.operator = operator
        self._frame = frame
        self._constants: dict[int, tuple[np.ndarray, str]] = {}
        first = frame.graph.tensors[operator.outputs[0]].name if operator.outputs else ""
        self.name = sanitize(first, 200) or operator.type.lower()

    @cached_property
    def inputs(self) -> list[Value | None]:
        """Its tensors; None where one is left out."""
        return [
            None if index < 0 else self.tensors.value(self._frame, index)
            for index in self.operator.inputs
        ]

    # ------------------------------------------------------------------------------ reading

    def has(self, index: int) -> bool:
        """Whether input ``index`` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int = 0) -> Value:
        """Input ``index``."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise ValueError(f"input {index} is left out")
        return value

    @property
    def given(self) -> list[Value]:
        """All inputs of a layer that leaves none out."""
        return [self.input(index) for index in range(len(self.inputs))]

    def float_option(self, name: str) -> float:
        """An option that is a float32."""
        value = self.operator.options[name]
        if isinstance(value, tuple):
            raise TypeError(f"option {name} is a list")
        return float(value)

    def int_option(self, name: str) -> int:
        """An option that is a whole number or a switch."""
        return int(self.float_option(name))

    @property
    def activation(self) -> int:
        """The fused activation; 0 where it has none."""
        return self.int_option("activation") if "activation" in self.operator.options else 0

    def list_option(self, name: str) -> list[int]:
        """An option that is a list of whole numbers."""
        value = self.operator.options[name]
        if not isinstance(value, tuple):
            raise TypeError(f"option {name} is not a list")
        return [int(number) for number in value]

    def array(self, index: int, what: str) -> np.ndarray:
        """The numbers of a constant input; ``what`` names it where it is computed at run time."""
        array = self.input(index).array
        if array is None:
            raise self.refusal(f"its {what} is computed from the inputs at run time")
        return array

    def ints(self, index: int, what: str) -> list[int]:
        """A constant input as whole numbers."""
        return [int(number) for number in self.array(index, what).reshape(-1)]

    def axis(self, number: int, rank: int | None = None) -> int:
        """An axis counted from the front."""
        rank = self.input(0).rank if rank is None else rank
        axis = number + rank if number < 0 else number
        if not 0 <= axis < rank:
            raise ValueError(f"axis {number} of a tensor of {rank} dimensions")
        return axis

    def stored(self, index: int = 0, layout: str = LAST) -> str:
        """Input ``index`` as it is stored."""
        return self.tensors.stored(self.input(index), layout)

    def real(self, index: int = 0, layout: str = LAST) -> str:
        """Input ``index`` in real numbers."""
        return self.tensors.real(self.input(index), layout)

    def layout(self, *indices: int) -> str:
        """Channels first where every one of these inputs (default: the first) has that form."""
        values = [self.input(index) for index in indices or (0,)]
        return FIRST if all(FIRST in value.forms for value in values) else LAST

    def refusal(self, why: str) -> UnsupportedOperatorError:
        """The error for this layer: its operator, its name, the reason and where to cut.

        What is advised as ``outputs`` is computed: constants, those that layers made (weights in
        float16 behind a DEQUANTIZE) among them, and inputs of the model are no outputs.
        """
        graph, known = self._frame.graph, self._frame.values
        feeds = [
            graph.tensors[i].name
            for i in dict.fromkeys(self.operator.inputs)
            if i >= 0
            and graph.tensors[i].data is None
            and i not in graph.inputs
            and (i not in known or known[i].array is None)
        ]
        shown = ", ".join(repr(sanitize(name, 100)) for name in feeds[:4])
        return UnsupportedOperatorError(
            f"{sanitize(self.tensors.file)}: layer {self.name!r} is the operator "
            f"{sanitize(self.operator.label, 80)}, which is not converted: {why}.",
            cause="Only what is computed exactly as TFLite does is converted.",
            remedy=f"Cut the graph before it: outputs: [{shown}]."
            if shown
            else "Convert the model without it.",
        )

    # ------------------------------------------------------------------------------ writing

    def node(self, op: str, inputs: Sequence[Input], name: str = "", **attributes: Any) -> str:
        """A node; its output's name."""
        return self.emit.node(op, inputs, name, **attributes)

    def output(self, index: int, shape: Sequence[int]) -> Value:
        """Output ``index`` of the layer, with its shape; it has no form yet."""
        number = self.operator.outputs[index]
        tensor = self._frame.graph.tensors[number]
        if tensor.dtype not in NUMBERS:
            raise self.refusal(f"its result holds {tensor.dtype}")
        sizes = checked_shape(tuple(int(size) for size in shape), tensor.name)
        quant = quantization_of(tensor, sizes)
        value = Value(tensor.name, sizes, tensor.dtype, quant)
        self._frame.values[number] = value
        return value

    @property
    def outputs(self) -> int:
        """How many outputs the layer has."""
        return len(self.operator.outputs)

    def dtype(self, index: int = 0) -> str:
        """Element type of output ``index``, as the file says."""
        return self._frame.graph.tensors[self.operator.outputs[index]].dtype

    def constant(self, index: int, array: np.ndarray) -> None:
        """Output ``index`` is a constant."""
        value = self.output(index, array.shape)
        value.array = array.astype(value.dtype)

    def same(self, index: int, value: Value) -> None:
        """Output ``index`` is an input, unchanged."""
        output = self.output(index, value.shape)
        if output.dtype != value.dtype:
            raise ValueError(f"its output is {output.dtype} and its input {value.dtype}")
        output.array, output.forms, output.reals = value.array, value.forms, value.reals

    def result(
        self,
        op: str,
        inputs: Sequence[Input],
        shape: Sequence[int],
        *,
        layout: str = LAST,
        index: int = 0,
        activation: int = 0,
        **attributes: Any,
    ) -> Value:
        """The node that gives output ``index``, with its fused activation and quantization.

        Args:
            shape: of the output, in the file's layout.
            layout: of what the node gives.
            activation: ``ActivationFunctionType``.
        """
        value = self.output(index, shape)
        self.write(value, op, inputs, layout, activation, **attributes)
        return value

    def each(self, op: str, *more: str, **attributes: Any) -> None:
        """The result is an operator on every element of the first input, in the layout it has."""
        layout = self.layout(0)
        inputs, shape = [self.real(0, layout), *more], self.input(0).shape
        self.result(op, inputs, shape, layout=layout, **attributes)

    def formula(self, index: int) -> tuple[Formula, str]:
        """An input in real numbers to compute with, and the layout that it has."""
        layout = self.layout(index)
        return self.emit.formula(self.real(index, layout)), layout

    def give(
        self, formula: Formula, shape: Sequence[int], layout: str = LAST, activation: int = 0
    ) -> None:
        """The result is that of a formula."""
        op, inputs, attributes = formula.last
        self.result(op, inputs, shape, layout=layout, activation=activation, **attributes)

    def write(
        self,
        value: Value,
        op: str,
        inputs: Sequence[Input],
        layout: str = LAST,
        activation: int = 0,
        **attributes: Any,
    ) -> None:
        """The node that gives ``value`` in ``layout``."""
        name = self.tensors.name_for(value, layout)
        if value.quant is not None:
            real = self.emit.node(op, inputs, f"{name}_real", **attributes)
            self._quantize(value, real, layout, activation)
            return
        if not activation:
            value.forms[layout] = self.emit.node(op, inputs, name, **attributes)
            return
        real = self.node(op, inputs, **attributes)
        value.forms[layout] = self.activated(real, activation, name, value.dtype)

    def _quantize(self, value: Value, real: str, layout: str, activation: int) -> None:
        """The QuantizeLinear of a node; a clamp where the integers do not clamp by themselves.

        The clamp comes after quantization, so that ONNX Runtime still makes one integer kernel of
        the operator before it.
        """
        if activation and not self._saturates(value, activation):
            parameters = self.tensors.parameters(value)
            axis = value.axis_in(layout)
            stored = self.node("QuantizeLinear", [real, *parameters], axis=axis)
            again = self.node("DequantizeLinear", [stored, *parameters], axis=axis)
            real = self.activated(again, activation)
        self.quantized(value, real, layout)

    def quantized(self, value: Value, real: str, layout: str) -> None:
        """``value`` is the quantized form of ``real``."""
        axis = value.axis_in(layout)
        parameters = self.tensors.parameters(value)
        name = self.tensors.name_for(value, layout)
        value.forms[layout] = self.node("QuantizeLinear", [real, *parameters], name, axis=axis)

    def dequantized(self, value: Value, stored: Value, layout: str) -> None:
        """``value`` is the real form of ``stored``."""
        inputs = [self.tensors.stored(stored, layout), *self.tensors.parameters(stored)]
        name, axis = self.tensors.name_for(value, layout), stored.axis_in(layout)
        value.forms[layout] = self.node("DequantizeLinear", inputs, name, axis=axis)

    def once(self, array: np.ndarray, hint: str) -> str:
        """The name of a constant that is written once, however often this layer asks for it."""
        if id(array) not in self._constants:
            # the array is kept, so that its id stays its own
            self._constants[id(array)] = (array, self.emit.constant(array, hint))
        return self._constants[id(array)][1]

    def _saturates(self, value: Value, activation: int) -> bool:
        """Whether the range of the integers is within the bounds of the activation already."""
        if activation not in _BOUNDS or value.quant is None or value.quant.axis >= 0:
            return False
        info = np.iinfo(value.dtype)
        scale, zero = np.float32(value.quant.scale[0]), int(value.quant.zero_point[0])
        low, high = _BOUNDS[activation]
        lowest = zero + np.rint(np.float32(low) / scale)
        highest = zero + np.rint(np.float32(high) / scale)
        return bool(lowest <= info.min and highest >= info.max)

    def activated(self, real: str, activation: int, name: str = "", dtype: str = "float32") -> str:
        """A fused activation on real numbers, or on plain integers of ``dtype``."""
        if activation == 0:
            return real
        if activation == TANH:
            return self.node("Tanh", [real], name)
        if activation not in _BOUNDS:
            raise self.refusal(f"its fused activation {activation} is not known")
        low, high = _BOUNDS[activation]
        if high == math.inf:
            return self.node("Relu", [real], name)
        bounds = [self.emit.scalar(low, dtype), self.emit.scalar(high, dtype)]
        return self.node("Clip", [real, *bounds], name)

    def part(self, value: Value, shape: Sequence[int]) -> Value:
        """``value`` in another shape of as many elements, its integers kept."""
        sizes = tuple(int(size) for size in shape)
        if sizes == value.shape:
            return value
        if value.quant is not None and value.quant.axis >= 0:
            raise self.refusal("it reshapes a tensor with a scale per channel")
        if value.array is not None:
            return value.rearranged(value.array.reshape(sizes))
        stored = self.node("Reshape", [self.tensors.stored(value), list(sizes)])
        return Value(value.name, sizes, value.dtype, value.quant, None, {LAST: stored})
