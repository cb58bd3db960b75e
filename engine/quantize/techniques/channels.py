"""Which channels of a float graph can be scaled together without changing its outputs.

A positive factor per channel passes through Relu, LeakyRelu, pooling, Concat and Add, is made by
the weights of the layer before and undone by those of the layer behind (Nagel et al. 2019,
"Data-free quantization through weight equalization and bias correction", section 4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, is_custom
from engine.graph.ir.spec import array_of, input_at, name_of
from engine.graph.passes.base import operators
from engine.graph.passes.base import shape as shape_of
from engine.quantize.planning.node_properties import (
    WEIGHTED,
    Role,
    WeightPlan,
    is_constant,
    weight_axes,
)
from engine.quantize.planning.plan import Plan


@dataclass(frozen=True)
class Consumer:
    """A weighted node that reads a scaled tensor and undoes the factors in its weight."""

    node: str
    tensor: str
    weights: WeightPlan
    per_channel: bool
    """Whether every input channel has output channels, thus weight scales, of its own."""


@dataclass(frozen=True)
class Channels:
    """The channels of a graph's tensors, as numbers of groups that share one factor.

    Attributes:
        groups: tensor -> group number of every channel (axis 1), int64; only float tensors of known
            channels.
        count: number of groups.
        frozen: (count,) bool: groups that must keep factor 1.
        producers: weighted node -> the tensor whose channels its weights make.
        consumers: the weighted nodes that undo factors.
    """

    groups: Mapping[str, np.ndarray]
    count: int
    frozen: np.ndarray
    producers: Mapping[str, str]
    consumers: tuple[Consumer, ...]


# Operators whose output channel is a positively homogeneous function of the same input channel.
_PASSING = operators(
    "Relu LeakyRelu PRelu MaxPool AveragePool GlobalAveragePool GlobalMaxPool Identity Dropout"
)

_GATES = frozenset({"Sigmoid", "HardSigmoid"})


def find_channels(graph: Graph, plan: Plan) -> Channels:
    """Group the channels of all tensors; linear in the number of channels and nodes."""
    return _Finder(graph, plan).run()


class _Finder:
    def __init__(self, graph: Graph, plan: Plan) -> None:
        self._graph = graph
        self._plan = plan
        self._ids: dict[str, np.ndarray] = {}
        self._next = 0
        self._frozen: list[np.ndarray] = []
        self._links: list[tuple[np.ndarray, np.ndarray]] = []
        self._producers: dict[str, str] = {}
        self._consumers: list[Consumer] = []
        uses: dict[str, int] = {}
        for weight_plan in plan.weights.values():
            for name in (weight_plan.weight, weight_plan.bias):
                if name:
                    uses[name] = uses.get(name, 0) + 1
        self._shared = {
            name for name in uses if uses[name] > 1 or len(list(graph.value(name).uses())) > 1
        }

    def run(self) -> Channels:
        for node in self._graph.nodes:
            self._visit(node)
        for value in self._graph.model.graph.outputs:
            self._freeze(value)
        labels = join_groups(self._next, self._links)
        frozen = np.zeros(self._next, dtype=bool)
        for ids in self._frozen:
            frozen[labels[ids]] = True
        return Channels(
            groups={name: labels[ids] for name, ids in self._ids.items()},
            count=self._next,
            frozen=frozen,
            producers=self._producers,
            consumers=tuple(self._consumers),
        )

    def _visit(self, node: ir.Node) -> None:
        role = self._plan.roles.get(node.name or "", Role.FLOAT)
        handler = self._handler(node) if role is not Role.FLOAT and not is_custom(node) else None
        if handler is not None and handler(self, node):
            return
        for value in node.inputs:
            if value is not None:
                self._freeze(value)

    @staticmethod
    def _handler(node: ir.Node) -> Callable[[_Finder, ir.Node], bool] | None:
        return _HANDLERS.get(node.op_type)

    def _freeze(self, value: ir.Value) -> None:
        ids = self._ids.get(name_of(value))
        if ids is not None:
            self._frozen.append(ids)

    def _new(self, size: int) -> np.ndarray:
        ids = np.arange(self._next, self._next + size)
        self._next += size
        return ids

    # -- operators: True where the factors of all inputs are handled ---------------------------

    def weighted(self, node: ir.Node) -> bool:
        weight_plan = self._plan.weights.get(node.name or "")
        if weight_plan is None:
            return False
        if weight_plan.weight in self._shared or (weight_plan.bias or "") in self._shared:
            return False
        weight = array_of(node.inputs[1])
        data = node.inputs[0]
        if weight is None or data is None or not _is_plain(node, weight):
            return False
        source = self._ids.get(name_of(data))
        outputs, inputs = _sizes(node, weight)
        if source is not None:
            if len(source) != inputs:
                return False
            depthwise = _group(node) == inputs > 1
            self._consumers.append(Consumer(node.name or "", name_of(data), weight_plan, depthwise))
        out = name_of(node.outputs[0])
        self._ids[out] = self._new(outputs)
        self._producers[node.name or ""] = out
        return True

    def passing(self, node: ir.Node) -> bool:
        ids = self._ids.get(name_of(node.inputs[0]))
        if ids is None:
            return False
        if node.op_type == "PRelu" and not is_constant(node.inputs[1]):
            return False
        if len(node.outputs) > 1 and any(v.name and v.uses() for v in node.outputs[1:]):
            return False
        self._ids[name_of(node.outputs[0])] = ids
        return True

    def clip(self, node: ir.Node) -> bool:
        """A Clip at 0 alone is a Relu; other bounds would have to be scaled per channel."""
        low, high = array_of(input_at(node, 1)), array_of(input_at(node, 2))
        open_end = input_at(node, 2) is None or (high is not None and np.isposinf(high).all())
        if low is None or low.any() or not open_end:
            return False
        return self.passing(node)

    def flatten(self, node: ir.Node) -> bool:
        """(1, C, H, W) to (1, C H W): every feature keeps the factor of its channel."""
        ids = self._ids.get(name_of(node.inputs[0]))
        before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
        if ids is None or before is None or after is None or len(after) != 2:
            return False
        if before[0] != after[0] or before[1] != len(ids):
            return False
        self._ids[name_of(node.outputs[0])] = np.repeat(ids, after[1] // before[1])
        return True

    def add(self, node: ir.Node) -> bool:
        left, right = (self._ids.get(name_of(v)) for v in node.inputs)
        shapes = [shape_of(v) for v in node.inputs]
        if left is None or right is None or shapes[0] is None or shapes[0] != shapes[1]:
            return False
        self._links.append((left, right))
        self._ids[name_of(node.outputs[0])] = left
        return True

    def multiply(self, node: ir.Node) -> bool:
        """A gate between 0 and 1 keeps its own unit; what it multiplies passes its factors on."""
        for gate, data in (node.inputs, reversed(node.inputs)):
            if gate is None or data is None:
                continue
            producer = gate.producer()
            ids, shape = self._ids.get(name_of(data)), shape_of(data)
            is_gate = producer is not None and producer.op_type in _GATES
            if is_gate and ids is not None and shape == shape_of(node.outputs[0]):
                self._ids[name_of(node.outputs[0])] = ids
                self._freeze(gate)
                return True
        return False

    def concat(self, node: ir.Node) -> bool:
        parts = [self._ids.get(name_of(v)) for v in node.inputs]
        shape = shape_of(node.outputs[0])
        if shape is None or node.attributes.get_int("axis", 0) not in (1, 1 - len(shape)):
            return False
        if any(part is None for part in parts):
            return False
        self._ids[name_of(node.outputs[0])] = np.concatenate([p for p in parts if p is not None])
        return True


_HANDLERS: Mapping[str, Callable[[_Finder, ir.Node], bool]] = MappingProxyType(
    dict.fromkeys(_PASSING, _Finder.passing)
    | dict.fromkeys(WEIGHTED, _Finder.weighted)
    | dict.fromkeys(("Flatten", "Reshape", "Squeeze"), _Finder.flatten)
    | {
        "Add": _Finder.add,
        "Mul": _Finder.multiply,
        "Concat": _Finder.concat,
        "Clip": _Finder.clip,
    }
)


def _group(node: ir.Node) -> int:
    return node.attributes.get_int("group", 1)


def _is_plain(node: ir.Node, weight: np.ndarray) -> bool:
    """Forms whose weight has one axis of input and one of output channels."""
    if node.op_type == "Gemm":
        return node.attributes.get_int("transA", 0) == 0
    if node.op_type == "MatMul":
        shape = shape_of(node.inputs[0])
        return weight.ndim == 2 and shape is not None and len(shape) == 2
    return node.op_type == "Conv" or _group(node) == 1


def _sizes(node: ir.Node, weight: np.ndarray) -> tuple[int, int]:
    """(output channels, input channels)."""
    out, into = weight_axes(node)
    return weight.shape[out], weight.shape[into] * _group(node)


def input_axis_scaled(node: ir.Node, weight: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The weight with its input channels times ``factors`` (one per channel), float32."""
    into = weight_axes(node)[1]
    shape = [1] * weight.ndim
    group = _group(node)
    if group == 1:
        shape[into] = -1
        scaled: np.ndarray = weight * factors.reshape(shape)
    else:
        # (M, C/g, ...): rows of one group read C/g neighbouring channels
        grouped = weight.reshape(group, weight.shape[0] // group, *weight.shape[1:])
        column = factors.reshape(group, 1, weight.shape[1], *[1] * (weight.ndim - 2))
        scaled = (grouped * column).reshape(weight.shape)
    return scaled.astype(np.float32)


def output_axis_scaled(node: ir.Node, weight: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The weight with its output channels times ``factors`` (one per channel), float32."""
    shape = [1] * weight.ndim
    shape[weight_axes(node)[0]] = -1
    scaled: np.ndarray = (weight * factors.reshape(shape)).astype(np.float32)
    return scaled


def join_groups(count: int, links: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The smallest number that is linked with each number 0..count-1."""
    labels = np.arange(count)
    changed = True
    while changed:
        changed = False
        for left, right in (*links, *reversed(links)):
            small = np.minimum(labels[left], labels[right])
            if (labels[left] != small).any() or (labels[right] != small).any():
                changed = True
                # channels that stand twice in a tensor: minimum.at, not assignment
                np.minimum.at(labels, left, small)
                np.minimum.at(labels, right, small)
        labels = labels[labels]
    return labels
