"""A graph as layers of a chip of generation 1, and what each of them has to do.

What is fused is known from the manual, no more.

Fused are batch normalization, Relu and Clip into a convolution, and a max pool where the manual's
conditions hold (Trouble Shooting 1.4.0, 6.1). The chip's own layer table is not public.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from engine.cost.cycles import Cycles
from engine.cost.lowered import Lowered, LoweredLayer, Node, Tensor, Window
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.lower import frozen_graph, frozen_layer, window_of
from engine.facts.npu import NpuDtype
from engine.wire.cost import MemoryCost, TensorSpan

FREE = frozenset({"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast"})
"""Operators that only give a tensor another name or shape."""

_GATES = {"Sigmoid": "Swish", "HardSigmoid": "HardSwish"}
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
    layers = [frozen_layer(node, work, own, dtype) for node in work.nodes]

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
            shape, window = graph.shape(reader.inputs[0]), window_of(reader, graph)
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


# What a layer has to do, in the terms of the time model: MACs, bytes, channels, elements.
#
# Memory is the weights, and the most that lives at one time. Simple, and of low confidence: how the
# driver lays features out is not public.

WorkKind = Literal[
    "dense", "depthwise", "matmul", "lookup", "elementwise", "pool", "move", "program", "free"
]
"""Which unit works: the MAC array (``dense``, ``depthwise``, ``matmul``), a table of an activation,
elementwise and pooling stages, a copy, the programmable part, or none."""

_LOOKUP = frozenset(
    {"Swish", "HardSwish", "Sigmoid", "HardSigmoid", "LeakyRelu", "PRelu", "Tanh", "Elu", "Mish"}
    | {"Softplus", "Gelu", "Erf", "Exp", "Log", "Sqrt", "Selu", "Celu", "ThresholdedRelu"}
)
_ELEMENTWISE = frozenset(
    {"Add", "Sub", "Mul", "Max", "Min", "Sum", "Relu", "Clip", "Neg", "Abs", "BatchNormalization"}
)
_POOL = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool"})
_MOVE = frozenset(
    {"Concat", "Split", "Slice", "Transpose", "Pad", "Tile", "Expand", "DepthToSpace"}
    | {"SpaceToDepth", "Resize", "Upsample", "Gather"}
)
_MULTIPLIES = ("dense", "depthwise", "matmul")


@dataclass(frozen=True, slots=True)
class Work:
    """Of one layer and one inference.

    Attributes:
        op: the layer's; of one that multiplies without what is fused.
        macs: multiply-accumulates, without padding.
        kernel: height x width of the window, 1 where there is none.
        side: the longer side of the window, dilated.
        dilated: whether it is a convolution with gaps in the window.
        read, write, weight: bytes.
        elements: values of the output.
        float16: whether it computes in float16 and not in 8 bits.
    """

    kind: WorkKind
    op: str
    macs: int = 0
    kernel: int = 1
    side: int = 1
    dilated: bool = False
    stride: int = 1
    group: int = 1
    read: int = 0
    write: int = 0
    weight: int = 0
    elements: int = 0
    float16: bool = False

    @property
    def bytes(self) -> int:
        """Moved in all."""
        return self.read + self.write + self.weight

    @property
    def figures(self) -> Cycles:
        """As a layer of generation 2 has them; cycles are not public."""
        return Cycles(0, 0, 0, self.read + self.weight, self.write, self.weight, self.macs)


def all_works(lowered: Lowered) -> tuple[Work, ...]:
    """Of every layer, in order."""
    return tuple(work_of(layer, lowered) for layer in lowered.layers)


def work_of(layer: LoweredLayer, lowered: Lowered) -> Work:
    """What a layer does; one that nothing is known of counts as the programmable part's."""

    def moved(names: tuple[str, ...]) -> int:
        return sum(prod(lowered.shape(name)) for name in names) * size

    size = 1 if layer.dtype == "int8" else 2
    out = max(map(lowered.shape, layer.outputs), key=prod, default=())
    kind = _kind(layer, lowered)
    convolves = kind in ("dense", "depthwise")
    window = layer.window or Window()
    macs = 0
    if convolves:
        macs = _convolved(layer, lowered, window, out)
    elif kind == "matmul":
        shape = lowered.shape(layer.inputs[0]) if layer.inputs else ()
        macs = prod(out) * (shape[-1] if shape else 1)
    return Work(
        kind,
        layer.kind if kind in _MULTIPLIES else layer.op,
        macs=macs,
        kernel=prod(window.kernel),
        side=max((k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True)),
        dilated=convolves and max(window.dilations) > 1,
        stride=max(window.strides),
        group=window.group,
        read=moved(layer.inputs),
        write=moved(layer.outputs),
        weight=moved(layer.consts),
        elements=prod(out),
        float16=layer.dtype == "float16",
    )


def _convolved(layer: LoweredLayer, lowered: Lowered, window: Window, out: tuple[int, ...]) -> int:
    """Multiply-accumulates of a convolution or a fully connected layer."""
    shape = lowered.shape(layer.inputs[0])
    filters = lowered.shape(layer.consts[0]) if layer.consts else ()
    inputs = _channels(shape) // window.group
    if layer.kind == "ConvTranspose":
        # each input pixel is multiplied with the whole kernel
        outputs = filters[1] if len(filters) > 1 else 1
        pixels = prod(shape[2:])
    else:
        whole = filters[0] if layer.kind == "Conv" and filters else _channels(out)
        outputs = whole // window.group
        # what a fused pool leaves out is computed all the same
        pixels = prod(out[2:]) * (4 if "MaxPool" in layer.op else 1)
    return pixels * prod(window.kernel) * inputs * outputs * window.group


def _kind(layer: LoweredLayer, lowered: Lowered) -> WorkKind:
    op = layer.kind
    if op in ("Conv", "ConvTranspose", "Gemm"):
        return "depthwise" if layer.depthwise else "dense"
    if op in ("MatMul", "Einsum"):
        return "matmul"
    if layer.op in _LOOKUP:
        return "lookup"
    if op in _ELEMENTWISE or (op == "Div" and layer.consts):
        return "elementwise"
    if op in _POOL or op.startswith("Reduce"):
        return "pool"  # a reduction reads all and writes little, as a pool does
    if op in FREE:
        return "free"
    if op in _MOVE:
        # a transpose with at most one dimension that is not 1 leaves all values in their order
        stays = op == "Transpose" and sum(d != 1 for d in lowered.shape(layer.inputs[0])) <= 1
        return "free" if stays else "move"
    return "program"


def _channels(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) > 1 else prod(shape)


_BIAS_BYTES = 4


def memory_of(lowered: Lowered) -> MemoryCost:
    """Bytes of weights and of the features that live together at the worst moment.

    Features are stacked by birth: sums that live together, which no planner can undercut.
    """
    size = 1 if lowered.dtype == "int8" else 2
    consts = {name for layer in lowered.layers for name in layer.consts if name in lowered.tensors}
    shapes = map(lowered.shape, consts)
    weight = sum(prod(shape) * (size if len(shape) > 1 else _BIAS_BYTES) for shape in shapes)
    births, deaths = dict.fromkeys(lowered.inputs, 0), dict.fromkeys(lowered.inputs, 0)
    for at, layer in enumerate(lowered.layers):
        for name in (*layer.outputs, *layer.inputs):
            births.setdefault(name, at)
            deaths[name] = at
    last = len(lowered.layers) - 1
    deaths.update({name: last for name in lowered.outputs if name in births})
    starting, ending = defaultdict(list), defaultdict(list)
    for name, at in births.items():
        starting[at].append(name)
        ending[deaths[name]].append(name)
    sizes = {name: size * prod(lowered.shape(name)) for name in births if name in lowered.tensors}
    living = peak = 0
    spans: list[TensorSpan] = []
    for at in range(len(lowered.layers)):
        for name in starting.get(at, ()):
            end = living + sizes.get(name, 0)
            spans.append(TensorSpan(name, living, end, at, deaths[name]))
            living = end
        peak = max(peak, living)
        living -= sum(sizes.get(name, 0) for name in ending.get(at, ()))
    return MemoryCost(peak, weight, peak + weight, tuple(spans))
