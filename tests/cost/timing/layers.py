"""Small lowered networks for the tests of time."""

from __future__ import annotations

from dataclasses import replace

from engine.cost.cycles import Cycles
from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor, Target, Window
from engine.facts.npu import NpuDtype

Shape = tuple[int, ...]


class Net:
    """Layers that are added one by one, each reading the one before."""

    def __init__(self, shape: Shape, dtype: NpuDtype = "int8") -> None:
        self.dtype = dtype
        self.tensors: dict[str, LoweredTensor] = {}
        self.layers: list[LoweredLayer] = []
        self.cycles: list[Cycles] = []
        self._last = self._tensor("x", shape)
        self._append("InputOperator", (), (), (self._last,), target="CPU")

    def add(
        self,
        op: str,
        out: Shape,
        *,
        weight: Shape = (),
        cycles: int = 0,
        target: Target = "NPU",
        depthwise: bool = False,
        window: Window | None = None,
        mode: str = "",
    ) -> Net:
        """A layer of a printed type, from the last output."""
        number = len(self.layers)
        consts = ()
        if weight:
            consts = (self._tensor(f"w{number}", weight, const=True),)
        name = self._tensor(f"t{number}", out)
        self._append(op, (self._last,), consts, (name,), cycles, target)
        self.layers[-1] = replace(self.layers[-1], depthwise=depthwise, window=window, mode=mode)
        self._last = name
        return self

    def conv(self, op: str, channels: int, cycles: int, kernel: int = 3) -> Net:
        """A convolution that keeps height and width."""
        shape = self.tensors[self._last].shape
        weight = (channels, shape[1], kernel, kernel)
        return self.add(op, (1, channels, *shape[2:]), weight=weight, cycles=cycles)

    def done(self, family: str = "rk3588") -> Lowered:
        """The network with its OutputOperator; nothing is added a second time."""
        if self.layers[-1].op == "OutputOperator":
            return self._lowered(family)
        self._append("OutputOperator", (self._last,), (), (), target="CPU")
        return self._lowered(family)

    def _lowered(self, family: str) -> Lowered:
        return Lowered(family, self.dtype, tuple(self.layers), self.tensors, ("x",), (self._last,))

    def _tensor(self, name: str, shape: Shape, const: bool = False) -> str:
        self.tensors[name] = LoweredTensor(name, shape, self.dtype, const)
        return name

    def _append(
        self,
        op: str,
        inputs: tuple[str, ...],
        consts: tuple[str, ...],
        outputs: tuple[str, ...],
        cycles: int = 0,
        target: Target = "NPU",
    ) -> None:
        kind = "Conv" if op.startswith("Conv") else op
        self.layers.append(
            LoweredLayer(
                op,
                kind,
                f"n{len(self.layers)}",
                inputs,
                consts,
                outputs,
                self.dtype,
                target=target,
            )
        )
        self.cycles.append(Cycles(0, cycles, cycles, 0, 0, 0, 0))


def backbone(op: str = "ConvExSwish", blocks: int = 6, dtype: NpuDtype = "int8") -> Net:
    """Convolutions of 64 channels at 80 x 80, with a sum behind each pair."""
    net = Net((1, 64, 80, 80), dtype)
    for _ in range(blocks):
        net.conv(op, 64, 6400 * 36).conv(op, 64, 6400 * 36).add("Add", (1, 64, 80, 80))
    return net
