"""Variables of a TFLite file as inputs and outputs: a graph has no memory between runs.

A streaming model keeps what it needs of the past in variables: ``VAR_HANDLE`` names one,
``READ_VARIABLE`` and ``ASSIGN_VARIABLE`` use it, and ``CALL_ONCE`` runs the graph that sets it
before the first run. Here a variable becomes an input of its name, and an output ``NAME/next``,
which is the input of the next run. Operators run in the order of the file, so a variable that is
read behind its assignment is the assigned tensor.

Variables that only a branch or a loop uses stay, and are refused with the operator; so do those
that do not begin with one number everywhere, as nothing would say how the first run is fed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.tflite.schema import Model, Operator, Subgraph, Tensor
from engine.frontends.tflite.tensors import constant_array

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
        shown = ", ".join(sanitize(name, 60) for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        findings.append(
            Finding(
                code="state-inputs",
                severity="info",
                where=sanitize(names[0]),
                what=f"Variables of the model are inputs: {shown}{more}.",
                cause="The model keeps them between runs, and a graph has no memory.",
                remedy=f"Fill them with {first:g} in the first run. Then give each the output "
                f"{_NEXT.format('NAME')} of the run before.",
            )
        )
    return findings
