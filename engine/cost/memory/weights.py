"""Bytes of the constants of a model, as they are stored for the NPU.

Weights are stored in groups of input channels, biases with a scale beside each, both padded to
whole tiles. Source: the table of constant tensors that rknn-toolkit2 2.3.2 prints.

On RK3576 and RV1126B the total that it prints has more than the table of constants: one block
for every model with a layer on the NPU, and for each layer what it looks up or rescales by, in
steps of 512 bytes. Source: totals of 130 graphs of few layers in both dtypes (asked, toolkit
2.3.2). Layers that rescale by the same numbers share a table, which depends on the calibration.
"""

from __future__ import annotations

from math import prod

from engine.cost.cycles import aligned
from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.memory.layout import element_bytes, is_image, padded_bytes, spread_columns
from engine.cost.memory.recurrent import RECURRENT, recurrent_constants, table_bytes
from engine.facts.npu import NpuDtype, NpuProfile

_IMAGE_GROUP = {"rk3566": (8, 4), "rk3588": (16, 8), "rv1106b": (8, 4)}
"""Input channels stored of a convolution over an image, int8 and float16; (4, 4) elsewhere."""
_INT4_BLOCK = (64, 32)
"""Outputs and inputs of a block of weights of 4 bits."""
_INT4_BIAS = 16
"""Bytes of a bias with the scale and zero point of such a weight."""
_ELEMENTWISE = ("Add", "Div", "Mul", "Sub")
_EVEN_OUTPUTS = ("rk3562", "rk3588", "rk3576", "rv1126b")
_SINGLE_DEPTHWISE = ("rk3566", "rk3588")
"""Families that store an int8 depthwise weight once; the others do it twice."""


def weight_bytes(lowered: Lowered, npu: NpuProfile) -> int:
    """Of all constants together, each from a multiple of 64 bytes on."""
    stored = sum(aligned(size) for _, size in constant_bytes(lowered, npu))
    tables = _table_bytes(lowered, npu) + kept_tables(lowered, npu)
    return stored + tables + table_bytes(lowered, npu)


def _table_bytes(lowered: Lowered, npu: NpuProfile) -> int:
    """What the total of RK3588 has beyond the constants: the same 2 KB for every model."""
    recurrent = {layer.kind for layer in lowered.layers if layer.target == "NPU"} <= set(RECURRENT)
    return 2048 if npu.family == "rk3588" and not recurrent else 0


def constant_bytes(lowered: Lowered, npu: NpuProfile) -> list[tuple[str, int]]:
    """Name and bytes of each constant; one that several layers read is there once.

    Each convolution has a bias of its own, though several may share it in the graph: its name is
    the weight's with ``_bias_`` and the layer's place. In int8 one is added where there is none.
    """
    images = {tensor for tensor in lowered.inputs if is_image(lowered.tensors[tensor])}
    sizes: dict[str, int] = {}
    for place, layer in enumerate(lowered.layers):
        image = layer.kind == "Conv" and not images.isdisjoint(layer.inputs[:1])
        for name, size in _of_layer(layer, lowered, npu, image=image, place=place):
            sizes.setdefault(name, size)
    return list(sizes.items())


def _of_layer(
    layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, *, image: bool, place: int
) -> list[tuple[str, int]]:
    rows = []
    rest = layer.consts
    if layer.kind in RECURRENT:

        def stored(inputs: int, outputs: int, dtype: NpuDtype) -> tuple[int, int]:
            weight = _plain(inputs, aligned(outputs, max(npu.macs_out[dtype], 1)), npu, dtype)
            return weight, _bias(outputs, npu, dtype, depthwise=False)

        return recurrent_constants(layer, lowered, npu, stored)
    dtype: NpuDtype = "float16" if layer.dtype == "float16" else "int8"
    if layer.kind == "Resize":
        size = 8 * npu.macs_out[dtype]
        # a region that is not given is a constant, too, one for all of them
        names = (*rest, "empty_placeholder_0") if len(rest) == 1 else rest
        return [(name, size) for name in names if lowered.shape(name) != (0,)]
    if layer.kind in ("Conv", "ConvTranspose") and rest and layer.outputs and layer.inputs:
        weight = rest[0]
        channels = _length(lowered.shape(layer.outputs[0]), 1)
        rows.append((weight, _weight(layer, lowered, npu, dtype, image=image)))
        if len(rest) > 1 or dtype == "int8":
            bias = _bias(channels, npu, dtype, depthwise=layer.depthwise)
            bias = _INT4_BIAS * aligned(channels, npu.macs_out[dtype]) if layer.int4 else bias
            rows.append((f"{weight}_bias_{place}", bias))
        rest = rest[2:]
    spread = spread_columns(layer, lowered, npu)
    if spread:
        return [(rest[0], _columns(layer, lowered, npu, spread))]
    if layer.kind == "exSDPAttention":
        return [(name, _mask(name, layer, lowered, npu)) for name in rest]
    for name in rest:
        tensor = lowered.tensors[name]
        shape = tensor.shape or (1, 1, 1, 1)
        if layer.kind in _ELEMENTWISE and layer.target == "NPU" and len(shape) == 4:
            rows.append((name, _operand(shape, layer.kind, npu, dtype)))
            continue
        rows.append((name, prod(tensor.shape) * _stored_bytes(tensor.dtype, layer, npu)))
    return rows


def _operand(shape: tuple[int, ...], kind: str, npu: NpuProfile, dtype: NpuDtype) -> int:
    """What is added or multiplied: maps in groups, one number a channel in whole tiles.

    A factor for each channel has two bytes; a single one and what is added have four. Asked of
    eight constants on RK3566, RK3562 and RK3588 in both dtypes.
    """
    if shape[2] * shape[3] > 1:
        return padded_bytes(shape, 1 if dtype == "int8" else 2, npu)
    item_size = 2 if kind == "Mul" and shape[1] > 1 else 4
    return shape[0] * item_size * aligned(shape[1], max(npu.macs_out[dtype], 1))


def _columns(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, spread: int) -> int:
    """A constant for each column: in one group of channels, of a sum with Relu over all."""
    columns = lowered.shape(layer.consts[0])[3]
    if layer.op == "AddRelu":
        return spread if layer.target == "NPU" else 4 * 8 * columns
    return npu.atom_bytes * columns * (2 if npu.family in ("rk3576", "rv1126b") else 1)


def _mask(name: str, layer: LoweredLayer, lowered: Lowered, npu: NpuProfile) -> int:
    """What an attention adds to its scores, written out for each head, in the native layout."""
    shape = lowered.shape(layer.inputs[0])
    size = 2 if layer.dtype == "float16" else 1
    if len(lowered.shape(name)) < 2 or len(shape) != 4:
        return size
    return padded_bytes((shape[0], shape[3], 1, shape[3]), size, npu)


def _stored_bytes(dtype: str, layer: LoweredLayer, npu: NpuProfile) -> int:
    """Of a constant that is no weight: two bytes of what was float32, on the CPU four.

    The table of a Gather (an embedding) is not among the constants on RK3566 and RK3568.
    """
    if layer.kind == "Gather" and npu.family == "rk3566":
        return 0
    if dtype == "float32":
        return 4 if layer.target == "CPU" else 2
    return element_bytes(dtype)


def _length(shape: tuple[int, ...], axis: int) -> int:
    return shape[axis] if len(shape) > axis else 1


def _weight(
    layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, dtype: NpuDtype, *, image: bool
) -> int:
    size = 1 if dtype == "int8" else 2
    height, width = layer.window.kernel if layer.window else (1, 1)
    inputs = _length(lowered.shape(layer.inputs[0]), 1)
    outputs = _length(lowered.shape(layer.outputs[0]), 1)
    tile = max(npu.macs_in[dtype], 1)
    if layer.int4:
        outputs, inputs = aligned(outputs, _INT4_BLOCK[0]), aligned(inputs, _INT4_BLOCK[1])
        return outputs * inputs * height * width // 2
    if layer.depthwise:
        once = npu.family in _SINGLE_DEPTHWISE or (dtype == "float16" and npu.family != "rk2118")
        copies = 1 if once else 2
        if npu.family == "rk3562":
            return copies * aligned(inputs, 32 // size) * height * width * size
        if npu.family == "rk3588":
            tile = 64 // size
        return copies * _channels(inputs, tile, npu.atom(dtype)) * height * width * size
    if image:
        stored = _IMAGE_GROUP.get(npu.family, (4, 4))[size - 1]
        near = layer.window is None or max(layer.window.strides) < 4
        if npu.family in WIDE and size == 1 and inputs > 1 and near:
            stored = 8
    else:
        return _plain(inputs, outputs, npu, dtype) * height * width
    if dtype == "int8" and npu.family in _EVEN_OUTPUTS:
        outputs = aligned(outputs, 2)
    return outputs * stored * height * width * size


def _plain(inputs: int, outputs: int, npu: NpuProfile, dtype: NpuDtype) -> int:
    """Bytes of one place of the kernel of a convolution over groups of channels."""
    if dtype == "int8" and npu.family in _EVEN_OUTPUTS:
        outputs = aligned(outputs, 2)
    stored = _channels(inputs, max(npu.macs_in[dtype], 1), npu.atom(dtype))
    return outputs * stored * (1 if dtype == "int8" else 2)


def _channels(count: int, tile: int, group: int) -> int:
    """Input channels stored: a last tile that is more than half full is stored whole."""
    return aligned(count, tile if count % tile > tile // 2 else group)


def _bias(channels: int, npu: NpuProfile, dtype: NpuDtype, *, depthwise: bool) -> int:
    tile = max(npu.macs_out[dtype], 1)
    if dtype == "float16":
        wide = depthwise and npu.family in ("rk3588", *WIDE)
        return 4 * aligned(channels, 2 * tile if wide else tile)
    if npu.family == "rv1106b":
        return (6 if depthwise else 7) * aligned(channels, 8)
    if not depthwise:
        return 8 * aligned(channels, tile)
    bytes_each = 8 if npu.family in _SINGLE_DEPTHWISE else 6
    return bytes_each * aligned(channels, 2 * tile)


WIDE = ("rk3576", "rv1126b")
"""Families that have such tables."""

_ONCE = 18_688
_LOOKED_UP = ("Swish", "Sigmoid", "Tanh", "Gelu", "Mish", "Elu", "Softplus")
_LOOK_UP = 2048
_SUMS = ("Add", "Max", "Min", "Sub")
_BY_KIND = {
    "LeakyRelu": (3072, 1024),
    "PRelu": (2560, 0),
    "Clip": (1024, 0),
    "Relu": (1024, 0),
    "Pow": (1024, 0),
    "Pad": (1536, 1536),
    "Sqrt": (1536, 1536),
    "exDataConvert": (1024, 1024),
    "exLSTM": (19_456, 10_240),
    "exMatMul": (1024, 512),
    "exNorm": (9728, 7168),
    "exSDPAttention": (10_240, 2048),
    "exSoftmax13": (4608, 2048),
}
"""Bytes in int8 and float16."""
_FUSED = {"LeakyRelu": (1536, 512), "PRelu": (1024, 0)}
"""Of an activation that a convolution does."""
_EACH_PART = 1024
"""Of what is joined or cut in int8, one part less where all of them fill groups."""


def kept_tables(lowered: Lowered, npu: NpuProfile) -> int:
    """Bytes of all tables of a model; 0 on other families."""
    layers = [
        layer
        for layer in lowered.layers
        if layer.target == "NPU" and layer.kind not in ("InputOperator", "OutputOperator")
    ]
    if npu.family not in WIDE or not layers:
        return 0
    return _ONCE + sum(_table_bytes_of(layer, npu, lowered) for layer in layers)


def _table_bytes_of(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    half = layer.dtype == "float16"
    looked_up = _LOOK_UP if any(word in layer.op for word in _LOOKED_UP) else 0
    if layer.kind in ("Conv", "ConvTranspose"):
        fused = sum(sizes[half] for name, sizes in _FUSED.items() if name in layer.op)
        return looked_up + fused + (0 if half and not layer.depthwise else 512)
    if layer.kind in _BY_KIND:
        return _BY_KIND[layer.kind][half]
    if layer.kind == "Resize":
        return 2304 if layer.mode in ("", "nearest") else 512
    by_channel = any(lowered.shape(name)[2:] in ((), (1, 1)) for name in layer.consts)
    if layer.kind == "Mul":
        return 512 * by_channel if half else 1024
    if layer.kind in _SUMS:
        return 1024 * ((0 if half else 2) + by_channel)
    if layer.kind in ("Concat", "Split"):
        return 0 if half else _EACH_PART * _rescaled(layer, npu, lowered)
    return looked_up


def _rescaled(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Parts of a Concat or a Split that have a table; of a Split in whole groups it is one."""
    parts = layer.inputs if layer.kind == "Concat" else layer.outputs
    shapes = [lowered.shape(name) for name in parts]
    if any(shape[1] % npu.atom_bytes for shape in shapes if len(shape) == 4):
        return len(parts)
    return len(parts) - 1 if layer.kind == "Concat" else 1
