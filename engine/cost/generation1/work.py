"""What a layer has to do, in the terms of the time model: MACs, bytes, channels, elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from engine.cost.generation1.lowering import FREE
from engine.cost.lowered import Lowered, LoweredLayer, Window

__all__ = ["Work", "WorkKind", "work_of"]

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


@dataclass(frozen=True, slots=True)
class Work:
    """Of one layer and one inference.

    Attributes:
        op: the layer's, without what is fused.
        macs: multiply-accumulates, without padding.
        kernel: height x width of the window, 1 where there is none.
        side: the longer side of the window, dilated.
        dilated: whether there are gaps in the window.
        pixels: height x width of the output.
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
    pixels: int = 0
    read: int = 0
    write: int = 0
    weight: int = 0
    elements: int = 0
    float16: bool = False

    @property
    def bytes(self) -> int:
        """Moved in all."""
        return self.read + self.write + self.weight


def work_of(layer: LoweredLayer, lowered: Lowered) -> Work:
    """What a layer does; one that nothing is known of counts as the programmable part's."""
    return replace(_work(layer, lowered), float16=layer.dtype == "float16")


def _work(layer: LoweredLayer, lowered: Lowered) -> Work:
    size = 1 if layer.dtype == "int8" else 2
    out = _largest(layer.outputs, lowered)
    read = sum(prod(lowered.shape(each)) for each in layer.inputs) * size
    write = sum(prod(lowered.shape(each)) for each in layer.outputs) * size
    weight = sum(prod(lowered.shape(each)) for each in layer.consts) * size
    elements = prod(out)
    kind = _kind(layer, lowered)
    if kind in ("dense", "depthwise"):
        return _convolution(layer, lowered, kind, read, write, weight)
    if kind == "matmul":
        shape = lowered.shape(layer.inputs[0]) if layer.inputs else ()
        depth = shape[-1] if shape else 1
        rows = elements // max(1, out[-1] if out else 1)
        return Work(
            kind,
            layer.kind,
            macs=elements * depth,
            pixels=rows,
            read=read,
            write=write,
            weight=weight,
            elements=elements,
        )
    window = layer.window
    return Work(
        kind,
        layer.op,
        kernel=window.kernel[0] * window.kernel[1] if window else 1,
        side=_side(window) if window else 1,
        stride=max(window.strides) if window else 1,
        pixels=prod(out[2:]) if len(out) > 2 else 1,
        read=read,
        write=write,
        weight=weight,
        elements=elements,
    )


def _convolution(
    layer: LoweredLayer, lowered: Lowered, kind: WorkKind, read: int, write: int, weight: int
) -> Work:
    shape = lowered.shape(layer.inputs[0])
    filters = lowered.shape(layer.consts[0]) if layer.consts else ()
    out = _largest(layer.outputs, lowered)
    window = layer.window
    kernel = window.kernel[0] * window.kernel[1] if window else 1
    group = window.group if window else 1
    cin = shape[1] // group if len(shape) > 1 else prod(shape)
    if layer.kind == "ConvTranspose":
        # each input pixel is multiplied with the whole kernel
        cout = filters[1] if len(filters) > 1 else 1
        pixels = prod(shape[2:])
    else:
        cout = (filters[0] if layer.kind == "Conv" and filters else _channels(out)) // group
        # what a fused pool leaves out is computed all the same
        pixels = prod(out[2:]) * (4 if "MaxPool" in layer.op else 1)
    return Work(
        kind,
        layer.kind,
        macs=pixels * kernel * cin * cout * group,
        kernel=kernel,
        side=_side(window) if window else 1,
        dilated=window is not None and max(window.dilations) > 1,
        stride=max(window.strides) if window else 1,
        group=group,
        pixels=pixels,
        read=read,
        write=write,
        weight=weight,
        elements=prod(out),
    )


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
        return "free" if op == "Transpose" and _moves_nothing(layer, lowered) else "move"
    return "program"


def _side(window: Window) -> int:
    return max(
        (size - 1) * dilation + 1
        for size, dilation in zip(window.kernel, window.dilations, strict=True)
    )


def _moves_nothing(layer: LoweredLayer, lowered: Lowered) -> bool:
    """Whether a transpose leaves all values in their order: at most one dimension is not 1."""
    return sum(each != 1 for each in lowered.shape(layer.inputs[0])) <= 1


def _largest(names: tuple[str, ...], lowered: Lowered) -> tuple[int, ...]:
    return max((lowered.shape(each) for each in names), key=prod, default=())


def _channels(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) > 1 else prod(shape)
