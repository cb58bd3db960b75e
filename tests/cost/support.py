"""A model as the compiler would lay it out: what most tests of costs begin with."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor, Window
from engine.cost.lowering import lower, read_graph
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.placement import NATIVE_OUTPUTS
from engine.cost.memory import plan_memory
from engine.cost.memory.layout import feature_bytes
from engine.cost.memory.working import working_bytes
from engine.facts.npu import NpuDtype, NpuProfile, npu_profile
from engine.frontends.load import find_source, load_source
from engine.graph.ir import Graph, infer_shapes
from engine.wire.cost import MemoryCost


def npu_of(chip: str) -> NpuProfile:
    """The family of a chip that has one."""
    npu = npu_profile(chip)
    assert npu is not None, chip
    return npu


def read_file(path: Path) -> LoweringGraph:
    """A file as the lowering reads it."""
    return read_graph(load_source(find_source(path)).graph)


def read_model(model: onnx.ModelProto) -> LoweringGraph:
    """A model, by way of a file."""
    with TemporaryDirectory() as folder:
        onnx.save(model, path := Path(folder) / "model.onnx")
        return read_file(path)


def inferred(model: onnx.ModelProto) -> Graph:
    """A model as the engine has it, with all shapes."""
    return infer_shapes(Graph.from_proto(model))


def kilobytes(size: int) -> str:
    """As the compiler prints it, with six digits."""
    return f"{size / 1024:.6g}"


def dtype_of(name: str) -> NpuDtype:
    """``i8`` is int8 too, and everything else float16."""
    return "int8" if name in ("int8", "i8") else "float16"


def laid_out(graph: LoweringGraph, chip: str, dtype: str) -> Lowered:
    """The layers."""
    return lower(graph, npu_of(chip), dtype_of(dtype))


def planned(graph: LoweringGraph, chip: str, dtype: str) -> MemoryCost:
    """The memory of a graph."""
    return plan_memory(laid_out(graph, chip, dtype), npu_of(chip))


class Layers:
    """A lowered graph that is written down.

    Args:
        chip: by name.
        dtype: of every feature.
    """

    def __init__(self, chip: str = "rk3566", dtype: str = "int8") -> None:
        self.npu = npu_of(chip)
        self.dtype = dtype_of(dtype)
        self.tensors: dict[str, LoweredTensor] = {}
        self.layers: list[LoweredLayer] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []

    def feature(self, name: str, *shape: int, dtype: str = "", const: bool = False) -> str:
        """A tensor between layers, or a constant of one."""
        self.tensors[name] = LoweredTensor(name, shape, dtype or self.dtype, const)
        return name

    def input(self, name: str, *shape: int) -> str:
        """An input of the graph."""
        self.inputs.append(self.feature(name, *shape))
        self.layer("InputOperator", to=(name,), target="CPU")
        return name

    def conv(
        self, name: str, source: str, channels: int, *, kernel: int = 1, depthwise: bool = False
    ) -> str:
        """A convolution that keeps the size of the map."""
        batch, inputs, *size = self.tensors[source].shape
        shape = (channels, 1 if depthwise else inputs, kernel, kernel)
        weight = self.feature(f"{name}.w", *shape, dtype="int8", const=True)
        self.feature(name, batch, channels, *size)
        window = Window((kernel, kernel))
        self.layer("Conv", source, to=(name,), consts=(weight,), window=window, depthwise=depthwise)
        return name

    def layer(self, op: str, *sources: str, to: tuple[str, ...], **fields: Any) -> LoweredLayer:
        """Any layer; what it reads and writes are tensors that are there. It is named as that."""
        plain = {"kind": op, "name": to[0] if to else "".join(sources), "dtype": self.dtype}
        plain |= {"inputs": sources, "consts": (), "outputs": to}
        self.layers.append(LoweredLayer(op=op, **{**plain, **fields}))
        return self.layers[-1]

    def output(self, name: str) -> None:
        """An output of the graph."""
        self.outputs.append(name)

    def lowered(self) -> Lowered:
        """All of it; nothing is added a second time."""
        written = len(self.layers)
        for name in self.outputs:
            where = "NPU" if self.npu.family in NATIVE_OUTPUTS else "CPU"
            self.layer("OutputOperator", name, to=(), target=where)
        layers, self.layers = tuple(self.layers), self.layers[:written]
        inputs, outputs = tuple(self.inputs), tuple(self.outputs)
        return Lowered(self.npu.family, self.dtype, layers, self.tensors, inputs, outputs)

    def plan(self) -> MemoryCost:
        """Its memory."""
        return plan_memory(self.lowered(), self.npu)

    def working(self, at: int = 0) -> int:
        """Bytes that a layer works with."""
        lowered = self.lowered()
        return working_bytes(lowered.layers[at], self.npu, lowered)

    def stored(self, name: str, at: int = 0) -> int:
        """Bytes of what a layer writes."""
        lowered = self.lowered()
        return feature_bytes(lowered.tensors[name], self.npu, lowered.layers[at], lowered)


class Chain(Layers):
    """Layers that each read the one before; each has a name of its type and place."""

    def __init__(self, shape: tuple[int, ...] = (1, 3, 64, 64), dtype: str = "int8") -> None:
        super().__init__("rk3588", dtype)
        self.last = self.feature("x", *shape)
        self.inputs.append("x")

    def add(
        self,
        op: str,
        out: tuple[int, ...],
        *,
        weight: tuple[int, ...] = (),
        kernel: int = 0,
        dtype: str = "",
        **fields: Any,
    ) -> Chain:
        """A layer of a printed type; ``kernel`` makes it a convolution of that window."""
        name = f"{op}{len(self.layers)}"
        if kernel:
            weight = (out[1], self.tensors[self.last].shape[1], kernel, kernel)
            fields["window"] = Window((kernel, kernel))
        if weight:
            weights = self.feature(f"{name}.w", *weight, dtype=dtype, const=True)
            fields["consts"] = (weights,)
        fields = {"kind": "Conv" if op.startswith("Conv") else op, "sources": (name,), **fields}
        self.feature(name, *out, dtype=dtype)
        self.layer(op, self.last, to=(name,), dtype=dtype or self.dtype, **fields)
        self.last = name
        return self
