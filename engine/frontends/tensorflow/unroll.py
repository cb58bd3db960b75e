"""In the child: lowered loops and branches written out as a plain list of nodes.

TensorFlow lowers ``while`` and ``cond`` to Enter, Merge, Switch, NextIteration and Exit
(tensorflow/core/ops/control_flow_ops.cc; "Dynamic control flow in large-scale machine learning",
Yu et al. 2018): a Switch sends its value to one of two outputs and leaves the other dead, a Merge
takes the input that is alive, Enter and Exit cross the border of a loop, and each trip runs the
nodes between once more. Here each trip becomes nodes of its own, as long as constants decide how
many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import tensorflow as tf

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.tensorflow.constants import LIST_OPERATORS, Constants, ListCall, Value
from engine.frontends.tensorflow.graphdef import tensor_of
from engine.frontends.tensorflow.prepare import NodeDef
from engine.frontends.tensorflow.selection import CONTROL_FLOW, DROPPED

FREEZE = "convert_variables_to_constants_v2(function, lower_control_flow=False)"
"""The line that keeps loops and branches as functions."""

_MAX_NODES = 100_000
_MAX_TRIPS = 10_000

Frame = tuple[str, ...]
"""Names of the loops around a node, the outermost first."""
Trips = tuple[int, ...]
"""How often each of them has run before."""


class _Dead:
    """What comes out of the side of a Switch that is not taken."""


_DEAD = _Dead()
# the outputs of a node: the name of the new node that has them, or each of them
_Outputs = str | list[Value | _Dead]
_RUN: _Outputs = [""]  # of nodes without outputs


def has_control_flow(graph: Any) -> bool:
    """Whether a graph holds lowered loops or branches."""
    return any(node.op in CONTROL_FLOW for node in graph.node)


def unroll(graph: Any, outputs: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """The graph without control flow, and the tensors that have the values of ``outputs`` there.

    Raises:
        SourceModelError: inputs decide how often a loop runs or which branch is taken, or the
            result would be too large; names the node.
        UnsupportedOperatorError: a list of tensors is used in a way that is not taken.
    """
    run = _Run(graph)
    run.frame((), ())
    ends = tuple(run.end(output) for output in outputs)
    plain = tf.compat.v1.GraphDef()
    plain.versions.CopyFrom(graph.versions)
    plain.library.CopyFrom(graph.library)
    plain.node.extend(run.made.values())
    return plain, ends


@dataclass
class _Plan:
    """The nodes of each loop in an order in which they can run."""

    order: dict[Frame, list[str]] = field(default_factory=dict)
    frame: dict[str, Frame] = field(default_factory=dict)
    conditions: dict[Frame, str] = field(default_factory=dict)


def _plan(nodes: dict[str, NodeDef]) -> _Plan:
    """Sort the nodes; the way back of a loop (NextIteration to Merge) counts for nothing."""
    plan = _Plan()
    reads = _reads(nodes)
    # in one order, whatever that of a set is
    sources = {name: sorted(before) for name, before in reads.items()}
    try:
        order = tuple(TopologicalSorter(sources).static_order())
    except CycleError as error:
        raise _damaged("its nodes read each other in a circle") from error
    for name in order:
        node = nodes[name]
        frame: Frame = max((plan.frame[s] for s in reads[name]), key=len, default=())
        if node.op == "Enter":
            frame = (*frame, _frame_name(node))
        elif node.op == "Exit":
            frame = frame[:-1]
        plan.frame[name] = frame
        plan.order.setdefault(frame, []).append(name)
        if node.op == "LoopCond":
            plan.conditions[frame] = name
    return plan


def _reads(nodes: dict[str, NodeDef]) -> dict[str, set[str]]:
    """Node -> nodes that run before it; what leaves a loop waits for all that enters it."""
    enters: dict[str, set[str]] = {}
    for name, node in nodes.items():
        if node.op == "Enter":
            enters.setdefault(_frame_name(node), set()).add(name)
    reads: dict[str, set[str]] = {}
    for name, node in nodes.items():
        sources = {tensor_of(i.lstrip("^"))[0] for i in node.input}
        if not sources <= nodes.keys():
            raise _damaged(f"it lacks a node that {sanitize(name)!r} reads")
        if node.op == "Merge":
            sources = {s for s in sources if nodes[s].op != "NextIteration"}
        elif node.op == "Exit":
            sources |= enters.get(_loop_of(node, nodes), set())
        reads[name] = sources
    return reads


def _frame_name(node: Any) -> str:
    return str(node.attr["frame_name"].s.decode("utf-8", "replace"))


def _loop_of(node: Any, nodes: dict[str, NodeDef]) -> str:
    """The loop that an Exit leaves: Exit reads a Switch, that a Merge, and that an Enter."""
    for op in ("Switch", "Merge", "Enter"):
        sources = [nodes[tensor_of(i.lstrip("^"))[0]] for i in node.input]
        node = next((s for s in sources if s.op == op), None)
        if node is None:
            raise _damaged("a loop of it has no beginning")
    return _frame_name(node)


def _damaged(why: str) -> SourceModelError:
    return SourceModelError(
        f"The control flow of the graph is damaged: {why}.",
        remedy=f"Freeze the model again with its functions kept:\n    {FREEZE}",
    )


class _Run:
    """A run that writes down each node as often as it runs."""

    def __init__(self, graph: Any) -> None:
        self._nodes = {node.name: node for node in graph.node}
        self._plan = _plan(self._nodes)
        self.made: dict[str, NodeDef] = {}
        self._constants = Constants(self.made, graph.versions)
        self._values: dict[tuple[str, Trips], _Outputs] = {}
        self._last: dict[tuple[Frame, Trips], int] = {}

    def end(self, output: str) -> str:
        """The tensor that has the value of an output."""
        name, number = tensor_of(output)
        value = self._of(name, number, ()) if (name, ()) in self._values else _DEAD
        if not isinstance(value, str) or not value:
            raise SourceModelError(
                f"The output {sanitize(output)!r} has no value: it is inside a loop, on a branch "
                "that is not taken, or a list of tensors.",
                remedy="Name another node in 'outputs'.",
            )
        return value

    def frame(self, frame: Frame, trips: Trips) -> None:
        """Run the nodes of one trip through a loop, or of the whole graph outside of loops."""
        for name in self._plan.order.get(frame, ()):
            self._values[name, trips] = self._run(name, frame, trips)
            if len(self.made) > _MAX_NODES:
                raise SourceModelError(
                    f"Written out, the loops of the graph have more than {_MAX_NODES} nodes.",
                    remedy="Give a shorter sequence in 'input_size_list'.",
                )

    def _run(self, name: str, frame: Frame, trips: Trips) -> _Outputs:
        node = self._nodes[name]
        if node.op == "Exit":
            return self._leave(node, frame, trips)
        if node.op == "Merge":
            return self._merge(node, trips)
        around = trips[:-1] if node.op == "Enter" else trips
        inputs = [self._input(i, around) for i in node.input]
        if any(value is _DEAD for value in inputs):
            return [_DEAD] * 64
        data = [v for v, i in zip(inputs, node.input, strict=True) if not i.startswith("^")]
        values = [v for v in data if not isinstance(v, _Dead)]
        if node.op == "Switch":
            return self._switch(node, values)
        if node.op in DROPPED or node.op == "ControlTrigger":
            return _RUN
        if node.op in ("Enter", "NextIteration", "LoopCond"):
            return [values[0]]
        return self._write(node, values, trips)

    def _input(self, source: str, trips: Trips) -> Value | _Dead:
        if not source.startswith("^"):
            return self._of(*tensor_of(source), trips)
        before = self._outputs(source[1:], trips)
        # a Switch has run, whichever of its outputs is alive
        return _DEAD if all(value is _DEAD for value in before) else ""

    def _outputs(self, name: str, trips: Trips) -> _Outputs:
        outputs = self._values.get((name, trips[: len(self._plan.frame[name])]))
        if outputs is None:
            raise _damaged(f"{sanitize(name)!r} is read outside of its loop")
        return outputs

    def _of(self, name: str, number: int, trips: Trips) -> Value | _Dead:
        outputs = self._outputs(name, trips)
        if isinstance(outputs, str):
            return f"{outputs}:{number}" if number else outputs
        if number >= len(outputs):
            raise _damaged(f"{sanitize(name)!r} has no output {number}")
        return outputs[number]

    def _write(self, node: Any, inputs: list[Value], trips: Trips) -> _Outputs:
        if node.op == "Const" and node.name in self.made:
            return str(node.name)
        inside = bool(trips) and node.op != "Const"
        name = f"{node.name}/trip_{'_'.join(map(str, trips))}" if inside else node.name
        if node.op in LIST_OPERATORS:
            return list(ListCall(self.made, self._constants, node, tuple(inputs), name).run())
        texts = [value for value in inputs if isinstance(value, str)]
        if node.op == "Identity" and (inside or not texts):
            return list(inputs)
        if len(texts) != len(inputs):
            raise UnsupportedOperatorError(
                f"Node {sanitize(node.name)!r}, a {node.op}, reads a list of tensors.",
                remedy="Cut the graph before the loop that it belongs to.",
            )
        copy = tf.compat.v1.NodeDef()
        copy.CopyFrom(node)
        copy.name = name
        del copy.input[:]
        copy.input.extend(texts)
        self.made[name] = copy
        return name

    def _switch(self, node: Any, values: list[Value]) -> _Outputs:
        taken = self._truth(values[1]) if len(values) == 2 else None
        if taken is None:
            raise SourceModelError(
                f"The data decide what {sanitize(node.name)!r} (Switch) does: which branch is "
                "taken, or how often a loop runs.",
                cause="An NPU runs the same operators every time.",
                remedy="Give fixed sizes in 'input_size_list', or the value of a training flag in "
                "'predef_file'. A branch that the data take can be loaded where the model is "
                f"frozen with its functions kept:\n    {FREEZE}",
            )
        return [_DEAD, values[0]] if taken else [values[0], _DEAD]

    def _truth(self, tensor: Value) -> bool | None:
        value = self._constants.value(tensor) if isinstance(tensor, str) else None
        return None if value is None or value.size != 1 else bool(value.reshape(-1)[0])

    def _merge(self, node: Any, trips: Trips) -> _Outputs:
        sources = [tensor_of(i) for i in node.input if not i.startswith("^")]
        back = [s for s in sources if self._nodes[s[0]].op == "NextIteration"]
        if back and trips and trips[-1]:
            return [self._of(*back[0], (*trips[:-1], trips[-1] - 1)), _DEAD]
        values = [self._of(*s, trips) for s in sources if s not in back]
        alive = [value for value in values if value is not _DEAD]
        return [alive[0] if alive else _DEAD, _DEAD]

    def _leave(self, node: Any, frame: Frame, trips: Trips) -> _Outputs:
        """The value that leaves a loop, which runs now if it has not yet."""
        inner = (*frame, _loop_of(node, self._nodes))
        if (inner, trips) not in self._last:
            self._last[inner, trips] = self._loop(inner, trips)
        return [self._input(node.input[0], (*trips, self._last[inner, trips]))]

    def _loop(self, frame: Frame, trips: Trips) -> int:
        """Run a loop; how many trips it makes."""
        condition = self._plan.conditions.get(frame)
        if condition is None:
            raise _damaged(f"the loop {sanitize(frame[-1])!r} has no condition")
        for trip in range(_MAX_TRIPS):
            self.frame(frame, (*trips, trip))
            value = self._of(condition, 0, (*trips, trip))
            if isinstance(value, _Dead) or not self._truth(value):
                return trip
        raise SourceModelError(
            f"The loop {sanitize(frame[-1])!r} makes more than {_MAX_TRIPS} trips.",
            remedy="Give a shorter sequence in 'input_size_list'.",
        )
