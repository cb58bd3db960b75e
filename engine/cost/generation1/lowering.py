"""A graph as layers of a chip of generation 1: what is fused is known from the manual, no more.

Fused are batch normalization, Relu and Clip into a convolution, and a max pool where the manual's
conditions hold (Trouble Shooting 1.4.0, 6.1). The chip's own layer table is not public.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.base.plain import JsonValue
from engine.cost.lowered import Lowered, Window
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.lower import frozen_graph, frozen_layer
from engine.cost.lowering.node import Node, Tensor
from engine.facts.npu import NpuDtype

FREE = frozenset({"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast"})
"""Operators that only give a tensor another name or shape."""

_GATES = {"Sigmoid": "Swish", "HardSigmoid": "HardSwish"}
_WINDOWED = frozenset(
    {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool"}
)
_FOLLOWERS = ({"BatchNormalization": ""}, {"Relu": "Relu", "Clip": "Clip"}, {"MaxPool": "MaxPool"})
"""What a convolution computes with it, in order, and how it is printed behind it."""


def lower_generation1(
    graph: LoweringGraph,
    design: str,
    dtype: NpuDtype,
    layer_dtypes: Mapping[str, NpuDtype] | None = None,
) -> Lowered:
    """The layers of a graph, in order; the graph is left as it is.

    Args:
        graph: of :func:`engine.cost.lowering.read.read_graph`.
        design: the NPU: ``rk1808`` or ``rv1126``.
        dtype: ``int8`` for every quantized dtype of 8 bits, or ``float16``.
        layer_dtypes: source node -> dtype of the layers that have another one.
    """
    work = graph.copy()
    for node in work:
        if node not in work:
            continue
        if _constant(work, node):
            for name in node.outputs:
                if name in work.tensors:
                    work.add_unknown(name, work.shape(name), work.tensors[name].dtype)
            work.remove(node)
        elif node.op in ("Conv", "ConvTranspose", "Gemm"):
            _fuse_followers(work, node, 8 if dtype == "int8" else 16)
        elif node.op in _GATES:
            _fuse_gate(work, node)
    own = layer_dtypes or {}
    layers = [frozen_layer(node, work, own, dtype, _window(work, node)) for node in work.nodes]

    def dtype_of(name: str, tensor: Tensor) -> str:
        computed = tensor.dtype.startswith("float") and not tensor.const
        return dtype if computed else tensor.dtype

    return frozen_graph(work, design, dtype, layers, dtype_of)


def fuses_pool(pool: Window, height: int, width: int, bits: int) -> bool:
    """Whether a max pool behind a convolution is computed with it.

    Args:
        pool: its window.
        height, width: of its input.
        bits: of a value: 8 or 16.
    """
    if pool.kernel not in ((2, 2), (3, 3)) or pool.strides != (2, 2) or any(pool.pads):
        return False
    if pool.kernel == (2, 2):
        return height % 2 == 0 and width % 2 == 0
    return height % 2 == 1 and width % 2 == 1 and 1 < width < (64 if bits == 8 else 32)


def _constant(graph: LoweringGraph, node: Node) -> bool:
    """Whether it is computed when the model is built."""
    return node.op in ("Shape", "Constant", "ConstantOfShape") or (
        bool(node.inputs) and not graph.features(node)
    )


def _fuse_followers(graph: LoweringGraph, node: Node, bits: int) -> None:
    for printed in _FOLLOWERS:
        reader = graph.only_reader(node.outputs[0]) if node.outputs else None
        if reader is None or reader.op not in printed:
            continue
        if reader.op == "MaxPool":
            shape, window = graph.shape(reader.inputs[0]), _window(graph, reader)
            if len(shape) != 4 or window is None or not fuses_pool(window, *shape[2:], bits):
                continue
        graph.absorb(node, reader, fused=printed[reader.op])
    channels, group = graph.shape(node.inputs[0])[1:2], node.int("group", 1)
    node.attributes["depthwise"] = node.op == "Conv" and group > 1 and channels == (group,)


def _fuse_gate(graph: LoweringGraph, node: Node) -> None:
    """A Mul that multiplies a sigmoid's output by the sigmoid's input is one layer with it."""
    reader = graph.only_reader(node.outputs[0])
    if reader is None or reader.op != "Mul":
        return
    if sorted(reader.inputs) == sorted([*node.inputs, *node.outputs]):
        graph.absorb(node, reader)
        node.op = _GATES[node.op]


def _window(graph: LoweringGraph, node: Node) -> Window | None:
    if node.kind not in _WINDOWED:
        return None
    shape = graph.shape(node.inputs[0])
    if node.kind.startswith("Global"):
        return Window(kernel=_two(shape[2:]))
    weight = graph.shape(node.inputs[1]) if len(node.inputs) > 1 else ()
    return Window(
        kernel=_two(node.ints("kernel_shape") or weight[2:]),
        strides=_two(node.ints("strides")),
        pads=_pads(node.ints("pads"), node.attributes.get("auto_pad")),
        dilations=_two(node.ints("dilations")),
        group=max(1, node.int("group", 1)),
    )


def _two(values: tuple[int, ...]) -> tuple[int, int]:
    """Height and width; a one-dimensional window has height 1."""
    if len(values) == 1:
        return 1, max(1, values[0])
    return (max(1, values[0]), max(1, values[1])) if len(values) >= 2 else (1, 1)


def _pads(values: tuple[int, ...], auto: JsonValue) -> tuple[int, int, int, int]:
    if len(values) == 4:
        return values[0], values[1], values[2], values[3]
    if len(values) == 2:
        return 0, values[0], 0, values[1]
    # what SAME comes to is not needed: only whether there is a pad
    return (0, 0, 1, 1) if isinstance(auto, str) and auto.startswith("SAME") else (0, 0, 0, 0)
