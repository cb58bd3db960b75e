"""Where tensors of the graph are in the file: in which layout, and with which parameters.

A tensor of three or more dimensions can be there twice: as ONNX has it (channels second), and with
its channels last, as windows of TFLite want it. A form that is not there yet is made by a TRANSPOSE
of the other; it moves values and changes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.export.tflite.writer import KINDS, Option, Quant, TfliteWriter, type_number
from engine.graph.ir import constant_of

Form = bool
PLAIN: Form = False
LAST: Form = True
"""Channels last."""


def kind_of(value: ir.Value) -> str:
    """The type of a tensor in the file where it is not quantized; all floats are float32.

    Raises:
        UnsupportedOperatorError: the file has no such type.
    """
    kind = "float32" if value.dtype is None else value.dtype.numpy().name
    if kind in ("float16", "bfloat16", "float64"):
        return "float32"
    if kind not in KINDS:
        raise UnsupportedOperatorError(
            f"The tensor {sanitize(value.name or '')!r} is {kind}, which is not written to TFLite.",
            remedy="Export QDQ ONNX instead.",
        )
    return kind


def channels_last(rank: int) -> tuple[int, ...]:
    """The permutation from ONNX's order of dimensions to channels last."""
    return (0, *range(2, rank), 1)


def in_form(shape: Sequence[int], form: Form) -> tuple[int, ...]:
    """A shape of ONNX's order in a form."""
    if form is LAST and len(shape) > 2:
        return tuple(shape[axis] for axis in channels_last(len(shape)))
    return tuple(shape)


def refused(node: ir.Node, why: str) -> UnsupportedOperatorError:
    """The error for a layer that has no form in TFLite."""
    return UnsupportedOperatorError(
        f"{node.op_type} {sanitize(node.name or '')!r} cannot be written to TFLite: {why}.",
        cause="TFLite has fewer forms of this operator than ONNX.",
        remedy="Cut the model before it with `outputs`, or export QDQ ONNX instead.",
    )


@dataclass(frozen=True)
class Constant:
    """A constant input of a layer.

    Attributes:
        array: what is stored: integers where it has parameters, else real values.
        quant: its parameters; None of a float constant.
    """

    array: np.ndarray
    quant: Quant | None

    def as_kind(self, kind: str) -> np.ndarray:
        """Values in a type that is not quantized."""
        return self.real() if kind == "float32" else self.array.astype(kind)

    def ints(self) -> list[int]:
        """Whole numbers."""
        return [int(v) for v in self.array.reshape(-1)]

    def in_params(self, quant: Quant) -> Constant:
        """Its real values on 8 bits, in the parameters of a tensor."""
        return self if self.quant == quant else Constant(quant.stored(self.real()), quant)

    def of_stored(self, quant: Quant | None) -> Constant:
        """A bound of a tensor that is clipped as it is stored, with the tensor's parameters."""
        kind = self.array.dtype.name
        if quant is None or self.quant is not None or kind not in ("int8", "uint8"):
            return self
        array = self.array if kind == "int8" else (self.array.astype(np.int16) - 128)
        return Constant(array.astype(np.int8), quant)

    def real(self) -> np.ndarray:
        """float32 values."""
        if self.quant is None:
            return self.array.astype(np.float32)
        shape = [1] * self.array.ndim
        if len(self.quant.scale) > 1:
            shape[self.quant.axis] = -1
        scale = np.array(self.quant.scale, np.float32).reshape(shape)
        zero = np.array(self.quant.zero_point, np.int64).reshape(shape)
        return ((self.array.astype(np.int64) - zero) * scale).astype(np.float32)


@dataclass(frozen=True)
class Operand:
    """An input of a layer that an operator, or the user, writes.

    Attributes:
        value: of the graph: what is stored of it in the file.
        quant: its parameters; None of a tensor that is not quantized.
        shape: in ONNX's order.
    """

    value: ir.Value
    quant: Quant | None
    shape: tuple[int, ...]

    @property
    def kind(self) -> str:
        """The type of its tensor in the file."""
        return "int8" if self.quant is not None else kind_of(self.value)

    @property
    def computed_kind(self) -> str:
        """The type in which it is computed where that is not on 8 bits."""
        return "float32" if self.quant is not None else self.kind

    @property
    def is_real(self) -> bool:
        """Whether it has real values: float ones, or quantized."""
        return self.quant is not None or self.kind == "float32"


@dataclass(frozen=True)
class Target(Operand):
    """Where a layer writes.

    Attributes:
        activation: number in the schema of what is applied before it is stored; 0: nothing.
    """

    activation: int = 0


class Emitter(TfliteWriter):
    """The file in the making.

    Attributes:
        stateful: layers whose operator keeps a state from one run to the next.
    """

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.stateful: list[str] = []
        self._made: dict[tuple[ir.Value, Form], int] = {}

    # -- reading -------------------------------------------------------------------------------

    def has(self, value: ir.Value, form: Form) -> bool:
        """Whether a tensor is there in a form."""
        return (value, form) in self._made

    def form_of(self, operands: Sequence[Operand]) -> Form:
        """The form in which most is there already; channels last only where all have one rank."""
        ranks = {len(operand.shape) for operand in operands}
        if len(ranks) != 1 or ranks.pop() < 3:
            return PLAIN
        return any(self.has(o.value, LAST) and not self.has(o.value, PLAIN) for o in operands)

    def read(self, operand: Operand, form: Form) -> int:
        """The tensor of an operand in a form; transposed where it is there in the other only."""
        tensor = self._made.get((operand.value, form))
        if tensor is not None:
            return tensor
        source = self._made[operand.value, not form]
        if len(operand.shape) < 3:
            self._made[operand.value, form] = source
            return source
        perm = channels_last(len(operand.shape))
        if form is PLAIN:
            perm = tuple(int(axis) for axis in np.argsort(perm))
        moved = self.transpose(source, perm, self._name(operand.value, form))
        self._made[operand.value, form] = moved
        return moved

    def as_float(self, operand: Operand, form: Form) -> int:
        """The tensor of an operand as float32."""
        source = self.read(operand, form)
        return source if operand.quant is None else self.dequantized(source)

    def dequantized(self, source: int) -> int:
        """A tensor of 8 bits as float32."""
        return self.compute("DEQUANTIZE", [source], f"{self.name(source)}/float")

    def in_params(self, tensor: int, quant: Quant | None) -> int:
        """A tensor of 8 bits with other parameters; itself where they are the same."""
        if self.quant(tensor) == quant or quant is None:
            return tensor
        return self.requantized(tensor, quant, f"{self.name(tensor)}/requantized")

    def requantized(self, tensor: int, quant: Quant, name: str) -> int:
        """The same values with other parameters, rounded as the graph does.

        By way of float32: a QUANTIZE from int8 to int8 multiplies by a factor of few bits, and one
        value in 3000 was a step off, which layers behind it made six.
        """
        source = self.dequantized(tensor)
        output = self.tensor(name, self.shape(tensor), "int8", quant)
        self.emit("QUANTIZE", [source], [output])
        return output

    def ints(self, name: str, values: npt.ArrayLike) -> int:
        """A constant tensor of int32, as shapes, axes and paddings are."""
        return self.constant(name, np.asarray(values, np.int32))

    # -- writing -------------------------------------------------------------------------------

    def compute(
        self,
        name: str,
        inputs: Sequence[int],
        label: str,
        shape: Sequence[int] | None = None,
        kind: str = "float32",
        **options: Option,
    ) -> int:
        """Add an operator with one output of its own, which is not quantized; its number.

        Args:
            label: of the output.
            shape: of the output; None: that of the first input.
        """
        output = self.tensor(label, self.shape(inputs[0]) if shape is None else shape, kind)
        self.emit(name, inputs, [output], **options)
        return output

    def move(
        self, name: str, inputs: Sequence[int], shape: Sequence[int], label: str, **options: Option
    ) -> int:
        """Add an operator whose output has type and parameters of its first input; its number."""
        output = self.like(inputs[0], label, shape)
        self.emit(name, inputs, [output], **options)
        return output

    def write(
        self,
        target: Target,
        form: Form,
        name: str,
        inputs: Sequence[int],
        quant: Quant | None = None,
        **options: Option,
    ) -> None:
        """Add the operator that writes what a layer does.

        Args:
            quant: parameters that the operator asks for; see :meth:`output`.
        """
        output = self.output(target, form, quant)
        self.emit(name, inputs, [output], **options)
        self.settle(target, form, output)

    def carry(
        self, target: Target, form: Form, name: str, inputs: Sequence[int], **options: Option
    ) -> None:
        """:meth:`write` of an operator that keeps the parameters of its first input."""
        self.write(target, form, name, inputs, self.quant(inputs[0]), **options)

    def cast(self, source: int, kind: str) -> int:
        """A tensor, as it is stored, in another type; itself where it has it."""
        before = self.kind(source)
        if before == kind:
            return source
        return self.compute(
            "CAST",
            [source],
            f"{self.name(source)}/{kind}",
            kind=kind,
            in_data_type=type_number(before),
            out_data_type=type_number(kind),
        )

    def finish(self, target: Target, form: Form, tensor: int) -> None:
        """Say that a tensor, as it was computed, is what a layer writes; a float one is quantized
        where the target is.
        """
        if target.quant is not None and self.quant(tensor) is None:
            output = self.output(target, form)
            self.emit("QUANTIZE", [tensor], [output])
            tensor = output
        self.settle(target, form, tensor)

    def transpose(self, source: int, perm: Sequence[int], name: str) -> int:
        """A tensor with its dimensions in another order."""
        shape = self.shape(source)
        turned = [shape[axis] for axis in perm]
        return self.move("TRANSPOSE", [source, self.ints("perm", perm)], turned, name)

    def reshape(self, source: int, shape: Sequence[int], name: str) -> int:
        """The same values in another shape; itself where it has it."""
        if self.shape(source) == tuple(shape):
            return source
        return self.move("RESHAPE", [source, self.ints("shape", shape)], shape, name)

    def output(self, target: Target, form: Form, quant: Quant | None = None) -> int:
        """The tensor that the last operator of a layer writes.

        Args:
            target: where the layer writes.
            form: in which order.
            quant: parameters that the operator asks for; None: the target's own. What is then
                there in other parameters than the target's is converted by :meth:`settle`.
        """
        shape = in_form(target.shape, form)
        params = (quant or target.quant) if target.quant is not None else None
        name = self._name(target.value, form)
        if params != target.quant:
            name = f"{name}/raw"
        return self.tensor(name, shape, target.kind, params)

    def settle(self, target: Target, form: Form, tensor: int) -> None:
        """Say that a tensor is what a layer writes, converted to the target's parameters."""
        if target.quant is not None and self.quant(tensor) != target.quant:
            tensor = self.requantized(tensor, target.quant, self._name(target.value, form))
        self._made[target.value, form] = tensor

    def given(self, value: ir.Value, form: Form, tensor: int) -> None:
        """Say that a tensor of the graph is there: an input, or one that is another's."""
        self._made[value, form] = tensor

    def _name(self, value: ir.Value, form: Form) -> str:
        name = (value.name or "tensor").removesuffix("/quantized")
        rank = len(value.shape) if value.shape is not None else 0
        return f"{name}/nchw" if form is PLAIN and rank > 3 else name


def constant_array(value: ir.Value | None) -> np.ndarray | None:
    """The values of a constant; None where it is none."""
    tensor = constant_of(value)
    return None if tensor is None else np.asarray(tensor.numpy())
