"""Small graphs as the lowering reads them, written down without files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.base.plain import JsonValue
from engine.cost.generation1.lowering import lower_generation1
from engine.cost.generation1.timing import DESIGNS
from engine.cost.limits import with_reasons
from engine.cost.lowered import Node, Tensor
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.rows import chip_figures, counted
from engine.facts.npu import NpuDtype
from engine.wire.cost import ChipEstimate


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


def figures(
    net: Net | LoweringGraph,
    chip: str,
    *,
    dtype: NpuDtype = "int8",
    layer_dtypes: Mapping[str, NpuDtype] | None = None,
    ids: Mapping[str, str] | None = None,
    npu_mhz: float | None = None,
    batch: int = 1,
) -> ChipEstimate:
    """What the driver of both generations makes of a graph."""
    graph = net.graph() if isinstance(net, Net) else net
    lowered = with_reasons(lower_generation1(graph, DESIGNS[chip], dtype, layer_dtypes), chip)
    blank = ChipEstimate(
        chip=chip, generation=1, dtype=dtype, cores=1, batch=batch, npu_mhz=0.0, confidence=""
    )
    return chip_figures(blank, counted(lowered, None, ids or {}), npu_mhz)
