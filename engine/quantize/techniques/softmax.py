"""The input range of a Softmax, optimised against the error at its output.

A Softmax does not care how negative a small logit is, nor how large one is that has won already:
clipping both leaves finer steps for what decides. So the range is searched on a grid for the least
squared error of the Softmax's output; a search by the error of the tensor itself would protect the
large values that matter least.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph
from engine.graph.ir.spec import name_of
from engine.quantize.dtypes.scheme import activation_params
from engine.quantize.planning.node_properties import LAYOUT
from engine.quantize.planning.plan import Plan, root_of

# By how much of the width that was seen each end moves outwards.
_MOVES = (0.3, 0.15, 0.0, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6, -0.7)

# Values kept of one tensor and sample, and how much further logits of unseen samples may go.
_KEPT = 512
_STRETCH = 1.5


class Logits:
    """Gathers rows of the inputs of Softmax nodes and finds their ranges.

    Args:
        axes: tensor -> the axis of its Softmax.
        roots: tensor -> the tensor whose scale it has.
    """

    def __init__(self, axes: Mapping[str, int], roots: Mapping[str, str]) -> None:
        self.tensors = tuple(axes)
        self._axes = axes
        self._roots = roots
        self._rows: dict[str, list[np.ndarray]] = {name: [] for name in axes}

    def visit(self, name: str, array: np.ndarray) -> None:
        """Keep some rows of a sample."""
        if name not in self._axes or array.size == 0:
            return
        last = np.moveaxis(array, self._axes[name], -1)
        rows = last.reshape(-1, last.shape[-1])
        step = max(-(-rows.size // max(_KEPT, rows.shape[1])), 1)
        self._rows[name].append(rows[::step].astype(np.float32))

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Tensor with a scale of its own -> (minimum, maximum)."""
        return {
            self._roots[name]: _best_range(np.concatenate(rows))
            for name, rows in self._rows.items()
            if rows
        }


def _best_range(rows: np.ndarray) -> tuple[float, float]:
    """The range of logits (rows, classes) with the least error of their Softmax."""
    middle = rows.mean(axis=-1, keepdims=True)
    values = np.concatenate([rows, middle + (rows - middle) * _STRETCH])
    low, high = float(rows.min()), float(rows.max())
    width = high - low
    exact = _softmax(values)
    best, least = (low, high), np.inf
    for below in _MOVES:
        for above in _MOVES:
            ends = low - below * width, high + above * width
            if ends[0] >= ends[1]:
                continue
            params = activation_params(*ends)
            scale, zero = params.scale[0], params.zero_point[0]
            steps = np.clip(np.rint(values / scale), -128 - zero, 127 - zero)
            error = float(np.square(_softmax(steps * np.float32(scale)) - exact).sum())
            if error < least:
                best, least = ends, error
    return best


def _softmax(rows: np.ndarray) -> np.ndarray:
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def find_logits(graph: Graph, plan: Plan) -> Logits:
    """The quantized tensors that nothing but Softmax nodes read, at once or moved about."""
    axes: dict[str, int] = {}
    roots: dict[str, str] = {}
    values = graph.values
    for node in graph.nodes:
        tensor = name_of(node.inputs[0]) if node.op_type == "Softmax" and node.inputs else ""
        if node.domain or tensor not in plan.tensors:
            continue
        root = root_of(tensor, plan.sources)
        if _leads_to_softmax(values[root]):
            axes[tensor] = node.attributes.get_int("axis", -1)
            roots[tensor] = root
    return Logits(axes, roots)


def _leads_to_softmax(value: ir.Value) -> bool:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value.is_graph_output():
            return False
        for use in value.uses():
            if use.node.op_type in LAYOUT:
                waiting.extend(use.node.outputs)
            elif use.node.op_type != "Softmax":
                return False
    return True
