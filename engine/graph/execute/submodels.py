"""Submodels of a graph, made in time linear in their size, and a graph run part by part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from engine.graph.execute.lower import is_quantized, lower_for_runtime
from engine.graph.execute.session import Session, open_model, simulation_errors
from engine.graph.execute.session_setup import check_feeds
from engine.graph.execute.shared_weights import constants_apart, elsewhere
from engine.graph.ir.graph import Graph
from engine.graph.ir.shapes import with_types

OWN = "own/"
"""Before the name of a tensor that a part computes where its readers get another one."""


# They look for what to share between nodes, where almost nothing can be: a third of the set-up
_COSTLY = ("CommonSubexpressionElimination", "ConstantSharing", "TransposeOptimizer")


@dataclass(frozen=True)
class Ancestors:
    """The nodes and inputs that some tensors are computed from.

    Attributes:
        nodes: indices of nodes, in the order of the graph.
        ends: tensors where the walk ended: inputs, constants, and those it was to stop at.
    """

    nodes: tuple[int, ...]
    ends: tuple[str, ...]


class Submodel:
    """A part of a graph with a session of its own.

    Attributes:
        inputs: tensors that are fed.
        outputs: tensors that it gives.
    """

    def __init__(
        self,
        source: SubmodelBuilder,
        model: onnx.ModelProto,
        weights: Mapping[str, np.ndarray],
        fast: bool = False,
    ) -> None:
        self.inputs = tuple(value.name for value in model.graph.input)
        self.outputs = tuple(value.name for value in model.graph.output)
        names = list(self.outputs)
        # it must not refer to the part: a session in a circle waits for Python's collector
        self._run: Callable[[dict[str, np.ndarray]], list[np.ndarray]]
        if source.custom:
            graph = Graph.from_proto(model, operators=source.graph.operators)
            session = Session(graph, lower=False)
            self._run = lambda feeds: list(session.run(feeds, names).values())
            return
        # "all" only adds layouts for long runs of float convolutions, and takes three times as
        # long to set up
        loaded = open_model(
            model.SerializeToString(),
            level="all" if fast else "extended",
            without=() if fast else _COSTLY,
            plan_memory=False,
            pooled=True,
            weights=weights,
        )
        self._weights = weights  # the session reads them
        self._run = lambda feeds: loaded.run(names, feeds)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs; ``feeds`` may hold more than the inputs.

        Raises:
            SimulationError: the part does not run.
        """
        with simulation_errors():
            results = self._run({name: feeds[name] for name in self.inputs})
        return dict(zip(self.outputs, results, strict=True))


class SubmodelBuilder:
    """Makes submodels of a graph.

    Args:
        graph: read only, with types and shapes.

    Attributes:
        graph: as given.
        nodes: the nodes in order.
        custom: whether a node of it is none of ONNX's.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.custom = bool(graph.operators)
        self._weights: dict[str, ir.TensorProtocol] = {}
        if self.custom:
            self._proto = graph.to_proto()
        else:
            self._proto, self._weights = constants_apart(graph)
        inner = self._proto.graph
        self.nodes: Sequence[onnx.NodeProto] = list(inner.node)
        self._writers = {
            name: index for index, node in enumerate(self.nodes) for name in node.output if name
        }
        self._constants = {tensor.name: tensor for tensor in inner.initializer}
        self._inputs = {value.name: value for value in inner.input}
        self._types = {value.name: value for value in (*inner.value_info, *inner.output)}
        self._types.update(self._inputs)

    def writer(self, tensor: str) -> onnx.NodeProto | None:
        """The node that computes a tensor."""
        index = self._writers.get(tensor)
        return None if index is None else self.nodes[index]

    def position(self, tensor: str) -> int | None:
        """The index of the node that computes a tensor."""
        return self._writers.get(tensor)

    def constant(self, tensor: str) -> np.ndarray | None:
        """The values of an initializer."""
        weight = self._weights.get(tensor)
        if weight is not None:
            return weight.numpy()
        proto = self._constants.get(tensor)
        if proto is None:
            return None
        array: np.ndarray = numpy_helper.to_array(proto)
        return array

    def type_of(self, tensor: str, name: str = "") -> onnx.ValueInfoProto:
        """Type and shape of a tensor, under its own name or another one."""
        info = self._types.get(tensor)
        if not name and info is not None:
            return info
        value = onnx.ValueInfoProto(name=name or tensor)
        if info is not None:
            value.type.CopyFrom(info.type)
        return value

    def element_type(self, tensor: str) -> int:
        """ONNX's number of a tensor's type; 0 where it is not known."""
        info = self._types.get(tensor)
        return 0 if info is None else int(info.type.tensor_type.elem_type)

    def is_input(self, tensor: str) -> bool:
        """Whether the graph is fed with it."""
        return tensor in self._inputs

    def walk(self, tensors: Collection[str], stops: Collection[str]) -> Ancestors:
        """Everything that ``tensors`` are computed from, up to ``stops``."""
        nodes: set[int] = set()
        ends: dict[str, None] = {}
        waiting = list(tensors)
        while waiting:
            name = waiting.pop()
            index = None if name in stops else self._writers.get(name)
            if index is None:
                ends[name] = None
            elif index not in nodes:
                nodes.add(index)
                waiting.extend(names_read(self.nodes[index]))
        return Ancestors(tuple(sorted(nodes)), tuple(ends))

    def walk_behind(self, tensors: Collection[str], stops: Collection[str]) -> Ancestors:
        """As :meth:`walk`, with the nodes that write ``tensors``, stops or not."""
        own = {index for name in tensors if (index := self._writers.get(name)) is not None}
        reads = dict.fromkeys(
            name for index in sorted(own) for name in names_read(self.nodes[index])
        )
        behind = self.walk(reads, stops)
        return Ancestors(tuple(sorted(own.union(behind.nodes))), behind.ends)

    def parts(self, groups: Sequence[Sequence[str]]) -> list[Submodel]:
        """The graph in parts that give a group of tensors each, and what later ones need of them.

        Every node is in the first part that needs it; where a part needs something of an earlier
        one that is no tensor, it computes that again.
        """
        home: dict[int, int] = {}
        nodes: list[set[int]] = [set() for _ in groups]
        gives = [dict.fromkeys(group) for group in groups]
        takes: list[dict[str, None]] = [{} for _ in groups]
        for number, group in enumerate(groups):
            waiting = list(group)
            while waiting:
                name = waiting.pop()
                index = self._writers.get(name)
                if index is None:
                    takes[number][name] = None
                elif home.setdefault(index, number) != number and self.element_type(name):
                    takes[number][name] = None
                    gives[home[index]][name] = None
                elif index not in nodes[number]:
                    nodes[number].add(index)
                    waiting.extend(names_read(self.nodes[index]))
        models = []
        for inner, produced, taken in zip(nodes, gives, takes, strict=True):
            inputs = [self.type_of(n) for n in taken if n in self._writers or n in self._inputs]
            outputs = [self.type_of(n) for n in produced if n not in taken]
            members = [self.nodes[index] for index in sorted(inner)]
            models.append(self.assemble(members, inputs, outputs, taken, fast=True))
        return models

    def submodel(
        self, outputs: Sequence[str], stops: Collection[str], *, fast: bool = False
    ) -> Submodel:
        """What gives ``outputs``, fed with those of ``stops`` that it needs.

        ``fast``: takes longer to set up; worth it for several runs of a float graph.
        """
        walk = self.walk(outputs, stops)
        # a node of several outputs may be needed for one and write another that is fed
        nodes = [renamed(self.nodes[index], stops) for index in walk.nodes]
        inputs = [self.type_of(n) for n in walk.ends if n in stops or n in self._inputs]
        output_types = [self.type_of(name) for name in dict.fromkeys(outputs)]
        return self.assemble(nodes, inputs, output_types, walk.ends, fast=fast)

    def assemble(
        self,
        nodes: Sequence[onnx.NodeProto],
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
        constants: Collection[str],
        *,
        fast: bool = False,
    ) -> Submodel:
        """A part of these nodes, in their order; of ``constants`` those that are any."""
        model = onnx.ModelProto(ir_version=self._proto.ir_version)
        model.opset_import.extend(self._proto.opset_import)
        model.functions.extend(self._proto.functions)
        inner = model.graph
        inner.name = "part"
        inner.node.extend(nodes)
        inner.input.extend(inputs)
        inner.output.extend(outputs)
        inner.initializer.extend(self._constants[n] for n in constants if n in self._constants)
        weights = {n: self._weights[n].numpy() for n in constants if n in self._weights}
        inner.initializer.extend(elsewhere(n, array) for n, array in weights.items())
        if self.custom:  # what lies between is typed by nobody else
            known = {value.name for value in (*inner.input, *inner.output)}
            names = dict.fromkeys(n for node in nodes for n in node.output if n not in known)
            inner.value_info.extend(self._types[n] for n in names if n in self._types)
        return Submodel(self, model, weights, fast)


def renamed(node: onnx.NodeProto, stops: Collection[str]) -> onnx.NodeProto:
    """The node; what it writes of ``stops`` under another name, as their readers are fed."""
    if not any(name in stops for name in node.output):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for index, name in enumerate(node.output):
        if name in stops:
            copy.output[index] = OWN + name
    return copy


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, those of graphs inside it too."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from names_read(inner)
            yield from (value.name for value in graph.output)


# A graph that gives most of its tensors, few of them at a time.

PART_BYTES = 12 << 20
"""Tensors that are given at the same time; what is small enough is still in the cache then."""
_OUTPUTS = 128
"""Tensors of one part: ONNX Runtime's set-up grows with the square of a session's outputs."""


class PartedRun:
    """Runs a float graph in parts and gives wanted tensors as they come.

    A part is a session of its own; every node is in one of them. Tensors that a later part needs
    are kept until then, all others as long as the caller keeps them.

    Args:
        graph: no Q/DQ pairs: a cut between them would take integer kernels apart.
        tensors: which to give; inputs of the graph are none of them, nor are integers of a
            quantized graph, which may run as uint8.

    Attributes:
        groups: the tensors of every part, in the order of the graph.

    Raises:
        SimulationError: ONNX Runtime does not take the graph.
    """

    def __init__(self, graph: Graph, tensors: Sequence[str]) -> None:
        graph = with_types(graph)
        if is_quantized(graph):
            # int8 activations: ONNX Runtime's own way to uint8 fails on nodes that it inserted
            graph = lower_for_runtime(graph)
        model = SubmodelBuilder(graph)
        self._inputs = graph.inputs
        self._constants: dict[str, np.ndarray] = {}
        order: dict[str, int] = {}
        for name in dict.fromkeys(tensors):
            index, constant = model.position(name), model.constant(name)
            if index is not None:
                order[name] = index
            elif constant is not None:
                self._constants[name] = constant
        self.groups = _groups(graph, order)
        self._parts = model.parts(self.groups)
        self._last = {n: i for i, part in enumerate(self._parts) for n in part.inputs}

    def run(self, feeds: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        """The wanted tensors on one sample, in the order of the graph, part by part.

        Raises:
            UsageError: feeds that do not fit the inputs.
            SimulationError: a part does not run.
        """
        known = check_feeds(feeds, self._inputs)
        if self._constants:
            yield dict(self._constants)
        for number, (names, part) in enumerate(zip(self.groups, self._parts, strict=True)):
            outputs = part.run(known)
            named = {name: outputs[name] if name in outputs else known[name] for name in names}
            for name in part.inputs:
                if self._last[name] == number:
                    del known[name]
            known.update({n: array for n, array in outputs.items() if n in self._last})
            del outputs
            yield named


def _groups(graph: Graph, positions: Mapping[str, int]) -> list[list[str]]:
    """Tensors in the order of their nodes, those of one node together."""
    groups: list[list[str]] = []
    room, last = 0, -1
    for name, position in sorted(positions.items(), key=lambda item: item[1]):
        size = graph.spec(name).size
        nbytes = PART_BYTES // 8 if size is None else 4 * size
        full = not groups or nbytes > room or len(groups[-1]) >= _OUTPUTS
        if full and position != last:
            groups.append([])
            room = PART_BYTES
        groups[-1].append(name)
        room -= nbytes
        last = position
    return groups
