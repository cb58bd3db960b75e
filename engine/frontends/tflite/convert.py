"""From the operators of a TFLite file to the engine's graph: its walk, and its variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine.base.errors import EngineError, SourceModelError
from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import sanitize, some_of
from engine.frontends.tflite.layer import Layer
from engine.frontends.tflite.ops import FOLDS, HANDLERS, refusal_of
from engine.frontends.tflite.schema import VALID, Model, Operator, Subgraph, Tensor
from engine.frontends.tflite.tensors import Frame, Tensors, Value, constant_array
from engine.graph.ir.folding import TooLargeError

_MAX_DEPTH = 16
_MAX_LAYERS = 20_000
# What damaged numbers in options and constants can do to a handler's arithmetic.
_DAMAGE = (
    *(IndexError, KeyError, TypeError, ValueError),
    *(OverflowError, ZeroDivisionError, MemoryError, RecursionError),
)


class Converter:
    """Writes operators into an emitter.

    Args:
        model: the file.
        file: its name, for errors.
        reserved: names that only tensors in the file's layout may have: those of outputs.
        reporter: asked whether to stop.
    """

    def __init__(
        self,
        model: Model,
        file: str,
        reserved: Iterable[str],
        reporter: Reporter,
    ) -> None:
        self.model = model
        self.tensors = Tensors(file, reserved)
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
        fold, handler = FOLDS.get(kind), HANDLERS.get(kind)
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
            raise layer.refusal(refusal_of(kind))

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


# Variables of a TFLite file as inputs and outputs: a graph has no memory between runs.
#
# A streaming model keeps what it needs of the past in variables: ``VAR_HANDLE`` names one,
# ``READ_VARIABLE`` and ``ASSIGN_VARIABLE`` use it, and ``CALL_ONCE`` runs the graph that sets it
# before the first run. Here a variable becomes an input of its name, and an output ``NAME/next``,
# which is the input of the next run. Operators run in the order of the file, so a variable that is
# read behind its assignment is the assigned tensor.
#
# Variables that only a branch or a loop uses stay, and are refused with the operator; so do those
# that do not begin with one number everywhere, as nothing would say how the first run is fed.

_Key = tuple[str, str]
_NEXT = "{}/next"
_SHOWN = 4
OPERATORS = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"})
"""What is written as inputs and outputs."""


@dataclass(frozen=True)
class State:
    """A variable that became an input and, where it is assigned, an output.

    Attributes:
        name: of the input.
        following: of the output; empty where it is never assigned.
        first: the number, as stored, that it has everywhere in the first run.
    """

    name: str
    following: str
    first: float


@dataclass
class _Variable:
    name: str
    read: int | None = None
    """The tensor of the first reading before any assignment."""
    now: int | None = None
    assigned: bool = False


@dataclass
class _Walk:
    graph: Subgraph
    handles: dict[int, _Key] = field(default_factory=dict)
    variables: dict[_Key, _Variable] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)

    def take(self, operator: Operator) -> None:
        """One operator, in order."""
        inputs = tuple(self.same.get(index, index) for index in operator.inputs)
        if operator.type == "VAR_HANDLE":
            key = _key(operator)
            name = key[1] or self.graph.tensors[operator.outputs[0]].name
            self.handles[operator.outputs[0]] = key
            self.variables.setdefault(key, _Variable(name))
        elif operator.type == "READ_VARIABLE":
            variable, out = self.variables[self.handles[inputs[0]]], operator.outputs[0]
            if variable.now is None:
                variable.read = variable.now = out
            else:
                self.same[out] = variable.now
        elif operator.type == "ASSIGN_VARIABLE":
            variable = self.variables[self.handles[inputs[0]]]
            variable.now, variable.assigned = inputs[1], True
        elif operator.type != "CALL_ONCE":
            self.operators.append(replace(operator, inputs=inputs))


def with_states(model: Model) -> tuple[Model, tuple[State, ...]]:
    """The model with its variables as inputs and outputs behind its own.

    Args:
        model: a file.

    Returns:
        The model, as it is where it has no variables or some that have no such form; the states.
    """
    graph = model.subgraphs[0]
    if not any(operator.type in OPERATORS for operator in graph.operators):
        return model, ()
    try:
        _refuse_inner(model)
        first = _first_values(model, graph)
        walk = _Walk(graph)
        for operator in graph.operators:
            walk.take(operator)
        subgraph, states = _with_ends(walk, first)
    except (IndexError, KeyError, ValueError):
        return model, ()  # its operators are refused by their names
    return replace(model, subgraphs=(subgraph, *model.subgraphs[1:])), states


def _refuse_inner(model: Model) -> None:
    """Raise ValueError where a branch or a loop uses variables."""
    entries = {signature.subgraph for signature in model.signatures}
    entries |= {
        _begins(operator)
        for operator in model.subgraphs[0].operators
        if operator.type == "CALL_ONCE"
    }
    for number, graph in enumerate(model.subgraphs[1:], 1):
        if number not in entries and any(
            operator.type in OPERATORS for operator in graph.operators
        ):
            raise ValueError("a branch uses variables")


def _begins(operator: Operator) -> int:
    """The graph that a CALL_ONCE runs."""
    number = operator.options["init_subgraph"]
    if not isinstance(number, int) or number < 1:
        raise ValueError("it calls itself")
    return number


def _key(operator: Operator) -> _Key:
    return str(operator.options["container"]), str(operator.options["shared_name"])


def _first_values(model: Model, graph: Subgraph) -> dict[_Key, float]:
    """Variable -> the one number that its first value has everywhere.

    Raises:
        KeyError, IndexError, ValueError: it has none that is known.
    """
    first_values: dict[_Key, float] = {}
    for once in (caller for caller in graph.operators if caller.type == "CALL_ONCE"):
        before = model.subgraphs[_begins(once)]
        handles: dict[int, _Key] = {}
        for operator in before.operators:
            if operator.type == "VAR_HANDLE":
                handles[operator.outputs[0]] = _key(operator)
            elif operator.type == "ASSIGN_VARIABLE":
                first_values[handles[operator.inputs[0]]] = _number(
                    before.tensors[operator.inputs[1]]
                )
            else:
                raise ValueError("its first value is computed")
    return first_values


def _number(tensor: Tensor) -> float:
    if tensor.data is None:
        raise ValueError("its first value is computed")
    array = constant_array(tensor)
    if not array.size or np.any(array != array.flat[0]):
        raise ValueError("its first value has several numbers")
    return float(array.flat[0])


def _with_ends(walk: _Walk, first: dict[_Key, float]) -> tuple[Subgraph, tuple[State, ...]]:
    graph = walk.graph
    tensors = list(graph.tensors)
    outputs = [walk.same.get(index, index) for index in graph.outputs]
    taken = {tensors[index].name for index in (*graph.inputs, *outputs)}
    inputs = list(graph.inputs)
    renamed = set(inputs) | set(outputs)
    states = []
    for key, variable in walk.variables.items():
        if variable.read is None:
            continue  # nobody asks what it was
        name = _claim(variable.name, taken)
        following = ""
        tensors[variable.read] = replace(tensors[variable.read], name=name)
        inputs.append(variable.read)
        renamed.add(variable.read)
        if variable.assigned and variable.now is not None:
            following = tensors[variable.now].name
            if variable.now not in renamed and tensors[variable.now].data is None:
                following = _claim(_NEXT.format(name), taken)
                tensors[variable.now] = replace(tensors[variable.now], name=following)
            renamed.add(variable.now)
            if variable.now in outputs or not following:
                raise ValueError("it is an output of the model as well")
            outputs.append(variable.now)
        states.append(State(name, following, first[key]))
    subgraph = Subgraph(
        graph.name, tuple(tensors), tuple(inputs), tuple(outputs), tuple(walk.operators)
    )
    return subgraph, tuple(states)


def _claim(name: str, taken: set[str]) -> str:
    at, claimed = 2, name
    while claimed in taken:
        claimed, at = f"{name}_{at}", at + 1
    taken.add(claimed)
    return claimed


def state_findings(states: Sequence[State]) -> list[Finding]:
    """How the states are fed: one finding for those that begin with the same number."""
    findings = []
    for first in dict.fromkeys(state.first for state in states):
        names = [state.name for state in states if state.first == first]
        shown = some_of([sanitize(name, 60) for name in names], _SHOWN)
        findings.append(
            Finding(
                code="state-inputs",
                severity="info",
                where=sanitize(names[0]),
                what=f"Variables of the model are inputs: {shown}.",
                cause="The model keeps them between runs, and a graph has no memory.",
                remedy=f"Fill them with {first:g} in the first run. Then give each the output "
                f"{_NEXT.format('NAME')} of the run before.",
            )
        )
    return findings
