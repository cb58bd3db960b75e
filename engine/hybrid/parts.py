"""A model that runs in parts, one session of ONNX Runtime each: a change runs what follows it.

Hundreds of runs that differ from the first one in a single place need neither what lies before that
place nor what does not depend on it. The tensors between the parts are kept of the first run; a
later one starts at the part that it changes, and leaves out every part whose inputs are what they
were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from engine.graph.execute import open_model, simulation_errors
from engine.graph.execute.segments import SessionLike
from engine.graph.ir import Graph

# Parts, at most: 8 take a fifteenth more time on YOLOv8n, 20 no less, and each holds a session.
_MOST = 12

Values = Mapping[str, np.ndarray]


@dataclass
class _Part:
    """Some nodes in a row; the session is opened when the shapes of its inputs are known.

    From then on it holds the constants, and ``nodes`` is empty.
    """

    nodes: Sequence[ir.Node]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    session: SessionLike | None = None


class Parts:
    """A model cut into parts.

    Args:
        graph: with its nodes in an order in which they can run; nobody else may use it any more.
        sizes: tensor -> number of elements, as far as known: cuts are made where little lies
            between.
        count: of parts; 1 is the model as it is.
        threads: of the sessions.
    """

    def __init__(self, graph: Graph, sizes: Mapping[str, int], count: int, threads: int) -> None:
        inner = graph.model.graph
        self._versions = graph.model.ir_version, dict(inner.opset_imports)
        self._threads = threads
        self._stored = {
            name: value.const_value
            for name, value in inner.initializers.items()
            if value.const_value is not None
        }
        self.outputs = tuple(value.name or "" for value in inner.outputs)
        self._parts = self._cut(list(inner), sizes, min(max(count, 1), _MOST))

    def run(self, feeds: Values) -> dict[str, np.ndarray]:
        """Run everything.

        Args:
            feeds: all inputs of the model.

        Returns:
            the feeds, the tensors between parts and the outputs.

        Raises:
            SimulationError: a part does not run.
        """
        values = dict(feeds)
        for part in self._parts:
            values |= self._run(part, values)
        return values

    def again(self, before: Values, changed: Values) -> dict[str, np.ndarray]:
        """The outputs where some inputs differ from those of :meth:`run`.

        Args:
            before: what :meth:`run` gave.
            changed: the inputs that differ.
        """
        differ = dict(changed)
        for part in self._parts:
            if not any(name in differ for name in part.inputs):
                continue
            feeds = {name: differ.get(name, before[name]) for name in part.inputs}
            differ |= {
                name: array
                for name, array in self._run(part, feeds).items()
                if not np.array_equal(array, before[name])
            }
        return {name: differ.get(name, before[name]) for name in self.outputs}

    def _run(self, part: _Part, values: Values) -> dict[str, np.ndarray]:
        feeds = {name: values[name] for name in part.inputs}
        with simulation_errors():
            if part.session is None:
                part.session = self._open(part, feeds)
            arrays = part.session.run(list(part.outputs), feeds)
        return dict(zip(part.outputs, arrays, strict=True))

    def _open(self, part: _Part, feeds: Values) -> SessionLike:
        inputs = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in part.outputs]
        used = {name for node in part.nodes for name in _reads(node)}
        graph = onnx.helper.make_graph(
            [ir.to_proto(node) for node in part.nodes],
            "part",
            inputs,
            outputs,
            [_named(tensor, name) for name, tensor in self._stored.items() if name in used],
        )
        version, opsets = self._versions
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid(*one) for one in opsets.items()],
            ir_version=version,
        )
        data = model.SerializeToString()
        del graph, model
        for node in part.nodes:
            _forget(node)
        part.nodes = ()
        return open_model(data, threads=self._threads, plan_memory=False, pooled=True)

    def _cut(self, nodes: Sequence[ir.Node], sizes: Mapping[str, int], count: int) -> list[_Part]:
        reads = [_reads(node) for node in nodes]
        last = {name: index for index, names in enumerate(reads) for name in names}
        last |= dict.fromkeys(self.outputs, len(nodes))
        writers = {name: index for index, node in enumerate(nodes) for name in _gives(node)}
        ends = _ends(_loads(nodes, self._stored), count, _between(writers, last, sizes, len(nodes)))
        parts, begin = [], 0
        for end in ends:
            inside = range(begin, end)
            own = {name for index in inside for name in _gives(nodes[index])}
            inputs = dict.fromkeys(name for index in inside for name in reads[index])
            parts.append(
                _Part(
                    nodes[begin:end],
                    tuple(name for name in inputs if name not in own | self._stored.keys()),
                    tuple(
                        name for index in inside for name in _gives(nodes[index])
                        if last.get(name, -1) >= end
                    ),
                )
            )  # fmt: skip
            begin = end
        return [part for part in parts if part.outputs]


def _gives(node: ir.Node) -> list[str]:
    return [value.name for value in node.outputs if value.name]


def _reads(node: ir.Node) -> list[str]:
    """What a node reads, its branches too."""
    names = [value.name for value in node.inputs if value is not None and value.name]
    for branch in _branches(node):
        own = set(branch.initializers)
        for inner in branch:
            names += [name for name in _reads(inner) if name not in own]
            own.update(_gives(inner))
    return names


def _branches(node: ir.Node) -> list[ir.Graph]:
    return [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]


def _forget(node: ir.Node) -> None:
    """Let go of the constants of a node's branches: a session holds them now."""
    for branch in _branches(node):
        for value in branch.initializers.values():
            value.const_value = None


def _named(tensor: ir.TensorProtocol, name: str) -> onnx.TensorProto:
    proto = ir.to_proto(tensor)
    proto.name = name
    return proto


def _between(
    writers: Mapping[str, int], last: Mapping[str, int], sizes: Mapping[str, int], count: int
) -> np.ndarray:
    """(count + 1,): elements that a cut before each node has to keep."""
    steps = np.zeros(count + 2)
    for name, index in writers.items():
        size = sizes.get(name, 1)
        steps[index + 1] += size
        steps[min(last.get(name, index), count) + 1] -= size
    return np.cumsum(steps)[: count + 1]


def _loads(nodes: Sequence[ir.Node], stored: Mapping[str, ir.TensorProtocol]) -> np.ndarray:
    """(nodes + 1,): how much of the model lies before each node, 0 to 1.

    By nodes and by bytes of constants alike: a session takes twice its constants while it opens.
    """
    bytes_ = np.zeros(len(nodes))
    for index, node in enumerate(nodes):
        inner = [v.const_value for b in _branches(node) for v in b.initializers.values()]
        outer = [stored.get(value.name or "") for value in node.inputs if value is not None]
        bytes_[index] = sum(tensor.nbytes for tensor in (*inner, *outer) if tensor is not None)
    shares = 1 / max(len(nodes), 1) + bytes_ / max(bytes_.sum(), 1)
    before: np.ndarray = np.concatenate([[0.0], np.cumsum(shares)]) / max(shares.sum(), 1e-9)
    return before


def _ends(loads: np.ndarray, count: int, between: np.ndarray) -> Iterable[int]:
    """Where parts end: spread evenly, each moved to where least lies between."""
    nodes = len(loads) - 1
    ends = []
    for number in range(1, count):
        first, middle, last = np.searchsorted(
            loads, [(number + by) / count for by in (-0.5, 0, 0.5)]
        ).tolist()
        places = range(max(first, 1), min(last, nodes - 1) + 1)
        if places:
            ends.append(min(places, key=lambda place: (between[place], abs(place - middle))))
    return sorted({*ends, nodes})
