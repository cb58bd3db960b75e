"""The nodes and tensors of an ONNX file as it is, one at a time, straight from the protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx_ir import serde

from engine.base.errors import EngineError, GraphError
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.frontends.onnx.read import load_external
from engine.frontends.onnx.tensors import check_tensor_sizes
from engine.frontends.source import SourceSummary
from engine.frontends.views import model_view, source_graph
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import IR_VERSION
from engine.graph.ir.spec import spec_of
from engine.graph.ir.views import node_detail
from engine.wire.model import NodeDetail, NodeRow

_PARAMETRISED = ("DequantizeLinear", "QuantizeLinear")
DAMAGES = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
"""What onnx_ir raises of messages that are damaged, besides its own."""


class SourceInspection:
    """A file as it is: its views, and details of single nodes and constants on demand.

    A detail takes milliseconds whatever the size of the graph: a graph of the node and its
    neighbours is made and asked. (The first one makes an index of the nodes.)

    Args:
        path: the file, whose folder external weights are read from.
        proto: its message, cleaned, nodes in order; weights may be stripped.
        weights: tensors that were stripped from it.
        types: tensor -> what inference knows of it.
        summary: what the file holds.

    Attributes:
        summary: the same.
        model: the model view of :func:`engine.frontends.onnx.inspect_onnx`.
        graph: the graph view.
    """

    def __init__(
        self,
        path: Path,
        proto: onnx.ModelProto,
        weights: Mapping[str, onnx.TensorProto],
        types: Mapping[str, onnx.ValueInfoProto],
        summary: SourceSummary,
    ) -> None:
        self.summary = summary
        self.model = model_view(path, summary)
        self.graph = source_graph(summary)
        self._path = path
        self._opset = list(proto.opset_import)
        self._nodes = proto.graph.node
        self._inputs = {v.name: v for v in proto.graph.input if v.name not in weights}
        self._constants = {tensor.name: tensor for tensor in proto.graph.initializer} | dict(
            weights
        )
        self._types = dict(types)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {node.name: number for number, node in enumerate(self._nodes)}

    @cached_property
    def _makers(self) -> dict[str, int]:
        """Tensor -> the number of the node that gives it."""
        return {o: number for number, node in enumerate(self._nodes) for o in node.output if o}

    @cached_property
    def _quantizers(self) -> dict[str, int]:
        """Tensor -> the number of the first QuantizeLinear that reads it."""
        backward = reversed(list(enumerate(self._nodes)))
        return {n.input[0]: at for at, n in backward if n.op_type == "QuantizeLinear" and n.input}

    @property
    def open(self) -> bool:
        """Whether a size or a type is unknown that loading might find out."""
        return any(map(_is_open, self.graph.nodes))

    def complete(self, loaded: Graph) -> None:
        """Take the sizes and types that a look does not know from the loaded graph."""
        rows = list(self.graph.nodes)
        for place, row in enumerate(rows):
            name, op, output, _, _, group = row
            value = loaded.values.get(output)
            if value is None or not _is_open(row):
                continue
            spec = spec_of(value)
            shape = shape_text(spec.shape) if spec.rank_known else "?"
            rows[place] = (name, op, output, shape, spec.dtype, group)
            self._types[output] = serde.serialize_value(value)
        self.graph = replace(self.graph, nodes=tuple(rows))

    def node(self, name: str) -> NodeDetail:
        """Everything about one node, as :func:`engine.graph.ir.node_detail` tells it.

        Raises:
            GraphError: no node has this name, or what belongs to it is damaged.
            SourceModelError: external quantization parameters cannot be read.
        """
        index = self._places.get(name)
        if index is None:
            raise _unknown("node", name, self._places)
        try:
            return node_detail(self._around(index), name)
        except DAMAGES as error:
            raise _damaged(name, error) from error

    def constant(self, name: str) -> np.ndarray | None:
        """The array of a constant, read from its file where it is external; None for activations.

        Raises:
            GraphError: no tensor has this name, or its data do not fit its type.
            SourceModelError: its file cannot be read.
        """
        graph = onnx.GraphProto()
        maker = self._makers.get(name)
        if name in self._constants:
            graph.initializer.append(self._constants[name])
        elif maker is not None and self._nodes[maker].op_type == "Constant":
            graph.node.append(self._nodes[maker])
        elif maker is not None or name in self._inputs:
            return None
        else:
            raise _unknown("tensor", name, [*self._constants, *self._inputs, *self._makers])
        try:
            return self._graph(graph).constant(name)
        except DAMAGES as error:
            raise _damaged(name, error) from error

    def _around(self, index: int) -> Graph:
        """A graph of one node, and of its neighbours what a node's detail tells of them."""
        node = self._nodes[index]
        near = {index}
        for tensor in (*node.input, *node.output):
            near.update((self._makers.get(tensor, index), self._quantizers.get(tensor, index)))
        parameters = {
            name
            for number in near
            if self._nodes[number].op_type in _PARAMETRISED
            for name in self._nodes[number].input[1:]
        }
        near.update(self._makers.get(name, index) for name in parameters)
        graph = onnx.GraphProto()
        for number in sorted(near):
            other = self._nodes[number]
            whole = number == index or other.op_type in (*_PARAMETRISED, "Constant")
            graph.node.append(other if whole else _bare(other))
        outputs = {name for other in graph.node for name in other.output}
        graph.value_info.extend(self._types[name] for name in outputs if name in self._types)
        read = dict.fromkeys(name for other in graph.node for name in other.input if name)
        for name in read:
            if name in outputs or name in self._constants:
                continue
            known = self._inputs.get(name) or self._types.get(name)
            graph.input.append(known or onnx.ValueInfoProto(name=name))
        graph.initializer.extend(
            self._constants[name] for name in read if name in parameters & self._constants.keys()
        )
        return self._graph(graph, read)

    def _graph(self, graph: onnx.GraphProto, read: Iterable[str] = ()) -> Graph:
        """A graph to ask; the constants in ``read`` that are not in it come without their data."""
        load_external(self._path, graph)
        check_tensor_sizes(self._path, graph)
        have = {tensor.name for tensor in graph.initializer}
        for name in dict.fromkeys(read):
            if name in self._constants and name not in have:
                tensor = self._constants[name]
                graph.initializer.add(name=name, data_type=tensor.data_type, dims=tensor.dims)
        proto = onnx.ModelProto(ir_version=IR_VERSION, opset_import=self._opset)
        proto.graph.CopyFrom(graph)
        return Graph.from_proto(proto)


def _is_open(row: NodeRow) -> bool:
    return "?" in row[3] or row[4] == "unknown"


def _bare(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node of which only the outputs matter."""
    return onnx.NodeProto(
        name=node.name, op_type=node.op_type, domain=node.domain, output=node.output
    )


def _unknown(what: str, name: str, known: Iterable[str]) -> EngineError:
    return GraphError(
        f"The graph has no {what} {sanitize(name)!r}.",
        remedy=did_you_mean(name, known) or "Look the name up in the graph view.",
    )


def _damaged(name: str, error: Exception) -> EngineError:
    return GraphError(
        f"What belongs to {sanitize(name)!r} is damaged: {sanitize(str(error), 200)}",
        cause="The file was changed after it was written, or written by a faulty exporter.",
        remedy="Export the model again.",
    )
