"""Lowered graphs of a few layers, written down."""

from __future__ import annotations

from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor, Target, Window
from engine.cost.lowering.placement import NATIVE_OUTPUTS
from engine.facts.npu import NpuDtype

__all__ = ["Maker"]


class Maker:
    """Layers one behind the other.

    Args:
        family: of chips.
        dtype: of every feature.
    """

    def __init__(self, family: str = "rk3566", dtype: NpuDtype = "int8") -> None:
        self.family = family
        self.dtype: NpuDtype = dtype
        self.tensors: dict[str, LoweredTensor] = {}
        self.layers: list[LoweredLayer] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []

    def feature(self, name: str, *shape: int, dtype: str | None = None) -> str:
        """A tensor between layers."""
        self.tensors[name] = LoweredTensor(name, shape, dtype or self.dtype)
        return name

    def input(self, name: str, *shape: int) -> str:
        """An input of the graph."""
        self.layers.append(
            LoweredLayer("InputOperator", "InputOperator", name, (), (), (name,), self.dtype, "CPU")
        )
        self.inputs.append(name)
        return self.feature(name, *shape)

    def conv(
        self,
        name: str,
        source: str,
        channels: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        depthwise: bool = False,
    ) -> str:
        """A convolution that keeps the size of the map, divided by its stride."""
        batch, inputs, height, width = self.tensors[source].shape
        shape = (channels, 1 if depthwise else inputs, kernel, kernel)
        self.tensors[f"{name}.w"] = LoweredTensor(f"{name}.w", shape, "int8", const=True)
        window = Window(kernel=(kernel, kernel), strides=(stride, stride))
        result = self.feature(name, batch, channels, -(-height // stride), -(-width // stride))
        self.layers.append(
            LoweredLayer(
                "Conv",
                "Conv",
                name,
                (source,),
                (f"{name}.w",),
                (result,),
                self.dtype,
                window=window,
                depthwise=depthwise,
            )
        )
        return result

    def layer(self, kind: str, *sources: str, to: tuple[str, ...], mode: str = "") -> None:
        """Any other layer; its results are features that were made before."""
        self.layers.append(LoweredLayer(kind, kind, to[0], sources, (), to, self.dtype, mode=mode))

    def output(self, name: str) -> None:
        """An output of the graph."""
        self.outputs.append(name)

    def lowered(self) -> Lowered:
        """All of it."""
        where: Target = "NPU" if self.family in NATIVE_OUTPUTS else "CPU"
        op = "OutputOperator"
        ends = [
            LoweredLayer(op, op, name, (name,), (), (), self.dtype, where) for name in self.outputs
        ]
        return Lowered(
            self.family,
            self.dtype,
            (*self.layers, *ends),
            self.tensors,
            tuple(self.inputs),
            tuple(self.outputs),
        )
