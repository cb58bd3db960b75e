"""The tensors of a TFLite file while its graph is written, and their forms there.

Tensors are NHWC in the file and the windows of ONNX are NCHW. Each tensor may have both forms in
the graph; whoever reads it asks for one, and a Transpose is written the first time a form is
missing. Layers that do not care take the form that is there, so few Transposes are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.emit import Emitter
from engine.frontends.tflite.schema import Subgraph
from engine.frontends.tflite.values import (
    FIRST,
    LAST,
    Value,
    checked_constant,
    checked_shape,
    constant_array,
    quantization_of,
    to_first,
    to_last,
)

__all__ = ["Frame", "Tensors"]


@dataclass
class Frame:
    """One subgraph while it is converted: its tensors so far."""

    graph: Subgraph
    values: dict[int, Value] = field(default_factory=dict)


class Tensors:
    """Reads tensors, and writes the form that is asked for into an emitter.

    Args:
        file: its name, for errors.
        reserved: names that only tensors in the file's layout may have: those of outputs.
    """

    def __init__(self, file: str, reserved: Iterable[str]) -> None:
        self.file = file
        self.emit = Emitter(file)
        self.findings: list[Finding] = []
        self._reserved = frozenset(reserved)

    def value(self, frame: Frame, index: int) -> Value:
        """The tensor ``index``: computed, constant, or a state that starts at zero."""
        found = frame.values.get(index)
        if found is not None:
            return found
        tensor = frame.graph.tensors[index]
        if tensor.data is not None:
            array = constant_array(tensor)
        elif tensor.variable or 0 in tensor.shape:
            checked_constant(math.prod(checked_shape(tensor.shape, tensor.name)))
            array = np.zeros(tensor.shape, tensor.dtype)
        else:
            raise SourceModelError(
                f"{sanitize(self.file)}: tensor {sanitize(tensor.name, 120)!r} is read before "
                "any layer has computed it.",
                cause="The file is damaged, or 'inputs' leaves out what the outputs need.",
                remedy="Add it to 'inputs', or leave 'inputs' out.",
            )
        quant = quantization_of(tensor, tensor.shape)
        dtype = "int8" if tensor.dtype == "int4" else tensor.dtype
        frame.values[index] = Value(tensor.name, tensor.shape, dtype, quant, array)
        return frame.values[index]

    def name_for(self, value: Value, layout: str) -> str:
        """The name that a form of a tensor gets: the source's own, for the form made first."""
        name = value.name or self.emit.origin or "tensor"
        if layout == FIRST and (value.name in self._reserved or LAST in value.forms):
            return f"{name}_nchw"
        return (
            f"{name}_nhwc"
            if layout == LAST and FIRST in value.forms and (value.name not in self._reserved)
            else name
        )

    def stored(self, value: Value, layout: str = LAST) -> str:
        """The tensor with the numbers as the file stores them, in ``layout``."""
        if value.rank < 3:
            layout = LAST
        if layout not in value.forms:
            value.forms[layout] = self._form(value, layout)
        return value.forms[layout]

    def _form(self, value: Value, layout: str) -> str:
        if value.array is not None:
            array = value.array
            if layout == FIRST:
                array = array.transpose(to_first(value.rank))
            return self.emit.constant(array, self._constant_name(value, layout))
        perm = to_first(value.rank) if layout == FIRST else to_last(value.rank)
        other = value.forms[LAST if layout == FIRST else FIRST]
        shape = value.shape if layout == FIRST else [value.shape[a] for a in to_first(value.rank)]
        name = self.name_for(value, layout)
        moved = [axis for axis in perm if shape[axis] != 1]
        if moved == sorted(moved):  # only axes of length 1 change places
            sizes = self.emit.ints(*(shape[axis] for axis in perm))
            return self.emit.node("Reshape", [other, sizes], name, allowzero=1)
        return self.emit.node("Transpose", [other], name, perm=perm)

    def _constant_name(self, value: Value, layout: str) -> str:
        name = value.name or "constant"
        return f"{name}_value" if name in self._reserved or layout == FIRST else name

    def real(self, value: Value, layout: str = LAST) -> str:
        """The tensor with real numbers: dequantized where it is quantized."""
        if value.quant is None:
            return self.stored(value, layout)
        if value.rank < 3:
            layout = LAST
        if layout not in value.reals:
            stored = self.stored(value, layout)
            axis = value.quant.axis
            if layout == FIRST and axis >= 0:
                axis = to_first(value.rank).index(axis)
            inputs = [stored, *self.parameters(value)]
            value.reals[layout] = self.emit.node(
                "DequantizeLinear", inputs, f"{stored}_real", axis=axis if axis >= 0 else None
            )
        return value.reals[layout]

    def parameters(self, value: Value) -> list[str]:
        """Names of scale and zero point of a quantized tensor."""
        quant = value.quant
        if quant is None:
            raise ValueError(f"tensor {sanitize(value.name, 120)!r} has no scale")
        scale, zero = quant.scale.astype(np.float32), quant.zero_point.astype(value.dtype)
        if quant.axis < 0:
            scale, zero = scale.reshape(()), zero.reshape(())
        return [self.emit.constant(scale, "scale"), self.emit.constant(zero, "zero_point")]

    def note(self, finding: Finding) -> None:
        """Keep a finding, once."""
        if finding not in self.findings:
            self.findings.append(finding)
