"""What a layer has to do, in countable quantities: cycles, bytes, elements, tasks.

Everything here is of the graph and the family's layout, nothing of a chip's speed: the speeds are
in :mod:`engine.cost.timing.form`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from engine.cost.cycles import aligned
from engine.cost.lowered import ENDS, Lowered, LoweredLayer
from engine.facts.npu import NpuDtype, NpuProfile

Part = Literal["array", "copy", "elementwise", "pool", "attention", "softmax", "cpu", "nothing"]
"""The unit of the chip that a layer keeps busy."""

ACTIVATIONS = ("silu", "sigmoid", "leaky", "hardswish", "gelu", "add")
"""What an element waits for in the output stage: the table of an activation, or a second operand
(``add``: sums, products, fused or alone); ReLU and Clip are free."""

_FUSED = {
    "silu": "exswish swish silu mish softplus celu selu elu",
    "sigmoid": "hardsigmoid sigmoid tanh",
    "leaky": "leakyrelu prelu",
    "hardswish": "hardswish",
    "gelu": "gelu erf",
    "": "relu6 relu clip",
}
"""Activation -> how it stands in a printed type, in small letters."""
_ORDER = sorted(
    ((text, name) for name, texts in _FUSED.items() for text in texts.split()),
    key=lambda pair: -len(pair[0]),
)

CPU_KINDS = ("softmax", "reduce", "transpose", "reshape", "resize", "other")
"""Types of CPU operators with a cost of their own."""

_ELEMENTWISE = frozenset(
    (
        *("add", "sub", "mul", "div", "max", "min", "pow", "sqrt", "exp", "log", "abs", "neg"),
        *("equal", "greater", "less", "lessorequal", "greaterorequal", "where", "sum", "mean"),
        *("batchnormalization", "floor", "ceil", "round", "reciprocal", "cos", "sin", "sign"),
        *("mod", "and", "or", "not", "xor", "clip", "relu"),
    )
)
_ARRAY = ("conv", "exmatmul", "matmul", "gemm", "exgemm", "deconv", "exconv")
_IMAGE = 4
"""Channels of a graph's input up to which it is an image; each pixel then has so many bytes."""
_WORD = 32
"""Bytes that the array multiplies at once, of each output channel."""
_MIXED = 1024
"""Channels up to which every family puts inputs together by a matrix: 85 are so in the compiler's
tables, 4200 only on RK3588."""
_GAPS = "rk3566"
"""Family whose depthwise convolutions multiply the gaps of a dilated window: DeepLab's rate there
(held out by a reviewer) is two thirds of what its own taps take."""
_STRIDE = 2
"""Largest stride of the windows that the factor for what is left out was fitted on."""
_STAGED = ("batchnormalization", "add", "mul", "sub", "div", "scale")
"""Elementwise operators that may have an activation behind them: ``BatchNormalizationRelu``."""


@dataclass(frozen=True, slots=True)
class LayerWork:
    """What one layer has to do for one inference.

    Attributes:
        part: the unit that works.
        tasks: commands that the NPU is given; 0 of what costs nothing.
        cycles: of the MAC array, as the compiler counts them.
        packed: cycles of the array over the printed ones: below 1 for a convolution of an image,
            of which the pixels of a row of the window share a word of the array; above 1 for a
            depthwise one whose gaps between taps are multiplied as zeros.
        vectors: pixels times groups of output channels: what the accumulator hands on, one by one.
        depthwise: whether it is a convolution with one filter a channel.
        dilated: whether it is a convolution with gaps between the taps of its window.
        strided: whether it is another convolution that leaves out pixels of a window of several.
        half: whether it computes in float16.
        features: bytes of features read and written, channels padded to the layout's group.
        weights: bytes of constants read.
        activation: of :data:`ACTIVATIONS`, or empty.
        lookups: elements that pass it, channels padded to the MAC array's width.
        averaged: elements that an average pool adds up: those of its windows, channels padded.
        heads: of an attention, times batch.
        scores: elements of its score matrices.
        cpu: of :data:`CPU_KINDS`, or empty.
        cpu_amount: what that type's cost counts: elements, bytes read, or bytes moved.
        linear: whether it is a Resize between pixels.
        op: the printed type.
    """

    part: Part
    tasks: int = 1
    cycles: float = 0.0
    packed: float = 1.0
    vectors: float = 0.0
    depthwise: bool = False
    dilated: bool = False
    strided: bool = False
    half: bool = False
    features: float = 0.0
    weights: float = 0.0
    activation: str = ""
    lookups: float = 0.0
    averaged: float = 0.0
    heads: float = 0.0
    scores: float = 0.0
    cpu: str = ""
    cpu_amount: float = 0.0
    linear: bool = False
    op: str = ""


def layer_work(
    lowered: Lowered, npu: NpuProfile, npu_cycles: Sequence[int]
) -> tuple[LayerWork, ...]:
    """The work of each layer, in the order of :attr:`Lowered.layers`.

    Args:
        lowered: the compiler's layers.
        npu: the family that it was lowered for.
        npu_cycles: of each layer, as the compiler prints them (0 where it prints none).

    Raises:
        ValueError: the number of cycles is not that of the layers.
    """
    if len(npu_cycles) != len(lowered.layers):
        raise ValueError("a figure of cycles for each layer")
    reader = _Reader(lowered, npu)
    return tuple(
        reader.work(layer, cycles) for layer, cycles in zip(lowered.layers, npu_cycles, strict=True)
    )


class _Reader:
    """Reads layers of one graph."""

    def __init__(self, lowered: Lowered, npu: NpuProfile) -> None:
        self._tensors, self._shape = lowered.tensors, lowered.shape
        self._npu = npu
        self._float = 1 if lowered.dtype == "int8" else 2

    def work(self, layer: LoweredLayer, cycles: int) -> LayerWork:
        op, half = layer.op.lower(), "float" in layer.dtype.lower()
        if layer.target == "none":
            return LayerWork("nothing", 0, op=layer.op)
        moved = self._bytes(layer.inputs) + self._bytes(layer.outputs)
        copy = LayerWork("copy", features=moved, half=half, op=layer.op)
        if layer.op in ENDS:
            return copy
        if layer.target == "CPU":
            return self._on_cpu(layer, op)
        heavy = replace(copy, weights=float(self._const_bytes(layer)))
        if op.startswith(_ARRAY):
            return self._on_array(layer, op, cycles, heavy)
        if "attention" in op:
            return self._attention(layer, cycles, heavy)
        if "softmax" in op:
            return replace(copy, part="softmax", lookups=self._lookups(layer, half))
        if "pool" in op:
            averaged = self._averaged(layer) if op == "averagepool" else 0.0
            return replace(copy, part="pool", averaged=averaged)
        activation = _activation(op)
        if activation or op in _ELEMENTWISE or op.startswith(_STAGED):
            return replace(
                heavy,
                part="elementwise",
                activation=activation or ("add" if self._operands(layer) > 1 else ""),
                lookups=self._lookups(layer, half),
            )
        if op in ("reshape", "squeeze", "unsqueeze", "flatten", "identity") and self._free(layer):
            return LayerWork("nothing", 0, half=half, op=layer.op)
        if op == "concat" and not layer.consts:
            heavy = replace(heavy, weights=self._mixing(layer))
        return replace(heavy, linear=layer.mode == "linear")

    def _on_array(self, layer: LoweredLayer, op: str, cycles: int, heavy: LayerWork) -> LayerWork:
        activation = _activation(op) or ("add" if "add" in op else "")
        packed = self._gaps(layer) if heavy.half or layer.depthwise else self._packed(layer)
        return replace(
            heavy,
            part="array",
            cycles=float(cycles),
            packed=packed,
            vectors=self._vectors(layer, heavy.half) if cycles else 0.0,
            depthwise=layer.depthwise,
            dilated=layer.window is not None and max(layer.window.dilations) > 1,
            strided=not layer.depthwise and packed == 1.0 and self._strided(layer),
            activation=activation,
            lookups=self._lookups(layer, heavy.half) if activation else 0.0,
        )

    def _attention(self, layer: LoweredLayer, cycles: int, heavy: LayerWork) -> LayerWork:
        query = self._shape(layer.inputs[0])
        heads, depth, columns = _batched(query)
        keys = _batched(self._shape(layer.inputs[1]) if len(layer.inputs) > 1 else query)[2]
        dtype: NpuDtype = "float16" if heavy.half else "int8"
        wide = self._npu.macs_in[dtype] or self._npu.macs_in["int8"]
        tall = self._npu.macs_out[dtype] or self._npu.macs_out["int8"]
        first = -(-depth // wide) * -(-keys // tall)
        second = -(-keys // wide) * -(-depth // tall)
        return replace(
            heavy,
            part="attention",
            cycles=float(cycles or heads * aligned(columns, 16) * (first + second)),
            heads=float(heads),
            scores=float(heads * columns * aligned(keys, tall)),
        )

    def _on_cpu(self, layer: LoweredLayer, op: str) -> LayerWork:
        read, written = (
            sum(prod(self._shape(tensor)) * self._size(tensor) for tensor in names)
            for names in (layer.inputs, layer.outputs)
        )
        kind, amount = "other", read + written
        if "softmax" in op:
            kind, amount = "softmax", sum(prod(self._shape(tensor)) for tensor in layer.outputs)
        elif op.startswith(("reduce", "argm")):
            kind, amount = "reduce", read
        elif op == "gather":
            amount = 2 * written
        elif op in ("transpose", "reshape", "resize"):
            kind = op
        return LayerWork("cpu", cpu=kind, cpu_amount=float(amount), op=layer.op)

    # ---------------------------------------------------------------------------------- quantities
    def _bytes(self, names: Sequence[str]) -> float:
        """Of features in the native layout, channels padded; an image has its own channels."""
        return float(sum(self._padded(name) * self._size(name) for name in names))

    def _padded(self, name: str) -> int:
        """Elements of a feature whose channels fill groups, those of an image do not."""
        shape = self._shape(name)
        if len(shape) < 2 or shape[1] <= _IMAGE:
            return prod(shape)
        channels = aligned(shape[1], max(1, self._npu.atom_bytes // self._size(name)))
        return shape[0] * channels * prod(shape[2:])

    def _size(self, name: str) -> int:
        entry = self._tensors.get(name)
        if entry is None or entry.dtype.lower() in ("float32", "float"):
            return self._float  # the NPU has no such type: it holds the model's own
        return _element(entry.dtype)

    def _const_bytes(self, layer: LoweredLayer) -> int:
        """Weights have the layer's dtype; vectors (bias) four bytes."""
        shapes = [self._shape(tensor) for tensor in layer.consts]
        return sum(
            prod(shape) * (_element(layer.dtype) if len(shape) > 1 else 4) for shape in shapes
        )

    def _tall(self, half: bool) -> int:
        return self._npu.macs_out["float16" if half else "int8"] or 8

    def _lookups(self, layer: LoweredLayer, half: bool) -> float:
        """Elements of the outputs, channels padded to the width of the MAC array."""
        total = 0
        for shape in map(self._shape, layer.outputs):
            channels = [aligned(size, self._tall(half)) for size in shape[1:2]]
            total += prod((*shape[:1], *channels, *shape[2:]))
        return float(total)

    def _averaged(self, layer: LoweredLayer) -> float:
        """Elements in the windows of an average pool."""
        taps = prod(layer.window.kernel) if layer.window is not None else 1
        return taps * self._bytes(layer.outputs) / max(self._size(layer.outputs[0]), 1)

    def _packed(self, layer: LoweredLayer) -> float:
        """Of a convolution of an image: its pixels have 4 bytes, a word of the array has 32."""
        if layer.kind != "Conv" or layer.depthwise or not layer.inputs or not layer.consts:
            return 1.0
        image, weight = self._shape(layer.inputs[0]), self._shape(layer.consts[0])
        if len(image) != 4 or len(weight) != 4 or image[1] > _IMAGE or prod(image[2:]) <= 1024:
            return 1.0
        return -(-weight[3] * _IMAGE // _WORD) / max(1, weight[3])

    def _gaps(self, layer: LoweredLayer) -> float:
        """Taps of a dilated depthwise window, its gaps counted, over its own; 1 elsewhere."""
        window = layer.window
        if window is None or not layer.depthwise or self._npu.family != _GAPS:
            return 1.0
        sides = zip(window.kernel, window.dilations, strict=True)
        return prod(step * (side - 1) + 1 for side, step in sides) / prod(window.kernel)

    def _vectors(self, layer: LoweredLayer, half: bool) -> float:
        shape = self._shape(layer.outputs[0]) if layer.outputs else ()
        if layer.depthwise or len(shape) < 2:
            return 0.0
        return float(shape[0] * aligned(prod(shape[2:]), 16) * -(-shape[1] // self._tall(half)))

    def _strided(self, layer: LoweredLayer) -> bool:
        """Whether pixels are read that a stride of 2 leaves out.

        Larger strides are patches, whose windows the compiler splits: CLIP's published rates fit
        without the factor.
        """
        if layer.window is not None and max(layer.window.strides) > _STRIDE:
            return False
        if layer.kind != "Conv" or not layer.consts or not layer.outputs:
            return False
        before, after = self._shape(layer.inputs[0]), self._shape(layer.outputs[0])
        taps = prod(self._shape(layer.consts[0])[2:])
        return taps > 1 and prod(before[2:]) > 2 * prod(after[2:])

    def _mixing(self, layer: LoweredLayer) -> float:
        """Bytes of the square matrix with which channels are put together where those of an input
        are no whole groups; the other families do not do so with very many channels.
        """
        after = self._shape(layer.outputs[0]) if layer.outputs else ()
        before = [self._shape(tensor) for tensor in layer.inputs]
        if len(after) != 4 or sum(shape[1] for shape in before if len(shape) == 4) != after[1]:
            return 0.0
        size = self._size(layer.outputs[0])
        group = max(1, self._npu.atom_bytes // size)
        many = self._npu.family != "rk3588" and after[1] > _MIXED
        if many or all(shape[1] % group == 0 for shape in before):
            return 0.0
        return float(after[1] ** 2 * size)

    def _operands(self, layer: LoweredLayer) -> int:
        """Features that are as large as the output: what is fetched for each element."""
        large = max((prod(self._shape(tensor)) for tensor in layer.outputs), default=0)
        return sum(prod(self._shape(tensor)) >= large for tensor in layer.inputs)

    def _free(self, layer: LoweredLayer) -> bool:
        """Whether a reshape keeps the order of bytes in the native layout."""
        if not layer.inputs or not layer.outputs:
            return True
        before, after = self._shape(layer.inputs[0]), self._shape(layer.outputs[0])
        if before[:2] == after[:2]:
            return True
        return [d for d in before if d != 1] == [d for d in after if d != 1]


def _activation(op: str) -> str:
    """The activation in a printed type: ``ConvExSwish`` -> ``silu``."""
    return next((name for text, name in _ORDER if text in op), "")


def _batched(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Heads times batch, depth and columns of an attention's operand, printed (B, K, 1, M)."""
    if len(shape) < 3:
        return 1, prod(shape), 1
    return shape[0], shape[1], prod(shape[2:])


def _element(dtype: str) -> int:
    name = dtype.lower()
    if "8" in name or name == "bool":
        return 1
    if "16" in name:
        return 2
    return 8 if "64" in name else 4
