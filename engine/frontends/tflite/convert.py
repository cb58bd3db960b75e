"""From the operators of a TFLite file to the engine's graph: the walk, and what it keeps track of.

Tensors are NHWC in the file and the windows of ONNX are NCHW. Each tensor may have both forms in
the graph; whoever reads it asks for one, and a Transpose is written the first time a form is
missing. Layers that do not care take the form that is there, so few Transposes are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.base.errors import EngineError, SourceModelError
from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import printable
from engine.frontends.emit import Emitter
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.schema import Model, Operator, Subgraph
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

__all__ = ["Converter", "Frame", "Tables"]

_MAX_DEPTH = 16
_MAX_LAYERS = 20_000
# What damaged numbers in options and constants can do to a handler's arithmetic.
_DAMAGE = (
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    ZeroDivisionError,
    MemoryError,
    RecursionError,
)


@dataclass
class Frame:
    """One subgraph while it is converted: its tensors so far."""

    graph: Subgraph
    values: dict[int, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    """What is known of operators, by their names in capitals.

    Attributes:
        handlers: what writes an operator.
        folds: what computes it where every input is a constant; None leaves it to its handler.
        refusals: why one without a handler is refused.
    """

    handlers: Mapping[str, Handler]
    folds: Mapping[str, Callable[[Layer], list[np.ndarray] | None]]
    refusals: Mapping[str, str]


class Converter:
    """Writes operators into an emitter.

    Args:
        model: the file.
        file: its name, for errors.
        tables: what is known of operators.
        reserved: names that only tensors in the file's layout may have: those of outputs.
        reporter: asked whether to stop.
    """

    def __init__(
        self,
        model: Model,
        file: str,
        tables: Tables,
        reserved: Iterable[str],
        reporter: Reporter,
    ) -> None:
        self.model = model
        self.file = file
        self.emit = Emitter(file)
        self.findings: list[Finding] = []
        self._tables = tables
        self._reserved = frozenset(reserved)
        self._reporter = reporter
        self._depth = 0
        self._layers = 0

    # ------------------------------------------------------------------------------ the walk

    def run(self, frame: Frame, operators: Sequence[Operator]) -> None:
        """Write ``operators``, in their order.

        Raises:
            SourceModelError: damaged, or reads what nothing computes.
            UnsupportedOperatorError: names the operator and the layer.
        """
        for operator in operators:
            self._reporter.check_cancelled()
            self._layers += 1
            if self._layers > _MAX_LAYERS:
                raise SourceModelError(
                    f"{printable(self.file)} has more than {_MAX_LAYERS} layers with its loops "
                    "unrolled.",
                    remedy="Cut the graph before the loop with 'outputs'.",
                )
            layer = Layer(self, frame, operator)
            self.emit.origin = layer.name
            try:
                self._write(layer)
            except EngineError:
                raise
            except _DAMAGE as error:
                raise SourceModelError(
                    f"{printable(self.file)}: layer {printable(layer.name, 120)!r} "
                    f"({printable(operator.label, 80)}) has numbers that do not fit: "
                    f"{printable(str(error), 200)}.",
                    cause="The file is damaged, or the sizes given for its inputs do not suit it.",
                    remedy="Check 'input_size_list', convert the model again, or cut before this "
                    "layer with 'outputs'.",
                ) from error

    def _write(self, layer: Layer) -> None:
        kind = layer.operator.type
        fold = self._tables.folds.get(kind)
        arrays = fold(layer) if fold is not None else None
        if arrays is None:
            handler = self._tables.handlers.get(kind)
            if handler is None:
                raise layer.refusal(
                    self._tables.refusals.get(kind, "this version does not know it")
                )
            handler(layer)
            return
        for index, array in enumerate(arrays):
            layer.constant(index, array)

    def inline(self, number: int, inputs: Sequence[Value]) -> list[Value]:
        """Write another subgraph with ``inputs`` as its own; its outputs."""
        if not 0 <= number < len(self.model.subgraphs):
            raise ValueError(f"there is no graph number {number}")
        if self._depth >= _MAX_DEPTH:
            raise ValueError("its graphs are nested too deeply")
        graph = self.model.subgraphs[number]
        frame = Frame(graph, dict(zip(graph.inputs, inputs, strict=True)))
        self._depth += 1
        self.run(frame, graph.operators)
        self._depth -= 1
        return [self.value(frame, index) for index in graph.outputs]

    # ------------------------------------------------------------------------------ tensors

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
                f"{printable(self.file)}: tensor {printable(tensor.name, 120)!r} is read before "
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
            raise ValueError(f"tensor {printable(value.name, 120)!r} has no scale")
        scale, zero = quant.scale.astype(np.float32), quant.zero_point.astype(value.dtype)
        if quant.axis < 0:
            scale, zero = scale.reshape(()), zero.reshape(())
        return [self.emit.constant(scale, "scale"), self.emit.constant(zero, "zero_point")]

    def note(self, finding: Finding) -> None:
        """Keep a finding, once."""
        if finding not in self.findings:
            self.findings.append(finding)
