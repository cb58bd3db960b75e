"""Every layer alone on golden inputs, many in one run.

The QDQ graph is cut at every row: whoever read a row's tensor reads a new input instead, through
the tensor's own Q/DQ pair. Each row's tensor becomes an output. One session of ONNX Runtime then
runs many layers side by side, each with the float graph's results as its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from engine.accuracy.rows import Row
from engine.graph.ir import Graph, UniqueNames

__all__ = ["CutGraph", "LayerPart"]


@dataclass(frozen=True)
class LayerPart:
    """Some layers, cut out.

    Attributes:
        graph: its outputs are the rows' simulated tensors.
        inputs: input -> tensor of the float graph that is fed to it; inputs of the source graph
            stand for themselves.
    """

    graph: Graph
    inputs: dict[str, str]


class CutGraph:
    """A QDQ graph cut at every row; parts of it are taken out in time linear in their size.

    Args:
        qdq_graph: read only.
        rows: all rows of the build.
    """

    def __init__(self, qdq_graph: Graph, rows: Sequence[Row]) -> None:
        cut, self._feeds = _cut(qdq_graph, rows)
        self._operators = cut.operators
        self._proto = cut.to_proto()
        graph = self._proto.graph
        self._producers = {
            name: index for index, node in enumerate(graph.node) for name in node.output if name
        }
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._inputs = {value.name: value for value in graph.input}
        self._types = {value.name: value for value in (*graph.value_info, *graph.output)}

    def part(self, wanted: Sequence[Row]) -> LayerPart:
        """The layers of some rows, each with a simulated tensor that a node computes."""
        outputs = [row.simulated for row in wanted if row.simulated is not None]
        indices: set[int] = set()
        sources: dict[str, None] = {}
        waiting = list(outputs)
        while waiting:
            name = waiting.pop()
            index = self._producers.get(name)
            if index is None:
                sources[name] = None
            elif index not in indices:
                indices.add(index)
                waiting.extend(_read(self._proto.graph.node[index]))
        model = onnx.ModelProto(ir_version=self._proto.ir_version)
        model.opset_import.extend(self._proto.opset_import)
        model.graph.name = "layers"
        for index in sorted(indices):
            model.graph.node.append(self._proto.graph.node[index])
        model.graph.input.extend(v for name, v in self._inputs.items() if name in sources)
        model.graph.initializer.extend(
            self._constants[name] for name in sources if name in self._constants
        )
        model.graph.output.extend(self._types[name] for name in dict.fromkeys(outputs))
        inner = {name for node in model.graph.node for name in node.output} - set(outputs)
        model.graph.value_info.extend(
            self._types[name] for name in sorted(inner) if name in self._types
        )
        feeds = {name: tensor for name, tensor in self._feeds.items() if name in sources}
        return LayerPart(Graph.from_proto(model, operators=self._operators), feeds)


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, those of graphs inside it too."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _read(inner)


def _cut(qdq_graph: Graph, rows: Sequence[Row]) -> tuple[Graph, dict[str, str]]:
    """The cut graph, and input -> tensor of the float graph."""
    work = qdq_graph.copy()
    inner = work.model.graph
    values = work.values
    names = UniqueNames(set(values))
    feeds = {value.name or "": value.name or "" for value in inner.inputs}
    heads: list[ir.Node] = []
    outputs: list[ir.Value] = []
    for row in rows:
        value = values.get(row.simulated or "")
        if value is None or value.is_graph_input():
            continue
        outputs.append(value)
        if not value.uses():
            continue
        source = _golden_input(inner, row, value, names)
        feeds[source.name or ""] = row.golden
        replacement, pair = _through_pair(value, source, names)
        for use in tuple(value.uses()):
            if use.node not in pair:
                use.node.replace_input_with(use.idx, replacement)
        heads += pair
    if heads:
        inner.insert_before(inner[0], heads)
    inner.outputs.clear()
    inner.outputs.extend(outputs)
    return Graph(work.model), feeds


def _golden_input(graph: ir.Graph, row: Row, value: ir.Value, names: UniqueNames) -> ir.Value:
    source = ir.Value(
        name=names.claim(f"golden/{row.golden}"),
        type=ir.TensorType(ir.DataType.FLOAT),
        shape=value.shape,
    )
    graph.inputs.append(source)
    return source


def _through_pair(
    value: ir.Value, source: ir.Value, names: UniqueNames
) -> tuple[ir.Value, list[ir.Node]]:
    """What stands for ``value``: the golden input, quantized and dequantized where it is."""
    dequantize = value.producer()
    quantize = _producer(dequantize)
    if dequantize is None or quantize is None:
        return source, []
    if (quantize.op_type, dequantize.op_type) != ("QuantizeLinear", "DequantizeLinear"):
        return source, []
    nodes: list[ir.Node] = []
    current = source
    for node in (quantize, dequantize):
        old = node.outputs[0]
        out = ir.Value(name=names.claim(f"{source.name}/{node.op_type}"), type=old.type)
        out.shape = old.shape
        nodes.append(
            ir.Node(
                "",
                node.op_type,
                [current, *node.inputs[1:]],
                node.attributes.values(),
                outputs=[out],
                name=out.name,
            )
        )
        current = out
    return current, nodes


def _producer(node: ir.Node | None) -> ir.Node | None:
    first = None if node is None or not node.inputs else node.inputs[0]
    return None if first is None else first.producer()
