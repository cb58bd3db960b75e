"""The layers of a float graph as hybrid quantization sees them: how tensors lead between them.

Layers that only hand values on (Transpose, MaxPool, Concat) are *moves*: they have no error of
their own, and follow the layers around them.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from engine.graph.ir import Graph
from engine.graph.layers import Layer
from engine.quantize.planning.node_properties import data_inputs, is_constant, is_float, name_of
from engine.quantize.planning.plan import Plan, plan


class Layers:
    """All layers of a graph, in its order, and how tensors lead from one to the next.

    Args:
        graph: the float graph.
        planned: of this graph; made here when None.
    """

    def __init__(self, graph: Graph, planned: Plan | None = None) -> None:
        self.graph = graph
        self.plan = planned or plan(graph)
        self.map = self.plan.layers
        self.all = self.map.layers
        self.nodes: Mapping[str, ir.Node] = {node.name or "": node for node in graph.nodes}
        self.by_id: Mapping[str, Layer] = {layer.id: layer for layer in self.all}
        self.by_tensor: Mapping[str, Layer] = {layer.tensor: layer for layer in self.all}

    def of_node(self, node: ir.Node | None) -> Layer | None:
        """The layer that a node belongs to; None for shapes, constants and inputs."""
        return None if node is None else self.map.by_node.get(node.name or "")

    def named(self, name: str) -> Layer:
        """A layer by any name that a user may know: its tensor, its node, its source layer.

        Raises:
            RecipeError: there is none, or several; the message has the nearest names.
        """
        return self.map.named(name)

    def readers(self, tensor: str) -> tuple[ir.Node, ...]:
        """The nodes that take a tensor as data, each once."""
        value = self.graph.value(tensor)
        return tuple(
            dict.fromkeys(
                use.node
                for use in value.uses()
                if any(value is taken for taken in data_inputs(use.node))
            )
        )

    def final_readers(self, node: ir.Node) -> frozenset[str]:
        """The quantized layers that take what a reader hands on: itself, or those behind a move."""
        names: set[str] = set()
        waiting, seen = [node], {node}
        while waiting:
            layer = self.of_node(waiting.pop())
            if layer is None or layer.kind == "float":
                continue
            if layer.kind != "move":
                names.add(layer.id)
                continue
            for value in self.graph.node(layer.node).outputs:
                for reader in self.readers(value.name or ""):
                    if reader not in seen:
                        seen.add(reader)
                        waiting.append(reader)
        return frozenset(names)

    def writers(self, tensor: str) -> frozenset[str]:
        """The quantized layers whose values a tensor holds, looked up through moves."""
        names: set[str] = set()
        waiting, seen = [tensor], {tensor}
        while waiting:
            layer = self.of_node(self.graph.producer(waiting.pop()))
            if layer is None or layer.kind == "float":
                continue
            if layer.kind != "move":
                names.add(layer.id)
                continue
            for value in data_inputs(self.graph.node(layer.node)):
                if not is_constant(value) and is_float(value) and name_of(value) not in seen:
                    seen.add(name_of(value))
                    waiting.append(name_of(value))
        return frozenset(names)

    def with_data_movement(self, lifted: Mapping[str, str]) -> dict[str, str]:
        """The lifted layers, and the moves between them.

        A move is lifted where it hands a lifted layer's values on to lifted layers, to layers that
        are float anyway, or out of the graph, and to no quantized layer: there its values would
        be rounded for nothing.

        Args:
            lifted: layer -> dtype.

        Returns:
            The same with moves added, in the order of the graph.
        """
        dtypes = dict(lifted)
        for layer in self.all:
            if layer.kind != "move" or layer.id in lifted:
                continue
            before = [dtypes[name] for name in self.writers(layer.tensor) if name in dtypes]
            after = self.final_readers(self.graph.node(layer.node))
            if before and after <= lifted.keys():
                dtypes[layer.id] = before[0]
        return {layer.id: dtypes[layer.id] for layer in self.all if layer.id in dtypes}
