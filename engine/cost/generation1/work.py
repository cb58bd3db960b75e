"""What a layer has to do, in the terms of the time model: MACs, bytes, channels, elements.

Memory is the weights, and the most that lives at one time. Simple, and of low confidence: how the
driver lays features out is not public.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod
from typing import Literal

from engine.cost.cycles import Cycles
from engine.cost.generation1.lowering import FREE
from engine.cost.lowered import Lowered, LoweredLayer, Window
from engine.wire.cost import MemoryCost, TensorSpan

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
