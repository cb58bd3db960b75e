"""What a layer is called: one name everywhere, and the other names that find it.

A layer is a node that computes, together with the Relu or Clip that saturation does for it. Its
name is that of the node that computes. The nodes behind it, the tensors that they write and the
layers of the source model that were merged into it are aliases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from engine.graph.ir import ORIGIN, Graph
from engine.quantize.plan import Plan, plan

__all__ = ["LayerName", "find_layer", "layer_names"]


@dataclass(frozen=True)
class LayerName:
    """The names of one layer.

    Attributes:
        name: of the node that computes; what tables and messages show.
        op: its operator.
        tensor: what the layer writes, behind its clamps; its key in recipes.
        nodes: all nodes of it, the one that computes first.
        tensors: all tensors that they write, in their order.
        sources: the layers of the source model that it comes from.
    """

    name: str
    op: str
    tensor: str
    nodes: tuple[str, ...]
    tensors: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every name that finds it, its own first."""
        return tuple(
            dict.fromkeys((self.name, self.tensor, *self.nodes, *self.tensors, *self.sources))
        )


def layer_names(graph: Graph, planned: Plan | None = None) -> tuple[LayerName, ...]:
    """The layers of a float graph, in its order.

    Args:
        graph: the float graph.
        planned: of this graph; made here when None.
    """
    return tuple(_names(graph, planned or plan(graph)))


def _names(graph: Graph, planned: Plan) -> Iterator[LayerName]:
    ends: dict[str, tuple[str, tuple[str, ...]]] = {}
    for tensor, chain in planned.clamps.items():
        first = graph.node(chain[0].node).inputs[0] if chain else None
        start = None if first is None else first.producer()
        if start is not None:
            ends[start.name or ""] = (tensor, tuple(clamp.node for clamp in chain))
    absorbed = {name for _, names in ends.values() for name in names}
    for node in graph.nodes:
        name = node.name or ""
        if planned.roles.get(name) is None or name in absorbed or not node.outputs[0].name:
            continue
        tensor, clamps = ends.get(name, (node.outputs[0].name, ()))
        nodes = (name, *clamps)
        parts = [graph.node(part) for part in nodes]
        origin = tuple(dict.fromkeys(text for part in parts for text in _origin(part)))
        written = tuple(value.name for part in parts for value in part.outputs if value.name)
        yield LayerName(name, node.op_type, tensor, nodes, written, origin)


def _origin(node: ir.Node) -> list[str]:
    """The layers of the source model that a node stands for: its own name, where it is one."""
    told = node.metadata_props.get(ORIGIN, "").split("\n")
    return [text for text in told if text] or [node.name or ""]


def find_layer(name: str, layers: Sequence[LayerName]) -> LayerName | None:
    """The layer that a user means by any of its names; None where there is none.

    A tensor counts before a node, and both before a layer of the source model, of which several
    layers may come.
    """
    for names in (_tensors, _nodes, _sources):
        for layer in layers:
            if name in names(layer):
                return layer
    return None


def _tensors(layer: LayerName) -> tuple[str, ...]:
    return layer.tensors


def _nodes(layer: LayerName) -> tuple[str, ...]:
    return layer.nodes


def _sources(layer: LayerName) -> tuple[str, ...]:
    return layer.sources
