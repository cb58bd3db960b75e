"""Convolutions and pooling.

Paddings as ``tensorflow/lite/kernels/padding.h`` computes them: SAME gives ``ceil(in / stride)``
windows and puts the odd element of padding at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.frontends.emit import Window
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.ops.weights import bias_of
from engine.frontends.tflite.values import FIRST, LAST, Value

__all__ = ["HANDLERS", "windows"]

_VALID = 1
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
        count = (size - reach) // stride + 1 if padding == _VALID else -(-size // stride)
        if count < 1:
            raise ValueError(f"a window of {reach} elements on {size}")
        total = max((count - 1) * stride + reach - size, 0)
        outputs.append(count)
        begins.append(total // 2)
        ends.append(total - total // 2)
    return outputs, [*begins, *ends]


def _strides(layer: Layer) -> list[int]:
    return [layer.int_option("stride_h"), layer.int_option("stride_w")]


def _dilations(layer: Layer) -> list[int]:
    return [layer.int_option("dilation_h"), layer.int_option("dilation_w")]


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


def _padded(
    layer: Layer,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[list[int], list[int]]:
    """:func:`windows`, with the pads that :func:`join_dilated` found where it did."""
    padding = layer.int_option("padding")
    if "pads" not in layer.operator.options:
        return windows(sizes, kernel, strides, dilations, padding)
    pads = layer.list_option("pads")
    padded = [size + pads[axis] + pads[axis + 2] for axis, size in enumerate(sizes)]
    return windows(padded, kernel, strides, dilations, padding)[0], pads


def _convolution(layer: Layer, weight: str, kernel: Sequence[int], group: int, out: int) -> None:
    x = layer.input(0)
    strides, dilations = _strides(layer), _dilations(layer)
    sizes, pads = _padded(layer, x.shape[1:3], kernel, strides, dilations)
    inputs = [layer.real(0, FIRST), weight, *bias_of(layer, 2, x, layer.input(1))]
    layer.result(
        "Conv",
        inputs,
        [x.shape[0], *sizes, out],
        layout=FIRST,
        activation=layer.int_option("activation"),
        kernel_shape=list(kernel),
        strides=strides,
        dilations=dilations,
        pads=pads,
        group=group,
    )


def conv_2d(layer: Layer) -> None:
    """CONV_2D: weights OHWI; fewer input channels in them than in the input make groups."""
    x, weights = layer.input(0), layer.input(1)
    out, height, width, depth = weights.shape
    if depth < 1 or x.shape[3] % depth or out % (x.shape[3] // depth):
        raise ValueError(f"{x.shape[3]} channels and weights for {depth}")
    weight = moved(layer, weights, (0, 3, 1, 2))
    _convolution(layer, weight, (height, width), x.shape[3] // depth, out)


def depthwise_conv_2d(layer: Layer) -> None:
    """DEPTHWISE_CONV_2D: weights 1HWC, where C is input channels times multiplier."""
    x, weights = layer.input(0), layer.input(1)
    one, height, width, out = weights.shape
    if one != 1 or x.shape[3] < 1 or out % x.shape[3]:
        raise ValueError(f"weights of shape {list(weights.shape)} on {x.shape[3]} channels")
    weight = moved(layer, weights, (3, 0, 1, 2))
    _convolution(layer, weight, (height, width), x.shape[3], out)


def conv_3d(layer: Layer) -> None:
    """CONV_3D: input NDHWC, weights DHWIO."""
    x, weights = layer.input(0), layer.input(1)
    *kernel, depth, out = weights.shape
    if len(kernel) != 3 or x.shape[4] != depth:
        raise ValueError(f"{x.shape[4]} channels and weights {list(weights.shape)}")
    strides = [layer.int_option(f"stride_{axis}") for axis in "dhw"]
    dilations = [layer.int_option(f"dilation_{axis}") for axis in "dhw"]
    sizes, pads = windows(x.shape[1:4], kernel, strides, dilations, layer.int_option("padding"))
    layer.result(
        "Conv",
        [
            layer.real(0, FIRST),
            moved(layer, weights, (4, 3, 0, 1, 2)),
            *bias_of(layer, 2, x, weights),
        ],
        [x.shape[0], *sizes, out],
        layout=FIRST,
        activation=layer.int_option("activation"),
        kernel_shape=list(kernel),
        strides=strides,
        dilations=dilations,
        pads=pads,
    )


def transpose_conv(layer: Layer) -> None:
    """TRANSPOSE_CONV: the shape of its output is its first input; weights OHWI."""
    batch, *sizes, channels = layer.ints(0, "output shape")
    weights, x = layer.input(1), layer.input(2)
    out, *kernel, depth = weights.shape
    strides = _strides(layer)
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
    layer.result(
        "ConvTranspose",
        [
            layer.tensors.real(x, FIRST),
            moved(layer, weights, (3, 0, 1, 2)),
            *bias_of(layer, 3, x, weights),
        ],
        [batch, *sizes, out],
        layout=FIRST,
        activation=layer.int_option("activation"),
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        output_padding=extra if any(extra) else None,
    )


def transpose_conv_bias(layer: Layer) -> None:
    """MediaPipe's Convolution2DTransposeBias: weights OHWI, and a bias.

    Its SAME pads by the last window of the result, not by the convolution back from it: see
    ``mediapipe/util/tflite/operations/transpose_conv_bias.cc``.
    """
    x, weights = layer.input(0), layer.input(1)
    out, *kernel, depth = weights.shape
    strides = _strides(layer)
    if len(kernel) != 2 or depth != x.shape[3] or not 0 < min(strides) <= max(strides) <= 1 << 10:
        raise ValueError(f"weights {list(weights.shape)} and strides {strides}")
    same = layer.int_option("padding") == _C_SAME
    sizes, totals = [], []
    for size, stride, window in zip(x.shape[1:3], strides, kernel, strict=True):
        totals.append(max(0, window - (size - 1) % stride - 1) if same else 0)
        sizes.append(stride * (size - 1) + window - totals[-1])
    if min(sizes) < 1:
        raise ValueError(f"a result of {sizes}")
    layer.result(
        "ConvTranspose",
        [
            layer.tensors.real(x, FIRST),
            moved(layer, weights, (3, 0, 1, 2)),
            *bias_of(layer, 2, x, weights),
        ],
        [x.shape[0], *sizes, out],
        layout=FIRST,
        kernel_shape=kernel,
        strides=strides,
        pads=[total // 2 for total in totals] + [total - total // 2 for total in totals],
    )


def _pool(layer: Layer) -> tuple[list[int], Window]:
    x = layer.input(0)
    kernel = [layer.int_option("filter_h"), layer.int_option("filter_w")]
    strides = _strides(layer)
    sizes, pads = windows(x.shape[1:3], kernel, strides, [1, 1], layer.int_option("padding"))
    shape = [x.shape[0], *sizes, x.shape[3]]
    return shape, {"kernel_shape": kernel, "strides": strides, "pads": pads}


def average_pool_2d(layer: Layer) -> None:
    """AVERAGE_POOL_2D: padding is not counted."""
    shape, window = _pool(layer)
    activation = layer.int_option("activation")
    x = layer.real(0, FIRST)
    whole = list(layer.input(0).shape[1:3]) == window["kernel_shape"] and not any(window["pads"])
    if whole:
        layer.result("GlobalAveragePool", [x], shape, layout=FIRST, activation=activation)
        return
    layer.result("AveragePool", [x], shape, layout=FIRST, activation=activation, **window)


def max_pool_2d(layer: Layer) -> None:
    """MAX_POOL_2D."""
    shape, window = _pool(layer)
    activation = layer.int_option("activation")
    x = layer.real(0, FIRST)
    layer.result("MaxPool", [x], shape, layout=FIRST, activation=activation, **window)


def l2_pool_2d(layer: Layer) -> None:
    """L2_POOL_2D: the root of the mean square."""
    shape, window = _pool(layer)
    x = layer.real(0, FIRST)
    mean = layer.node("AveragePool", [layer.node("Mul", [x, x])], **window)
    layer.result("Sqrt", [mean], shape, layout=FIRST, activation=layer.int_option("activation"))


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


def depth_to_space(layer: Layer) -> None:
    """DEPTH_TO_SPACE: the depth is split as ONNX's DCR mode does."""
    batch, height, width, depth = layer.input(0).shape
    block = layer.int_option("block_size")
    if block < 1 or depth % (block * block):
        raise ValueError(f"blocks of {block} out of {depth} channels")
    shape = [batch, height * block, width * block, depth // (block * block)]
    x = layer.real(0, FIRST)
    layer.result("DepthToSpace", [x], shape, layout=FIRST, blocksize=block, mode="DCR")


def space_to_depth(layer: Layer) -> None:
    """SPACE_TO_DEPTH."""
    batch, height, width, depth = layer.input(0).shape
    block = layer.int_option("block_size")
    if block < 1 or height % block or width % block:
        raise ValueError(f"blocks of {block} out of {height}x{width}")
    shape = [batch, height // block, width // block, depth * block * block]
    layer.result("SpaceToDepth", [layer.real(0, FIRST)], shape, layout=FIRST, blocksize=block)


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
        tensor = layer.node("Pad", [tensor, layer.emit.ints(*begins, *ends)])
    split = [x.shape[0]]
    for size, block in zip(padded, blocks, strict=True):
        split += [size // block, block]
    tensor = layer.node("Reshape", [tensor, layer.emit.ints(*split, *rest)])
    inner = [2 * axis + 2 for axis in range(count)]
    outer = [2 * axis + 1 for axis in range(count)]
    perm = [*inner, 0, *outer, *range(2 * count + 1, 2 * count + 1 + len(rest))]
    tensor = layer.node("Transpose", [tensor], perm=perm)
    shape = [
        x.shape[0] * int(np.prod(blocks)),
        *(size // block for size, block in zip(padded, blocks, strict=True)),
        *rest,
    ]
    layer.result("Reshape", [tensor, layer.emit.ints(*shape)], shape)


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
    tensor = layer.node(
        "Reshape", [layer.real(0, LAST), layer.emit.ints(*blocks, batch, *small, *rest)]
    )
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
        layer.result("Reshape", [tensor, layer.emit.ints(*shape)], shape)
        return
    tensor = layer.node("Reshape", [tensor, layer.emit.ints(*shape)])
    ends = [crop[0] + size for crop, size in zip(crops, sizes, strict=True)]
    layer.result(
        "Slice",
        [
            tensor,
            layer.emit.ints(*(crop[0] for crop in crops)),
            layer.emit.ints(*ends),
            layer.emit.ints(*range(1, count + 1)),
        ],
        [batch, *sizes, *rest],
    )


HANDLERS: dict[str, Handler] = {
    "AVERAGE_POOL_2D": average_pool_2d,
    "BATCH_TO_SPACE_ND": batch_to_space_nd,
    "CONV_2D": conv_2d,
    "CONV_3D": conv_3d,
    "Convolution2DTransposeBias": transpose_conv_bias,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "DEPTH_TO_SPACE": depth_to_space,
    "L2_POOL_2D": l2_pool_2d,
    "LOCAL_RESPONSE_NORMALIZATION": local_response_normalization,
    "MAX_POOL_2D": max_pool_2d,
    "SPACE_TO_BATCH_ND": space_to_batch_nd,
    "SPACE_TO_DEPTH": space_to_depth,
    "TRANSPOSE_CONV": transpose_conv,
}
