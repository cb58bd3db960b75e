"""From the operators of a TFLite file to the engine's graph: the walk, and its control flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.base.errors import EngineError, SourceModelError
from engine.base.events import Reporter
from engine.base.text import sanitize
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.options import VALID
from engine.frontends.tflite.schema import Model, Operator, Subgraph
from engine.frontends.tflite.tensors import Frame, Tensors, Value, constant_array
from engine.graph.ir.folding import TooLargeError

UNKNOWN = "this version does not know it"
"""Why an operator without a reason is refused."""

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
            raise layer.refusal(self._tables.refusals.get(kind, UNKNOWN))

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


# ----------------------------------------------------------------------------- control flow

_MAX_ROUNDS = 2000


def _decided(layer: Layer, value: Value) -> bool:
    if value.array is None or value.array.size != 1:
        raise layer.refusal("its condition depends on the data")
    return bool(value.array.reshape(-1)[0])


def _give(layer: Layer, values: list[Value]) -> None:
    for index in range(layer.outputs):
        layer.same(index, values[index])


def _if(layer: Layer) -> None:
    chosen = "then_subgraph" if _decided(layer, layer.input(0)) else "else_subgraph"
    inputs = [layer.input(index) for index in range(1, len(layer.inputs))]
    _give(layer, layer.inline(layer.int_option(chosen), inputs))


def _while(layer: Layer) -> None:
    values = [layer.input(index) for index in range(len(layer.inputs))]
    condition, body = layer.int_option("cond_subgraph"), layer.int_option("body_subgraph")
    for _ in range(_MAX_ROUNDS):
        if not _decided(layer, layer.inline(condition, values)[0]):
            _give(layer, values)
            return
        values = layer.inline(body, values)
    raise layer.refusal(f"it runs for more than {_MAX_ROUNDS} rounds")


def _composite(layer: Layer) -> None:
    """STABLEHLO_COMPOSITE: the graph that says what it computes."""
    inputs = [layer.input(index) for index in range(len(layer.inputs))]
    _give(layer, layer.inline(layer.int_option("decomposition"), inputs))


CONTROL: dict[str, Handler] = {"IF": _if, "STABLEHLO_COMPOSITE": _composite, "WHILE": _while}


# --------------------------------------------------------------------- dilated convolutions

_CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})


def join_dilated(
    graph: Subgraph, operators: Sequence[Operator], outputs: Sequence[int]
) -> list[Operator]:
    """``operators`` with dilated convolutions as one; exporters wrote each as three.

    TensorFlow had no kernel for dilation, so ``atrous_conv2d`` splits the picture into ``block`` by
    ``block`` coarser ones, convolves them without padding and puts the results together again: the
    convolution with the block as its dilation, its padding less the crops at the end.

    Its option ``pads`` is top, left, bottom, right.

    Args:
        graph: where their tensors are.
        operators: in order of execution.
        outputs: tensors that are wanted, which stay.
    """
    reads = Counter(index for operator in operators for index in operator.inputs)
    reads.update(outputs)
    makers = {index: operator for operator in operators for index in operator.outputs}
    joined: list[Operator] = []
    gone: list[Operator] = []
    for operator in operators:
        joined_operator = _joined(graph, operator, makers, reads)
        if joined_operator is not None:
            middle = makers[operator.inputs[0]]
            gone += [middle, makers[middle.inputs[0]]]
        joined.append(joined_operator or operator)
    dropped = {id(operator) for operator in gone}
    return [operator for operator in joined if id(operator) not in dropped]


def _joined(
    graph: Subgraph, last: Operator, makers: dict[int, Operator], reads: Counter[int]
) -> Operator | None:
    """The convolution that ``last`` ends, or None."""
    if last.type != "BATCH_TO_SPACE_ND" or len(last.inputs) != 3:
        return None
    middle = makers.get(last.inputs[0])
    if middle is None or middle.type not in _CONVOLUTIONS or reads[last.inputs[0]] != 1:
        return None
    first = makers.get(middle.inputs[0])
    if first is None or first.type != "SPACE_TO_BATCH_ND" or reads[middle.inputs[0]] != 1:
        return None
    plain = {"padding": VALID, "stride_w": 1, "stride_h": 1, "dilation_w": 1, "dilation_h": 1}
    if len(first.inputs) != 3 or any(middle.options[k] != v for k, v in plain.items()):
        return None
    block, pads = (_constant(graph, index) for index in first.inputs[1:])
    again, crops = (_constant(graph, index) for index in last.inputs[1:])
    if block is None or pads is None or crops is None or again != block or len(block) != 2:
        return None
    left = [pad - crop for pad, crop in zip(pads, crops, strict=True)]
    if min(*left, *block) < 0:
        return None
    options = {
        **middle.options,
        "dilation_h": block[0],
        "dilation_w": block[1],
        "pads": (left[0], left[2], left[1], left[3]),
    }
    return replace(
        middle, inputs=(first.inputs[0], *middle.inputs[1:]), outputs=last.outputs, options=options
    )


def _constant(graph: Subgraph, index: int) -> list[int] | None:
    if index < 0 or graph.tensors[index].data is None:
        return None
    return [int(number) for number in constant_array(graph.tensors[index]).reshape(-1)]
