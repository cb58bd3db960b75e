"""Layers over rows (three dimensions: batch, channels, columns) get a height of one."""

from __future__ import annotations

from engine.cost.lowering.fours import BINARY, UNARY, widen_node
from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context, on

__all__ = ["widen_rows"]

_WINDOWS = frozenset({"AveragePool", "Conv", "ConvTranspose", "MaxPool"})
"""Operators whose windows get a first dimension."""

_OTHERS = frozenset({"BatchNormalization", "GlobalAveragePool", "GlobalMaxPool"})

_ELEMENTWISE = UNARY | BINARY | {"PRelu"}


def widen_rows(graph: LoweringGraph, context: Context) -> None:
    """Convolutions, pools and what is beside them work on (B, C, 1, W), between two reshapes.

    Reshapes that meet cancel, so that activations and sums can be taken in as those of maps are.
    """
    made: set[str] = set()
    for node in graph:
        if not node.inputs or len(graph.shape(node.inputs[0])) != 3:
            continue
        if node.op in _WINDOWS:
            _widen_window(graph, node)
        elif not (node.op in _OTHERS or (node.op in _ELEMENTWISE and _beside(graph, node, made))):
            continue
        made.update(node.outputs)
        widen_node(graph, node)
    if made:
        _cancel(graph, context)


def _beside(graph: LoweringGraph, node: Node, made: set[str]) -> bool:
    """Whether every feature of an elementwise layer is of a widened one."""
    features = graph.features(node)
    rank = all(len(graph.shape(each)) in (0, 1, 3) for each in node.inputs)
    return rank and bool(features) and all(each in made for each in features)


def _widen_window(graph: LoweringGraph, node: Node) -> None:
    for name, value in (("kernel_shape", 1), ("strides", 1), ("dilations", 1)):
        given = node.ints(name)
        if len(given) == 1:
            node.attributes[name] = [value, *given]
    pads = node.ints("pads")
    if len(pads) == 2:
        node.attributes["pads"] = [0, pads[0], 0, pads[1]]
    extra = node.ints("output_padding")
    if len(extra) == 1:
        node.attributes["output_padding"] = [0, *extra]


@on("Reshape")
def _cancel(graph: LoweringGraph, node: Node, context: Context) -> None:
    maker = graph.maker(node.inputs[0], "Reshape")
    if maker is None or graph.is_output(node.outputs[0]):
        return
    if graph.shape(maker.inputs[0]) == graph.shape(node.outputs[0]):
        graph.remove(node)
        graph.replace_reads(node.outputs[0], maker.inputs[0])
        if graph.unread(maker.outputs[0]):
            graph.remove(maker)
