"""Convolutions, pooling, and fully connected layers.

Paddings as ``tensorflow/lite/kernels/padding.h`` computes them: SAME gives ``ceil(in / stride)``
windows and puts the odd element of padding at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.base.findings import Finding
from engine.frontends.emit import Window
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.schema import VALID, Quantization, same_pads
from engine.frontends.tflite.tensors import FIRST, LAST, Value

_C_SAME = 1  # kTfLitePaddingSame: the options of a custom operator are the runtime's own
_MAX_WINDOW = 1 << 20


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: int,
) -> tuple[list[int], list[int]]:
    """Output sizes, and pads as ONNX lists them: all begins, then all ends.

    Raises:
        ValueError: a window that does not fit, or a stride that is not positive.
    """
    outputs, begins, ends = [], [], []
    for size, window, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        if not 0 < min(size, window, stride, dilation) <= max(window, stride) <= _MAX_WINDOW:
            raise ValueError(f"a window of {window} with stride {stride} on {size} elements")
        reach = (window - 1) * dilation + 1
        count = (size - reach) // stride + 1 if padding == VALID else -(-size // stride)
        if count < 1:
            raise ValueError(f"a window of {reach} elements on {size}")
        begin, end = same_pads(size, count, stride, reach)
        outputs.append(count)
        begins.append(begin)
        ends.append(end)
    return outputs, [*begins, *ends]


def _along(layer: Layer, option: str, axes: str = "hw") -> list[int]:
    """An option of every axis, such as ``stride_h`` and ``stride_w``."""
    return [layer.int_option(f"{option}_{axis}") for axis in axes]


def moved(layer: Layer, weights: Value, perm: Sequence[int]) -> str:
    """Weights in ONNX's order, dequantized; layers that share weights share the result."""
    key = f"weights {perm}"
    if key not in weights.reals:
        weights.reals[key] = _moved(layer, weights, perm)
    return weights.reals[key]


def _moved(layer: Layer, weights: Value, perm: Sequence[int]) -> str:
    tensors = layer.tensors
    axis = weights.quant.axis if weights.quant is not None else -1
    if weights.array is not None:
        where = perm.index(axis) if axis >= 0 else -1
        return tensors.real(weights.rearranged(weights.array.transpose(perm), where))
    if axis >= 0:
        raise layer.refusal("its weights are computed, with a scale per channel")
    return layer.node("Transpose", [tensors.real(weights)], perm=list(perm))


def _convolution(
    layer: Layer, kernel: Sequence[int], perm: Sequence[int], out: int, group: int, axes: str = "hw"
) -> None:
    """A Conv, with the pads that :func:`join_dilated` found where it did.

    Args:
        perm: brings the weights to ONNX's order.
        axes: of the window.
    """
    x, weights = layer.input(0), layer.input(1)
    strides, dilations = _along(layer, "stride", axes), _along(layer, "dilation", axes)
    sizes, padding = list(x.shape[1:-1]), layer.int_option("padding")
    joined = layer.list_option("pads") if "pads" in layer.operator.options else []
    if joined:
        sizes = [size + joined[at] + joined[at + 2] for at, size in enumerate(sizes)]
    sizes, pads = windows(sizes, kernel, strides, dilations, padding)
    layer.result(
        "Conv",
        [layer.real(0, FIRST), moved(layer, weights, perm), *bias_of(layer, 2, x, weights)],
        [x.shape[0], *sizes, out],
        layout=FIRST,
        activation=layer.activation,
        kernel_shape=list(kernel),
        strides=strides,
        dilations=dilations,
        pads=joined or pads,
        group=group,
    )


def conv_2d(layer: Layer) -> None:
    """CONV_2D: weights OHWI; fewer input channels in them than in the input make groups."""
    x, weights = layer.input(0), layer.input(1)
    out, height, width, depth = weights.shape
    if depth < 1 or x.shape[3] % depth or out % (x.shape[3] // depth):
        raise ValueError(f"{x.shape[3]} channels and weights for {depth}")
    _convolution(layer, (height, width), (0, 3, 1, 2), out, x.shape[3] // depth)


def depthwise_conv_2d(layer: Layer) -> None:
    """DEPTHWISE_CONV_2D: weights 1HWC, where C is input channels times multiplier."""
    x, weights = layer.input(0), layer.input(1)
    one, height, width, out = weights.shape
    if one != 1 or x.shape[3] < 1 or out % x.shape[3]:
        raise ValueError(f"weights of shape {list(weights.shape)} on {x.shape[3]} channels")
    _convolution(layer, (height, width), (3, 0, 1, 2), out, x.shape[3])


def conv_3d(layer: Layer) -> None:
    """CONV_3D: input NDHWC, weights DHWIO."""
    x, weights = layer.input(0), layer.input(1)
    *kernel, depth, out = weights.shape
    if len(kernel) != 3 or x.shape[4] != depth:
        raise ValueError(f"{x.shape[4]} channels and weights {list(weights.shape)}")
    _convolution(layer, kernel, (4, 3, 0, 1, 2), out, 1, "dhw")


def transpose_conv(layer: Layer) -> None:
    """TRANSPOSE_CONV: the shape of its output is its first input; weights OHWI."""
    batch, *sizes, channels = layer.ints(0, "output shape")
    weights, x = layer.input(1), layer.input(2)
    out, *kernel, depth = weights.shape
    strides = _along(layer, "stride")
    if channels != out or depth != x.shape[3] or len(sizes) != 2 or batch != x.shape[0]:
        raise ValueError(f"weights {list(weights.shape)} for an output of {channels} channels")
    # the paddings are those of the convolution that would lead from the output to the input
    counts, pads = windows(sizes, kernel, strides, [1, 1], layer.int_option("padding"))
    if counts != list(x.shape[1:3]):
        raise ValueError(f"{sizes} gives {counts} windows, and the input has {x.shape[1:3]}")
    extra = [
        size - ((count - 1) * stride + window - pads[axis] - pads[axis + 2])
        for axis, (size, count, stride, window) in enumerate(
            zip(sizes, counts, strides, kernel, strict=True)
        )
    ]
    _transposed(layer, x, 3, sizes, pads, output_padding=extra if any(extra) else None)


def _transposed(
    layer: Layer, x: Value, bias: int, sizes: list[int], pads: list[int], **more: Any
) -> None:
    """A ConvTranspose; ``bias`` is the input that may be its bias."""
    weights = layer.input(1)
    layer.result(
        "ConvTranspose",
        [
            layer.tensors.real(x, FIRST),
            moved(layer, weights, (3, 0, 1, 2)),
            *bias_of(layer, bias, x, weights),
        ],
        [x.shape[0], *sizes, weights.shape[0]],
        layout=FIRST,
        activation=layer.activation,
        kernel_shape=list(weights.shape[1:3]),
        strides=_along(layer, "stride"),
        pads=pads,
        **more,
    )


def transpose_conv_bias(layer: Layer) -> None:
    """MediaPipe's Convolution2DTransposeBias: weights OHWI, and a bias.

    Its SAME pads by the last window of the result, not by the convolution back from it: see
    ``mediapipe/util/tflite/operations/transpose_conv_bias.cc``.
    """
    x, weights = layer.input(0), layer.input(1)
    _, *kernel, depth = weights.shape
    strides = _along(layer, "stride")
    if len(kernel) != 2 or depth != x.shape[3] or not 0 < min(strides) <= max(strides) <= 1 << 10:
        raise ValueError(f"weights {list(weights.shape)} and strides {strides}")
    same = layer.int_option("padding") == _C_SAME
    sizes, totals = [], []
    for size, stride, window in zip(x.shape[1:3], strides, kernel, strict=True):
        totals.append(max(0, window - (size - 1) % stride - 1) if same else 0)
        sizes.append(stride * (size - 1) + window - totals[-1])
    if min(sizes) < 1:
        raise ValueError(f"a result of {sizes}")
    pads = [total // 2 for total in totals] + [total - total // 2 for total in totals]
    _transposed(layer, x, 2, sizes, pads)


def _pool(op: str) -> Handler:
    """AVERAGE_POOL_2D (padding is not counted), MAX_POOL_2D, L2_POOL_2D (root of mean square)."""

    def handler(layer: Layer) -> None:
        x, kernel = layer.input(0), _along(layer, "filter")
        strides, padding = _along(layer, "stride"), layer.int_option("padding")
        sizes, pads = windows(x.shape[1:3], kernel, strides, [1, 1], padding)
        window: Window = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        kind, real = op, layer.real(0, FIRST)
        if op == "Sqrt":
            real = layer.node("AveragePool", [layer.node("Mul", [real, real])], **window)
        if op == "AveragePool" and list(x.shape[1:3]) == kernel and not any(pads):
            kind = "GlobalAveragePool"
        attributes = window if kind in ("AveragePool", "MaxPool") else {}
        shape = [x.shape[0], *sizes, x.shape[3]]
        activation = layer.activation
        layer.result(kind, [real], shape, layout=FIRST, activation=activation, **attributes)

    return handler


def local_response_normalization(layer: Layer) -> None:
    """LOCAL_RESPONSE_NORMALIZATION: ONNX divides its alpha by the size of the window."""
    size = 2 * layer.int_option("radius") + 1
    layer.result(
        "LRN",
        [layer.real(0, FIRST)],
        layer.input(0).shape,
        layout=FIRST,
        size=size,
        alpha=layer.float_option("alpha") * size,
        beta=layer.float_option("beta"),
        bias=layer.float_option("bias"),
    )


def _depth_and_space(op: str) -> Handler:
    """DEPTH_TO_SPACE, whose depth is split as ONNX's DCR mode does, and SPACE_TO_DEPTH."""

    def handler(layer: Layer) -> None:
        batch, height, width, depth = layer.input(0).shape
        block, opens = layer.int_option("block_size"), op == "DepthToSpace"
        divided, what = [height, width], f"{height}x{width}"
        if opens:
            divided, what = [depth], f"{depth} channels"
        if block < 1 or any(size % (block * block if opens else block) for size in divided):
            raise ValueError(f"blocks of {block} out of {what}")
        if opens:
            shape = [batch, height * block, width * block, depth // (block * block)]
        else:
            shape = [batch, height // block, width // block, depth * block * block]
        mode = "DCR" if opens else None
        x = layer.real(0, FIRST)
        layer.result(op, [x], shape, layout=FIRST, blocksize=block, mode=mode)

    return handler


def _blocks(layer: Layer) -> tuple[list[int], list[tuple[int, int]]]:
    sizes = layer.ints(1, "block shape")
    edges = np.asarray(layer.array(2, "paddings or crops")).reshape(-1, 2).tolist()
    if len(edges) != len(sizes) or any(size < 1 for size in sizes) or min(map(min, edges)) < 0:
        raise ValueError(f"blocks {sizes} with edges {edges}")
    return sizes, [(int(begin), int(end)) for begin, end in edges]


def space_to_batch_nd(layer: Layer) -> None:
    """SPACE_TO_BATCH_ND: pad, split each spatial axis, and move the parts to the batch."""
    x = layer.input(0)
    blocks, edges = _blocks(layer)
    count = len(blocks)
    rest = list(x.shape[1 + count :])
    padded = [size + sum(edge) for size, edge in zip(x.shape[1 : 1 + count], edges, strict=True)]
    if any(size % block for size, block in zip(padded, blocks, strict=True)):
        raise ValueError(f"{padded} elements in blocks of {blocks}")
    tensor = layer.real(0, LAST)
    if any(map(any, edges)):
        begins = [0, *(edge[0] for edge in edges), *(0 for _ in rest)]
        ends = [0, *(edge[1] for edge in edges), *(0 for _ in rest)]
        tensor = layer.node("Pad", [tensor, [*begins, *ends]])
    split = [x.shape[0]]
    for size, block in zip(padded, blocks, strict=True):
        split += [size // block, block]
    tensor = layer.node("Reshape", [tensor, [*split, *rest]])
    inner = [2 * axis + 2 for axis in range(count)]
    outer = [2 * axis + 1 for axis in range(count)]
    perm = [*inner, 0, *outer, *range(2 * count + 1, 2 * count + 1 + len(rest))]
    tensor = layer.node("Transpose", [tensor], perm=perm)
    shape = [
        x.shape[0] * int(np.prod(blocks)),
        *(size // block for size, block in zip(padded, blocks, strict=True)),
        *rest,
    ]
    layer.result("Reshape", [tensor, shape], shape)


def batch_to_space_nd(layer: Layer) -> None:
    """BATCH_TO_SPACE_ND: the way back, then cropped."""
    x = layer.input(0)
    blocks, crops = _blocks(layer)
    count = len(blocks)
    batch, parts = divmod(x.shape[0], int(np.prod(blocks)))
    rest = list(x.shape[1 + count :])
    if parts:
        raise ValueError(f"a batch of {x.shape[0]} in blocks of {blocks}")
    small = list(x.shape[1 : 1 + count])
    tensor = layer.node("Reshape", [layer.real(0, LAST), [*blocks, batch, *small, *rest]])
    perm = [count]
    for axis in range(count):
        perm += [count + 1 + axis, axis]
    perm += list(range(2 * count + 1, 2 * count + 1 + len(rest)))
    tensor = layer.node("Transpose", [tensor], perm=perm)
    full = [size * block for size, block in zip(small, blocks, strict=True)]
    sizes = [size - sum(crop) for size, crop in zip(full, crops, strict=True)]
    if min(sizes, default=1) < 1:
        raise ValueError(f"{full} elements cropped by {crops}")
    shape = [batch, *full, *rest]
    if sizes == full:
        layer.result("Reshape", [tensor, shape], shape)
        return
    tensor = layer.node("Reshape", [tensor, shape])
    ends = [crop[0] + size for crop, size in zip(crops, sizes, strict=True)]
    layer.result(
        "Slice",
        [
            tensor,
            [crop[0] for crop in crops],
            ends,
            list(range(1, count + 1)),
        ],
        [batch, *sizes, *rest],
    )


# ------------------------------------------------------------------------ weights, matrices


def bias_of(layer: Layer, index: int, x: Value, weights: Value) -> list[str]:
    """The bias at ``index`` in real numbers; empty where the layer has none.

    The integers of a quantized bias count in steps of input scale times weight scale, per channel
    where the weights are; TFLite's kernels add them to the sum of products as they are.
    """
    if not layer.has(index):
        return []
    bias = layer.input(index)
    if bias.dtype == "float32" or x.quant is None or weights.quant is None:
        return [layer.tensors.real(bias)]
    if bias.array is None:
        raise layer.refusal("its bias is computed, and quantized")
    scale = x.quant.scale.astype(np.float32) * weights.quant.scale.astype(np.float32)
    if bias.dtype == "int64":
        _note_int16(layer)
        real = (bias.array * scale.astype(np.float64)).astype(np.float32)
        return [layer.emit.constant(real, bias.name or "bias")]
    axis = -1 if len(scale) == 1 else 0
    quant = Quantization(scale, np.zeros(len(scale), np.int64), axis, False)
    return [layer.tensors.real(replace(bias, quant=quant, forms=dict(bias.forms), reals={}))]


def _note_int16(layer: Layer) -> None:
    layer.tensors.note(
        Finding(
            code="int16-in-float",
            severity="info",
            where=layer.tensors.file,
            what="The model has 16-bit activations, which are computed in float32 here.",
            cause="ONNX Runtime has no kernels of 16-bit integers.",
            remedy="Results may differ from TFLite's by the last bits of the 16.",
        )
    )


def fully_connected(layer: Layer) -> None:
    """FULLY_CONNECTED: rows of the last axes, weights (out, in)."""
    x, weights = layer.input(0), layer.input(1)
    if layer.int_option("weights_format"):
        raise layer.refusal("its weights are shuffled for one kernel of TFLite")
    out, depth = weights.shape
    rows, rest = divmod(x.count, depth)
    if rest:
        raise ValueError(f"{x.count} elements in rows of {depth}")
    keep = layer.int_option("keep_num_dims")
    shape = [*x.shape[:-1], out] if keep else [rows, out]
    if keep and x.shape[-1] != depth:
        raise ValueError(f"rows of {x.shape[-1]} elements and weights for {depth}")
    flat = layer.part(x, [rows, depth])
    output = layer.output(0, shape)
    target = output if len(shape) == 2 else replace(output, shape=(rows, out), forms={}, reals={})
    inputs = [layer.tensors.real(flat), layer.tensors.real(weights)]
    layer.write(
        target,
        "Gemm",
        [*inputs, *bias_of(layer, 2, x, weights)],
        LAST,
        layer.activation,
        transB=1,
    )
    if target is not output:
        stored = layer.tensors.stored(target)
        output.forms[LAST] = layer.node("Reshape", [stored, shape])


def batch_matmul(layer: Layer) -> None:
    """BATCH_MATMUL: either side transposed by an option."""
    shapes, tensors = [], []
    for index, option in ((0, "adj_x"), (1, "adj_y")):
        value = layer.input(index)
        shape, tensor = list(value.shape), layer.real(index)
        if layer.int_option(option):
            perm = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
            tensor = layer.node("Transpose", [tensor], perm=perm)
            shape = [shape[axis] for axis in perm]
        shapes.append(shape)
        tensors.append(tensor)
    if shapes[0][-1] != shapes[1][-2]:
        raise ValueError(f"matrices of {shapes[0]} and {shapes[1]}")
    batch = np.broadcast_shapes(tuple(shapes[0][:-2]), tuple(shapes[1][:-2]))
    layer.result("MatMul", tensors, [*batch, shapes[0][-2], shapes[1][-1]])


def embedding_lookup(layer: Layer) -> None:
    """EMBEDDING_LOOKUP: rows of a table."""
    ids, table = layer.input(0), layer.input(1)
    layer.result("Gather", [layer.real(1), layer.stored(0)], [*ids.shape, *table.shape[1:]], axis=0)


HANDLERS: dict[str, Handler] = {
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "BATCH_TO_SPACE_ND": batch_to_space_nd,
    "BATCH_MATMUL": batch_matmul,
    "CONV_2D": conv_2d,
    "CONV_3D": conv_3d,
    "Convolution2DTransposeBias": transpose_conv_bias,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "DEPTH_TO_SPACE": _depth_and_space("DepthToSpace"),
    "EMBEDDING_LOOKUP": embedding_lookup,
    "FULLY_CONNECTED": fully_connected,
    "L2_POOL_2D": _pool("Sqrt"),
    "LOCAL_RESPONSE_NORMALIZATION": local_response_normalization,
    "MAX_POOL_2D": _pool("MaxPool"),
    "SPACE_TO_BATCH_ND": space_to_batch_nd,
    "SPACE_TO_DEPTH": _depth_and_space("SpaceToDepth"),
    "TRANSPOSE_CONV": transpose_conv,
}
