"""Second moments of the inputs of weighted layers, at random positions.

A convolution is a matrix product of its weight (M, K) with columns of its input, K = channels of a
group x kernel positions. What rounding the weight does to the layer's output is
``trace(E H E^T)`` with the error E and ``H = mean of x x^T`` over columns x: H, and the mean of x
for the bias, are all that rounding needs (Frantar et al. 2022, "GPTQ", eq. 1 to 3).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph
from engine.graph.ir.spec import numbers_of
from engine.quantize.calibration.input_means import window_of
from engine.quantize.planning.node_properties import WeightPlan, weight_axes
from engine.quantize.planning.plan import Plan

# Columns longer than this gain nothing from error feedback for 95 % of the time.
LARGEST_K = 600

# Rows of columns that are multiplied together.
_PILED = 360


class Moments:
    """Second moments and means of one layer's columns, per group of the convolution.

    Attributes:
        node, tensor: the layer and its input.
        groups, length: number of groups G and of rows K of a column.
        is_wide: whether a column is too long for second moments.
        mean: (G, K) after :meth:`finish`; in the float graph's own units.
        second: (G, K, K); None where K is over the limit.
    """

    def __init__(self, node: ir.Node, tensor: str, weight: np.ndarray, rows: int) -> None:
        self.node = node.name or ""
        self.tensor = tensor
        self._rows = rows
        self._window = window_of(node, weight.shape[2:]) if node.op_type == "Conv" else None
        self.groups = 1 if self._window is None else node.attributes.get_int("group", 1)
        self.length = int(
            weight.shape[weight_axes(node)[1]]
            if self._window is None
            else np.prod(weight.shape[1:])
        )
        self.is_wide = self.length > LARGEST_K
        self._sum = np.zeros((self.groups, self.length))
        self._products = (
            None
            if self.is_wide
            else np.zeros((self.groups, self.length, self.length), dtype=np.float32)
        )
        self._count = 0
        self._pile: list[np.ndarray] = []
        self._piled = 0

    def add(self, array: np.ndarray, sample: int) -> None:
        """Take the columns of one sample in; which positions depends on its number alone."""
        columns = self._columns(array, np.random.default_rng(sample))
        if columns is None or columns.shape[1] == 0:
            return
        self._count += columns.shape[1]
        self._sum += columns.sum(axis=1, dtype=np.float64)
        if self._products is not None:
            self._pile.append(columns)
            self._piled += columns.shape[1]
            if self._piled >= _PILED:
                self._multiply()

    def _multiply(self) -> None:
        """Take in what is piled up: a product of many rows takes less time than many of few."""
        if not self._pile or self._products is None:
            return
        columns = self._pile[0] if len(self._pile) == 1 else np.concatenate(self._pile, axis=1)
        self._pile.clear()
        self._piled = 0
        # values of an untrained net may overflow: such layers are rounded to the nearest
        with np.errstate(over="ignore", invalid="ignore"):
            self._products += np.matmul(columns.transpose(0, 2, 1), columns)

    @property
    def is_empty(self) -> bool:
        """Whether no columns were taken in."""
        return self._count == 0

    @property
    def mean(self) -> np.ndarray:
        """(G, K): the mean column."""
        return self._sum / max(self._count, 1)

    @property
    def second(self) -> np.ndarray | None:
        """(G, K, K): the mean of the columns' outer products; None for long columns."""
        self._multiply()
        return None if self._products is None else self._products / max(self._count, 1)

    def _columns(self, array: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
        """(G, rows, K) float32."""
        window, rank = self._window, array.ndim - 2
        if window is None:
            flat = array.reshape(-1, self.length).astype(np.float32)
            if len(flat) > self._rows:
                flat = flat[rng.choice(len(flat), self._rows, replace=False)]
            return flat[None]
        padded = array.astype(np.float32, copy=False)
        pads = [window.padding(axis, size) for axis, size in enumerate(array.shape[2:])]
        if any(map(any, pads)):
            padded = np.pad(padded, [(0, 0), (0, 0), *pads])
        if any(np.less(padded.shape[2:], window.reaches)):
            return None
        axes = tuple(range(2, 2 + rank))
        views = np.lib.stride_tricks.sliding_window_view(padded, window.reaches, axes)
        steps = (*window.strides, *window.dilations)
        views = views[(slice(None), slice(None), *(slice(None, None, step) for step in steps))]
        views = np.moveaxis(views, 1, 1 + rank)  # (N, positions, C, kernel)
        places = views.shape[: 1 + rank]
        chosen = np.arange(int(np.prod(places)))
        if chosen.size > self._rows:
            chosen = rng.choice(chosen.size, self._rows, replace=False)
        stacked = views[np.unravel_index(chosen, places)]
        grouped = stacked.reshape(len(chosen), self.groups, self.length)
        columns: np.ndarray = np.ascontiguousarray(grouped.transpose(1, 0, 2))
        return columns


def make_moments(graph: Graph, plan: Plan, rows: int, samples: int) -> dict[str, Moments]:
    """Empty moments of every weighted node of a form that rounding knows.

    Args:
        graph: the float graph.
        plan: of this graph.
        rows: columns of a layer over all samples.
        samples: number of samples.
    """
    rows_per_sample = max(-(-rows // max(samples, 1)), 1)
    moments: dict[str, Moments] = {}
    for node, weight_plan, tensor in plan.weighted(graph):
        if _is_known(node, weight_plan):
            weight = numbers_of(graph.value(weight_plan.weight))
            moments[weight_plan.node] = Moments(node, tensor, weight, rows_per_sample)
    return moments


def _is_known(node: ir.Node, weight_plan: WeightPlan) -> bool:
    if node.op_type == "Gemm":
        return not node.attributes.get_int("transA", 0)
    return node.op_type == "Conv" or (node.op_type == "MatMul" and weight_plan.axis is not None)
