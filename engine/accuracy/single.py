"""Every layer alone on golden inputs, all in one run.

The QDQ graph is cut at every row: whoever read a row's tensor reads a new input instead, through
the tensor's own Q/DQ pair. Each row's tensor becomes an output. One session of ONNX Runtime then
runs all layers side by side, each with the float graph's results as its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from engine.accuracy.rows import Row
from engine.graph.ir import Graph, UniqueNames

__all__ = ["SplitGraph", "split_layers"]


@dataclass(frozen=True)
class SplitGraph:
    """A cut graph.

    Attributes:
        graph: its outputs are the rows' simulated tensors.
        inputs: input -> tensor of the float graph that is fed to it; inputs of the source graph
            stand for themselves.
    """

    graph: Graph
    inputs: dict[str, str]


def split_layers(qdq_graph: Graph, rows: Sequence[Row], wanted: Sequence[Row]) -> SplitGraph:
    """Cut a QDQ graph at every row, keeping what the rows of ``wanted`` need.

    Args:
        qdq_graph: read only.
        rows: all rows of the build.
        wanted: rows to compute, each with a simulated tensor.
    """
    work = qdq_graph.copy()
    inner = work.model.graph
    values = work.values
    names = UniqueNames(set(values))
    feeds = {value.name or "": value.name or "" for value in inner.inputs}
    heads: list[ir.Node] = []
    for row in rows:
        value = values.get(row.simulated or "")
        if value is None or value.is_graph_input() or not value.uses():
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
    inner.outputs.extend(values[row.simulated] for row in wanted if row.simulated is not None)
    _prune(inner)
    kept = {value.name or "" for value in inner.inputs}
    return SplitGraph(Graph(work.model), {k: v for k, v in feeds.items() if k in kept})


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


def _prune(graph: ir.Graph) -> None:
    """Drop what no output needs."""
    for node in reversed(list(graph)):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)
    unused = [value for value in graph.inputs if not value.uses() and not value.is_graph_output()]
    for value in unused:
        graph.inputs.remove(value)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
