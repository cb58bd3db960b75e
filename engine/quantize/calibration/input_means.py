"""What the weights of a layer are multiplied with, summed over all of its output positions.

The mean of ``conv(x, W)`` over output positions is linear in ``W``: it is ``W`` times the mean of
the input under each place of the kernel. With these means (a few numbers a layer) the mean error
of any rounding of the weights is known exactly, padding and strides included, without another run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph
from engine.graph.ir.spec import numbers_of
from engine.quantize.calibration.observations import MeanInput
from engine.quantize.planning.plan import Plan

BLOCK = 8
"""Samples whose inputs are added up before they are summed over positions, which saves time."""

# Larger inputs are summed sample by sample: adding them up first saves nothing and takes memory.
_PILED_VALUES = 1 << 17


@dataclass(frozen=True)
class Window:
    """How a kernel meets its input; tuples have an entry per spatial axis.

    Attributes:
        pads: begins, then ends; used where ``auto_pad`` is ``NOTSET``.
        auto_pad: ``NOTSET``, ``VALID``, ``SAME_UPPER`` or ``SAME_LOWER``.
        transposed: of ConvTranspose.
        output_padding: of ConvTranspose.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str = "NOTSET"
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    @property
    def reaches(self) -> tuple[int, ...]:
        """From the first to the last place of the kernel along each axis, dilation included."""
        pairs = zip(self.kernel, self.dilations, strict=True)
        return tuple(dilation * (kernel - 1) + 1 for kernel, dilation in pairs)

    def padding(self, axis: int, size: int) -> tuple[int, int]:
        """Zeros before and behind an input of this size along an axis."""
        if self.auto_pad == "VALID":
            return 0, 0
        if self.auto_pad == "NOTSET":
            return self.pads[axis], self.pads[axis + len(self.kernel)]
        stride = self.strides[axis]
        total = max((-(-size // stride) - 1) * stride + self.reaches[axis] - size, 0)
        before = total // 2 if self.auto_pad == "SAME_UPPER" else total - total // 2
        return before, total - before

    def places(self, axis: int, size: int) -> tuple[list[slice], int]:
        """For each place of the kernel along an axis, the inputs that it meets; and the outputs.

        Args:
            axis: spatial axis.
            size: of the input along it.
        """
        kernel, stride, dilation = self.kernel[axis], self.strides[axis], self.dilations[axis]
        reach = self.reaches[axis]
        before, after = self.padding(axis, size)
        if self.transposed:
            outputs = stride * (size - 1) + self.output_padding[axis] + reach - before - after
            return [
                _scattered(k * dilation - before, stride, size, outputs) for k in range(kernel)
            ], outputs
        outputs = (size + before + after - reach) // stride + 1
        return [
            _gathered(k * dilation - before, stride, size, outputs) for k in range(kernel)
        ], outputs


def _gathered(offset: int, stride: int, size: int, outputs: int) -> slice:
    """Inputs ``i = o * stride + offset`` that exist, over all outputs ``o``."""
    first = max(-(offset // stride), 0)
    last = min(outputs - 1, (size - 1 - offset) // stride)
    return (
        slice(0, 0)
        if last < first
        else slice(first * stride + offset, last * stride + offset + 1, stride)
    )


def _scattered(offset: int, stride: int, size: int, outputs: int) -> slice:
    """Inputs ``i`` whose output ``i * stride + offset`` exists."""
    first = max(-(offset // stride), 0)
    last = min(size - 1, (outputs - 1 - offset) // stride)
    return slice(0, 0) if last < first else slice(first, last + 1)


@dataclass(frozen=True)
class InputSum:
    """Which sum a layer needs.

    Attributes:
        tensor: the layer's input.
        window: of a convolution; None of a Gemm.
        transposed: whether the Gemm takes its input transposed.
    """

    tensor: str
    window: Window | None
    transposed: bool = False

    def of(self, array: np.ndarray, lines: Lines | None = None) -> MeanInput:
        """The sum over the output positions of one sample; ``lines``: of the array, if known."""
        if self.window is None:
            rows = array.T if self.transposed else array.reshape(-1, array.shape[-1])
            return MeanInput(rows.sum(axis=0, dtype=np.float64), float(len(rows)))
        batch, _, *sizes = array.shape
        places = [self.window.places(axis, size) for axis, size in enumerate(sizes)]
        # the first axis first: what lies outside of a window is whole rows then, and little is left
        sums = (lines or Lines(array)).over(places[0][0])
        for axis in range(1, len(sizes)):
            sums = Lines(sums, 2 + axis).over(places[axis][0])
        outputs = float(batch * np.prod([count for _, count in places]))
        return MeanInput(sums.sum(axis=0), outputs)


class Sums:
    """The sums of all layers while samples come in.

    Args:
        sums: what is summed.
    """

    def __init__(self, sums: Iterable[InputSum]) -> None:
        self.means: dict[InputSum, MeanInput] = {}
        self._of: dict[str, list[InputSum]] = {}
        for one in sums:
            self._of.setdefault(one.tensor, []).append(one)
        self._piles: dict[str, tuple[np.ndarray, int]] = {}

    def add(self, wanted: InputSum, mean: MeanInput) -> None:
        """Take a sum that was made elsewhere."""
        before = self.means.get(wanted)
        self.means[wanted] = mean if before is None else before.plus(mean)

    def add_input(self, tensor: str, array: np.ndarray) -> None:
        """Take a layer's input on one more sample; it is not changed, and not kept."""
        if array.size > _PILED_VALUES:
            lines = Lines(array)
            for input_sum in self._of[tensor]:
                self.add(input_sum, input_sum.of(array, lines))
            return
        pile, count = self._piles.get(tensor, (None, 0))
        if pile is not None and pile.shape != array.shape:
            self._settle(tensor)
            pile, count = None, 0
        if pile is None:
            pile = array.copy()
        else:
            pile += array
        self._piles[tensor] = pile, count + 1

    def flush(self) -> None:
        """Sum what was added up; where this happens decides last bits, so call it every BLOCK."""
        for tensor in list(self._piles):
            self._settle(tensor)

    def _settle(self, tensor: str) -> None:
        pile, count = self._piles.pop(tensor)
        lines = Lines(pile)
        for input_sum in self._of[tensor]:
            summed = input_sum.of(pile, lines)
            self.add(input_sum, MeanInput(summed.total, summed.positions * count))


class Lines:
    """An array of which one axis is summed at several places; what they share is summed once.

    Args:
        array: floats.
        axis: which.
    """

    def __init__(self, array: np.ndarray, axis: int = 2) -> None:
        self._array, self._axis = array, axis
        self._every: dict[tuple[int, int], np.ndarray] = {}

    def over(self, places: Sequence[slice]) -> np.ndarray:
        """Sums over slices of the axis, float64, stacked in its place."""
        return np.stack([self._sum(place) for place in places], axis=self._axis)

    def _sum(self, place: slice) -> np.ndarray:
        step, size = place.step or 1, self._array.shape[self._axis]
        count = len(range(place.start, place.stop, step))
        if 2 * count * step < size:
            return self._of(place)
        # few values lie outside of a window that moves along: take them off all that it could meet
        first = place.start % step
        total = self._from(first, step)
        if place.start > first:
            total = total - self._of(slice(first, place.start, step))
        after = place.start + count * step
        if after < size:
            total = total - self._of(slice(after, size, step))
        return total

    def _from(self, first: int, step: int) -> np.ndarray:
        """The sums of every ``step``-th value."""
        total = self._every.get((first, step))
        if total is None:
            every = slice(first, None, step)
            total = self._every[first, step] = self._of(every)
        return total

    def _of(self, place: slice) -> np.ndarray:
        letters = "abcdefgh"[: self._array.ndim]
        rest = letters.replace(letters[self._axis], "")
        some = self._array[(slice(None),) * self._axis + (place,)]
        # takes less than half of the time of the method of arrays
        sums: np.ndarray = np.einsum(f"{letters}->{rest}", some)
        return sums.astype(np.float64)


def input_sums(graph: Graph, plan: Plan) -> dict[str, InputSum]:
    """Node name -> what to sum for it, of every weighted node that can have a bias.

    MatMul has none, and a ConvTranspose that only names the size of its output is left out.
    """
    sums: dict[str, InputSum] = {}
    for node, weight_plan, tensor in plan.weighted(graph):
        if node.op_type == "Gemm":
            transposed = bool(node.attributes.get_int("transA", 0))
            sums[weight_plan.node] = InputSum(tensor, None, transposed)
        elif node.op_type != "MatMul":
            weight = numbers_of(graph.value(weight_plan.weight))
            window = window_of(node, weight.shape[2:])
            if window is not None:
                sums[weight_plan.node] = InputSum(tensor, window)
    return sums


def window_of(node: ir.Node, kernel: tuple[int, ...]) -> Window | None:
    """How a Conv or ConvTranspose meets its input; None where it only names its output's size."""
    rank = len(kernel)
    attributes = node.attributes
    transposed = node.op_type == "ConvTranspose"
    auto_pad = attributes.get_string("auto_pad", "NOTSET") or "NOTSET"
    if transposed and (auto_pad != "NOTSET" or "output_shape" in attributes):
        return None
    return Window(
        kernel=kernel,
        strides=tuple(attributes.get_ints("strides", (1,) * rank)),
        dilations=tuple(attributes.get_ints("dilations", (1,) * rank)),
        pads=tuple(attributes.get_ints("pads", (0,) * 2 * rank)),
        auto_pad=auto_pad,
        transposed=transposed,
        output_padding=tuple(attributes.get_ints("output_padding", (0,) * rank)),
    )
