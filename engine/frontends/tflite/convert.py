"""From the operators of a TFLite file to the engine's graph: the walk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.errors import EngineError, SourceModelError
from engine.base.events import Reporter
from engine.base.text import sanitize
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.schema import Model, Operator
from engine.frontends.tflite.tensors import Frame, Tensors
from engine.frontends.tflite.values import Value
from engine.graph.ir.folding import TooLargeError

__all__ = ["Converter", "Tables"]

_MAX_DEPTH = 16
_MAX_LAYERS = 20_000
# What damaged numbers in options and constants can do to a handler's arithmetic.
_DAMAGE = (
    *(IndexError, KeyError, TypeError, ValueError),
    *(OverflowError, ZeroDivisionError, MemoryError, RecursionError),
)


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
        self.tensors = Tensors(file, reserved)
        self._tables = tables
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
                    f"{sanitize(self.tensors.file)} has more than {_MAX_LAYERS} layers with its "
                    "loops unrolled.",
                    remedy="Cut the graph before the loop with 'outputs'.",
                )
            layer = Layer(self.tensors, frame, operator, self.inline)
            self.tensors.emit.origin = layer.name
            try:
                self._write(layer)
            except EngineError:
                raise
            except _DAMAGE as error:
                raise SourceModelError(
                    f"{sanitize(self.tensors.file)}: layer {sanitize(layer.name, 120)!r} "
                    f"({sanitize(operator.label, 80)}) has numbers that do not fit: "
                    f"{sanitize(str(error), 200)}.",
                    cause="The file is damaged, or the sizes given for its inputs do not suit it.",
                    remedy="Check 'input_size_list', convert the model again, or cut before this "
                    "layer with 'outputs'.",
                ) from error

    def _write(self, layer: Layer) -> None:
        kind = layer.operator.type
        fold, handler = self._tables.folds.get(kind), self._tables.handlers.get(kind)
        arrays = None
        if fold is not None:
            try:
                arrays = fold(layer)
            except TooLargeError:  # as a constant; a node may compute it
                if handler is None:
                    raise
        if arrays is not None:
            for index, array in enumerate(arrays):
                layer.constant(index, array)
        elif handler is not None:
            handler(layer)
        else:
            raise layer.refusal(self._tables.refusals.get(kind, "this version does not know it"))

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
        return [self.tensors.value(frame, index) for index in graph.outputs]
