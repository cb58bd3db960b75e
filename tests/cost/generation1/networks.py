"""Small graphs as the lowering reads them, written down without files."""

from __future__ import annotations

import numpy as np

from engine.base.plain import JsonValue
from engine.cost.lowering.graph import LoweringGraph, Node, Tensor


class Net:
    """Builds a graph node by node; shapes are given, nothing is inferred."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.tensors = {"x": Tensor("x", shape, "float32")}
        self.nodes: list[Node] = []
        self.last = "x"

    def weight(self, shape: tuple[int, ...]) -> str:
        name = f"w{len(self.tensors)}"
        self.tensors[name] = Tensor(name, shape, "float32", lambda: np.zeros(shape, np.float32))
        return name

    def add(
        self,
        op: str,
        out: tuple[int, ...],
        *more: str,
        inputs: list[str] | None = None,
        **attributes: JsonValue,
    ) -> str:
        """A node over the last tensor (or ``inputs``) and ``more``; returns its output."""
        name = f"{op}{len(self.nodes)}"
        self.tensors[name] = Tensor(name, out, "float32")
        read = [*(inputs if inputs is not None else [self.last]), *more]
        self.nodes.append(Node(op, name, op, read, [name], dict(attributes), sources=(name,)))
        self.last = name
        return name

    def conv(
        self, cout: int, kernel: int | tuple[int, int] = 3, stride: int = 1, group: int = 1
    ) -> str:
        """A convolution with "same" pads."""
        _, cin, height, width = self.tensors[self.last].shape
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        filters = self.weight((cout, cin // group, *sides))
        bias = self.weight((cout,))
        return self.add(
            "Conv",
            (1, cout, -(-height // stride), -(-width // stride)),
            filters,
            bias,
            kernel_shape=list(sides),
            strides=[stride, stride],
            pads=[sides[0] // 2, sides[1] // 2] * 2,
            group=group,
        )

    def graph(self, *outputs: str) -> LoweringGraph:
        return LoweringGraph(self.nodes, dict(self.tensors), ["x"], list(outputs or [self.last]))
