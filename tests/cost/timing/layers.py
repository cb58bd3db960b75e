"""Small lowered networks for the tests of time."""

from __future__ import annotations

from typing import Any

from engine.cost.cycles import Cycles
from engine.cost.lowered import Lowered
from tests.cost.support import Chain, npu_of

Shape = tuple[int, ...]


class Net(Chain):
    """A chain between an InputOperator and an OutputOperator, with the cycles of its layers."""

    def __init__(self, shape: Shape, dtype: str = "int8") -> None:
        super().__init__(shape, dtype)
        self.layer("InputOperator", to=("x",), target="CPU")
        self.cycles = [_cycles(0), _cycles(0)]

    def add(self, op: str, out: Shape, *, cycles: int = 0, **fields: Any) -> Net:
        """A layer of a printed type, from the last output."""
        super().add(op, out, **fields)
        self.cycles.insert(-1, _cycles(cycles))
        return self

    def conv(self, op: str, channels: int, cycles: int, kernel: int = 3) -> Net:
        """A convolution that keeps height and width."""
        size = self.tensors[self.last].shape[2:]
        return self.add(op, (1, channels, *size), kernel=kernel, cycles=cycles)

    def done(self, chip: str = "rk3588") -> Lowered:
        """The network."""
        self.npu, self.outputs = npu_of(chip), [self.last]
        return self.lowered()


def _cycles(count: int) -> Cycles:
    return Cycles(0, count, count, 0, 0, 0, 0)


def backbone(op: str = "ConvExSwish", blocks: int = 6, dtype: str = "int8") -> Net:
    """Convolutions of 64 channels at 80 x 80, with a sum behind each pair."""
    net = Net((1, 64, 80, 80), dtype)
    for _ in range(blocks):
        net.conv(op, 64, 6400 * 36).conv(op, 64, 6400 * 36).add("Add", (1, 64, 80, 80))
    return net
