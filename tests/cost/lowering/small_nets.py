"""Small graphs for the tests of the lowering, written with few words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import helper

from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.lowering import lower, read_graph
from engine.facts.npu import NpuDtype
from engine.graph.ir import Graph
from tests.cost.support import npu_of
from tests.graph.models import model

__all__ = ["Net", "layer_of", "lower_for", "names", "shapes"]


class Net:
    """A graph that grows by a node at a time; the tensors are named after the nodes."""

    def __init__(self, *shape: int) -> None:
        self.nodes = [helper.make_node("Relu", ["x"], ["start"], name="start")]
        self.shapes: dict[str, tuple[int, ...]] = {"x": shape}
        self.constants: dict[str, np.ndarray] = {}

    def add(
        self,
        op: str,
        name: str,
        *inputs: str,
        outputs: Sequence[str] = (),
        **attributes: object,
    ) -> str:
        """A node; returns its first output."""
        wanted = list(outputs) or [name]
        self.nodes.append(helper.make_node(op, list(inputs), wanted, name=name, **attributes))
        return wanted[0]

    def constant(self, name: str, array: np.ndarray) -> str:
        """An initializer."""
        self.constants[name] = array
        return name

    def conv(self, name: str, data: str, *weight: int, **attributes: object) -> str:
        """A convolution with a bias; ``weight`` is the shape of its filters."""
        pads = [(weight[2] - 1) // 2, (weight[3] - 1) // 2] * 2
        return self.add(
            "Conv",
            name,
            data,
            self.constant(f"{name}_w", np.zeros(weight, np.float32)),
            self.constant(f"{name}_b", np.zeros(weight[0], np.float32)),
            **{"pads": pads, "kernel_shape": list(weight[2:]), **attributes},
        )

    def lower(self, chip: str, *outputs: str, dtype: str = "int8") -> Lowered:
        """What the compiler would make of it."""
        return lower_for(self.graph(*outputs), chip, "int8" if dtype == "int8" else "float16")

    def graph(self, *outputs: str, opset: int = 21) -> Graph:
        """The graph that ends there."""
        return model(self.nodes, self.shapes, outputs, self.constants, opset=opset)


def lower_for(graph: Graph, chip: str, dtype: NpuDtype) -> Lowered:
    """Of a graph as the engine has it, and a chip by name."""
    npu = npu_of(chip)
    return lower(read_graph(graph), npu, dtype)


def layer_of(lowered: Lowered, name: str) -> LoweredLayer:
    """The one of this full name."""
    return next(each for each in lowered.layers if each.full_name == name)


def shapes(lowered: Lowered, name: str) -> list[tuple[int, ...]]:
    """Of what a layer reads and writes."""
    layer = layer_of(lowered, name)
    return [lowered.shape(each) for each in (*layer.inputs, *layer.outputs)]


def names(lowered: Lowered) -> list[str]:
    """Full names of the layers between the graph's ends."""
    return [each.full_name for each in lowered.layers if "Operator" not in each.kind]
