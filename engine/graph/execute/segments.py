"""Graphs with custom operators: parts that ONNX Runtime runs, and calls of Python between them.

Every value has a level: 0 where no custom operator is before it, else how many of them lie in a row
before it at most. The nodes of one level are one part. Constants, and DequantizeLinear where its
result is needed at a higher level, are repeated there: a tensor crosses from part to part as the
integers that it is stored as, so that ONNX Runtime finds the same Q/DQ patterns as without the
custom operator and takes the same integer kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import SimulationError
from engine.base.text import sanitize
from engine.graph.execute.custom import CustomCall
from engine.graph.ir.custom import is_custom
from engine.graph.ir.graph import Graph
from engine.graph.ir.spec import ancestors, maker_of

OpenModel = Callable[[bytes, Path | None], "SessionLike"]
"""Loads a serialised model into ONNX Runtime; writes the optimised one where a path is given."""


class SessionLike(Protocol):
    """What a session of ONNX Runtime does, as far as it is needed."""

    def run(self, outputs: Sequence[str], feeds: Mapping[str, np.ndarray], /) -> list[Any]:
        """The outputs of these names, in their order."""


@dataclass
class _Step:
    """One part, or one call: what it reads and what it gives."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    run: Callable[[Sequence[str], Mapping[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class _Planned:
    """A step of one run: which outputs it gives, and which tensors nobody needs after it."""

    step: _Step
    outputs: tuple[str, ...]
    done_with: tuple[str, ...] = field(default=())


class SegmentExecutor:
    """A graph with custom operators, ready to run; takes the place of one session.

    Args:
        graph: typed, its operators registered.
        open_model: makes a session of each part.
        optimised_model: where the graph that really runs is written: the parts as ONNX Runtime
            optimised them, with the custom nodes between them.

    Raises:
        SimulationError: a custom operator has no compute, or ONNX Runtime does not take a part.
    """

    def __init__(
        self, graph: Graph, open_model: OpenModel, optimised_model: Path | None = None
    ) -> None:
        self._constants = {
            name: value.const_value.numpy()
            for name, value in graph.model.graph.initializers.items()
            if value.const_value is not None and _is_read_outside(value)
        }
        self._steps: list[_Step] = []
        optimised: list[onnx.ModelProto] = []
        for calls, model in _Parts(graph).in_order():
            self._steps += [_call_step(CustomCall(node, graph.operators)) for node in calls]
            if model is None:
                continue
            session = open_model(model.SerializeToString(deterministic=True), optimised_model)
            self._steps.append(_session_step(model, session))
            if optimised_model is not None:
                optimised.append(onnx.load(optimised_model))
        if optimised_model is not None:
            onnx.save(_joined(graph, optimised), optimised_model)
        self._plans: dict[tuple[str, ...], tuple[_Planned, ...]] = {}

    def run(self, outputs: Sequence[str], feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs of these names, in their order; as a session's ``run``."""
        key = tuple(outputs)
        planned = self._plans.get(key)
        if planned is None:
            planned = self._plans[key] = self._plan(key)
        values = {**self._constants, **feeds}
        for one in planned:
            values.update(one.step.run(one.outputs, values))
            for name in one.done_with:
                values.pop(name, None)
        return [values[name] for name in outputs]

    def _plan(self, names: Iterable[str]) -> tuple[_Planned, ...]:
        """The steps that the wanted tensors need, found from the end."""
        needed = set(names)
        planned: list[_Planned] = []
        for step in reversed(self._steps):
            outputs = tuple(name for name in step.outputs if name in needed)
            if not outputs:
                continue
            last = tuple(name for name in dict.fromkeys(step.inputs) if name not in needed)
            planned.append(_Planned(step, outputs, last))
            needed.update(step.inputs)
        return tuple(reversed(planned))


def _is_read_outside(value: ir.Value) -> bool:
    return value.is_graph_output() or any(is_custom(use.node) for use in value.uses())


def _call_step(call: CustomCall) -> _Step:
    return _Step(
        tuple(name for name in call.inputs if name),
        tuple(name for name in call.outputs if name),
        lambda _, arrays: call.run(arrays),
    )


def _session_step(model: onnx.ModelProto, session: SessionLike) -> _Step:
    inputs = tuple(value.name for value in model.graph.input)

    def run(outputs: Sequence[str], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = session.run(outputs, {name: arrays[name] for name in inputs})
        return dict(zip(outputs, results, strict=True))

    return _Step(inputs, tuple(value.name for value in model.graph.output), run)


class _Parts:
    """A graph taken apart by levels."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._proto = graph.to_proto()
        self._nodes = list(graph.nodes)
        self._protos = dict(zip(self._nodes, self._proto.graph.node, strict=True))
        self._order = {node: index for index, node in enumerate(self._nodes)}
        self._constants = {tensor.name: tensor for tensor in self._proto.graph.initializer}
        self._types = {
            value.name: value
            for value in (
                *self._proto.graph.input,
                *self._proto.graph.value_info,
                *self._proto.graph.output,
            )
        }
        self._levels: dict[ir.Node, int] = {}
        for node in self._nodes:
            before = max((self._level(value) for value in node.inputs), default=0)
            self._levels[node] = before + is_custom(node)
        count = 1 + max(self._levels.values())
        self._calls: list[list[ir.Node]] = [[] for _ in range(count)]
        self._own: list[list[ir.Node]] = [[] for _ in range(count)]
        for node, level in self._levels.items():
            (self._calls if is_custom(node) else self._own)[level].append(node)
        self._members = [self._with_repeated(own) for own in self._own]
        self._read = self._crossing()

    def in_order(self) -> Iterator[tuple[list[ir.Node], onnx.ModelProto | None]]:
        """Per level: the calls that come first, then the part, None where nobody needs it."""
        for level, calls in enumerate(self._calls):
            yield calls, self._model(level)

    def _level(self, value: ir.Value | None) -> int:
        maker = maker_of(value)
        return 0 if maker is None else self._levels[maker]

    def _with_repeated(self, own: Sequence[ir.Node]) -> set[ir.Node]:
        """The nodes of a level, and those of lower ones that are repeated for them."""
        members = set(own)
        waiting = list(own)
        while waiting:
            for value in waiting.pop().inputs:
                maker = maker_of(value)
                if maker is not None and maker not in members and _is_repeated(maker):
                    members.add(maker)
                    waiting.append(maker)
        return members

    def _crossing(self) -> set[ir.Value]:
        """Values that a part or a call takes from another one, or that leave the graph."""
        taken: set[ir.Value] = set(self._graph.model.graph.outputs)
        for inside in self._members:
            for node in inside:
                taken.update(v for v in node.inputs if v is not None and v.producer() not in inside)
        for calls in self._calls:
            for node in calls:
                taken.update(v for v in node.inputs if v is not None)
        return taken

    def _model(self, level: int) -> onnx.ModelProto | None:
        outputs = [v for node in self._own[level] for v in node.outputs if v in self._read]
        members = ancestors(outputs, self._members[level])
        if not members:
            return None
        nodes = sorted(members, key=self._order.__getitem__)
        model = onnx.ModelProto(ir_version=self._proto.ir_version)
        model.opset_import.extend(e for e in self._proto.opset_import if e.domain == "")
        graph = model.graph
        graph.name = f"part{level}"
        graph.node.extend(self._protos[node] for node in nodes)
        read = {v.name or "": v for node in nodes for v in node.inputs if v is not None}
        for name, value in read.items():
            if name in self._constants:
                graph.initializer.append(self._constants[name])
            elif value.producer() not in members:
                graph.input.append(self._type(name))
        graph.output.extend(self._type(value.name or "") for value in outputs)
        return model

    def _type(self, name: str) -> onnx.ValueInfoProto:
        info: onnx.ValueInfoProto | None = self._types.get(name)
        if info is None:
            raise SimulationError(
                f"The type of tensor {sanitize(name, 120)!r} is not known.",
                cause="A custom operator before it does not say what it gives.",
                remedy="Register a class with shape_infer for every custom operator.",
            )
        return info


def _is_repeated(node: ir.Node) -> bool:
    """Whether a node is computed anew in every part that needs it: DequantizeLinear, Constant."""
    return node.domain == "" and node.op_type in ("DequantizeLinear", "Constant")


def _joined(graph: Graph, parts: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """The optimised parts and the custom nodes as one graph to read, which no runtime takes.

    Tensors that ONNX Runtime made in one part get names that no other part has.
    """
    joined = onnx.ModelProto(ir_version=parts[0].ir_version if parts else 10)
    joined.graph.name = "parts"
    known = set(graph.values) | {""}
    for number, part in enumerate(parts):
        known.update(tensor.name for tensor in part.graph.initializer)
        for node in part.graph.node:
            for names in (node.input, node.output):
                names[:] = [n if n in known else f"{n}@{number}" for n in names]
            joined.graph.node.append(node)
        for entry in part.opset_import:
            if all(entry.domain != other.domain for other in joined.opset_import):
                joined.opset_import.append(entry)
    for ours in graph.nodes:
        if is_custom(ours):
            joined.graph.node.append(ir.to_proto(ours))
    return joined
