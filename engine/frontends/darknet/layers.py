"""Darknet's layers that compute: one function each.

The semantics are those of AlexeyAB's darknet; the file of its ``src`` stands above each function.
Layers that move data or combine branches are in ``routes.py``, heads in
``detection_layers.py``.
"""

from __future__ import annotations

from math import prod
from typing import Any

from engine.frontends.darknet.files import Blob
from engine.frontends.darknet.layer import Converter, Layer, activate, activation_of, check_shape
from engine.frontends.emit import refuse

_MAX_KERNEL = 1024
_ROLES = ("biases", "scales", "means", "variances")
"""Vectors of a layer that normalises, in the order of the file; others have the first one."""


# ------------------------------------------------------------------- convolutional_layer.c
def _convolutional(at: Layer) -> str:
    c, h, w = at.shape()
    filters, size = at.integer("filters", 1), at.integer("size", 1)
    groups = max(1, at.integer("groups", 1))
    strides = _strides(at)
    dilation = 1 if size == 1 else at.integer("dilation", 1)
    padding = size // 2 if at.integer("pad", 0) else at.integer("padding", 0)
    if min(filters, size, dilation, *strides) < 1 or padding < 0:
        refuse("its filters, size, stride, dilation or padding is below what makes sense")
    if max(size, padding, dilation) > _MAX_KERNEL:
        refuse(f"its size, padding or dilation is above {_MAX_KERNEL}")
    if c % groups or filters % groups:
        refuse(f"{c} channels and {filters} filters cannot be split into {groups} groups")
    if size == 1 and strides[1] == 1 and padding:
        refuse("darknet reads past its input for a 1x1 kernel of stride 1 with padding")
    _check_convolved((h, w), size, strides, padding, dilation)
    activation = activation_of(at, "logistic")
    normalise = at.flag("batch_normalize") or at.flag("cbn")
    names = _constants(at, filters, normalise, (filters, c // groups, size, size))
    window: dict[str, Any] = {
        "kernel_shape": [size, size],
        "strides": strides,
        "pads": [padding * dilation] * 4,
        "dilations": [dilation, dilation],
        "group": groups,
    }
    inputs = [at.image(), names["weights"]]
    if not normalise:
        return at.activated(activation, "Conv", [*inputs, names["biases"]], **window)
    x = at.e.node("Conv", inputs, f"{at.name}_conv", **window)
    return at.normalised(activation, x, names)


def _strides(at: Layer) -> tuple[int, int]:
    """Strides along height and width: ``stride_y`` and ``stride_x``, else ``stride``."""
    stride = at.integer("stride", 1)
    y, x = at.integer("stride_y", -1), at.integer("stride_x", -1)
    return (y if y >= 1 else stride, x if x >= 1 else stride)


def _check_convolved(
    sizes: tuple[int, int], size: int, strides: tuple[int, int], padding: int, dilation: int
) -> None:
    """Refuse a dilation that darknet does not compute.

    It counts outputs without the dilation (``convolutional_out_height``), but its im2col with
    it, over ``padding * dilation``: where the two differ it reads what was never written.
    """
    reach = dilation * (size - 1) + 1
    counted = [(n + 2 * padding - size) // s + 1 for n, s in zip(sizes, strides, strict=True)]
    real = [
        (n + 2 * padding * dilation - reach) // s + 1 for n, s in zip(sizes, strides, strict=True)
    ]
    if counted != real:
        refuse("its dilation and padding do not fit: darknet leaves part of its output unset")
    check_shape((1, *counted))


def _vectors(length: int, *roles: str) -> list[Blob]:
    """Weights of one number per channel."""
    return [Blob(role, (length,)) for role in roles]


def _constants(at: Layer, filters: int, normalise: bool, kernel: tuple[int, ...]) -> dict[str, str]:
    """The weights of a convolution (``load_convolutional_weights`` of parser.c).

    ``share_index`` names a layer whose weights it uses.
    """
    blobs = _vectors(filters, *(_ROLES if normalise else _ROLES[:1]))
    blobs.append(Blob("weights", kernel, at.flag("flipped")))
    if "share_index" not in at.options:
        at.take(*blobs)
        return at.constants
    index = at.refer(at.integer("share_index", 0), "share_index")
    owner = at.other(index).owner
    at.owner = index if owner is None else owner
    if [blob[:2] for blob in at.other(at.owner).blobs] != [blob[:2] for blob in blobs]:
        refuse(f"it shares the weights of layer {at.owner}, which have another form")
    return at.other(at.owner).constants


# ----------------------------------------------------------------------- connected_layer.c
def _connected(at: Layer) -> str:
    inputs, outputs = prod(at.shape()), at.integer("output", 1)
    if outputs < 1:
        refuse(f"its output is {outputs}")
    activation = activation_of(at, "logistic")
    at.take(*_vectors(outputs, "biases"), Blob("weights", (outputs, inputs)))
    terms = [at.flat(), at.constants["weights"]]
    if not at.flag("batch_normalize"):
        return at.activated(activation, "Gemm", [*terms, at.constants["biases"]], transB=1)
    at.take(*_vectors(outputs, *_ROLES[1:]))
    x = at.e.node("Gemm", terms, f"{at.name}_product", transB=1)
    return at.normalised(activation, x, at.constants)


# ----------------------------------------------------------------------- batchnorm_layer.c
def _batchnorm(at: Layer) -> str:
    at.take(*_vectors(at.shape()[0], *_ROLES))
    return at.normalised("linear", at.raw(), at.constants)


# -------------------------------------------------------------------------- maxpool_layer.c
def _pads(sizes: tuple[int, int], size: int, strides: tuple[int, int], padding: int) -> list[int]:
    """The pads of a pooling: top, left, bottom, right.

    ``padding`` is that of both sides: half of it, rounded down, goes before (``make_maxpool_layer``
    and the offsets of ``forward_maxpool_layer``); after the input as much as the windows need.
    """
    before = padding // 2
    outs = [(n + padding - size) // s + 1 for n, s in zip(sizes, strides, strict=True)]
    after = [
        max(0, (out - 1) * s + size - before - n)
        for out, s, n in zip(outs, strides, sizes, strict=True)
    ]
    if min(outs) < 1 or max(before, *after) >= size:
        refuse("its padding is so large that windows would hold nothing of the input")
    return [before, before, *after]


def _pooling(op: str, **attributes: Any) -> Converter:
    def convert(at: Layer) -> str:
        _, h, w = at.shape()
        if at.flag("maxpool_depth") and op == "MaxPool":
            return _depth_pooling(at)
        stride = at.integer("stride", 1)
        strides = (at.integer("stride_y", stride), at.integer("stride_x", stride))
        size = at.integer("size", stride)
        padding = at.integer("padding", size - 1)
        if min(size, *strides) < 1 or padding < 0 or max(size, padding) > _MAX_KERNEL:
            refuse("its size, stride or padding is out of range")
        pads = _pads((h, w), size, strides, padding)
        window = {"kernel_shape": [size, size], "strides": strides, "pads": pads}
        return at.node(op, [at.image()], **window, **attributes)

    return convert


def _depth_pooling(at: Layer) -> str:
    """``maxpool_depth``: the highest of the channels with equal remainders by ``out_channels``."""
    c, h, w = at.shape()
    channels = at.integer("out_channels", 1)
    if channels < 1 or c % channels:
        refuse(f"{c} channels cannot be pooled to {channels}")
    shape = at.e.ints(0, c // channels, channels, h, w)
    parts = at.e.node("Reshape", [at.image(), shape])
    return at.node("ReduceMax", [parts, at.e.ints(1)], keepdims=0)


# -------------------------------------------------------------------------- softmax_layer.c
def _softmax(at: Layer) -> str:
    shape, flat = at.shape(), at.is_flat()
    groups, temperature = at.integer("groups", 1), at.real("temperature", 1)
    count = prod(shape)
    if "tree" in at.options:
        refuse("its classes are a tree (tree=), which needs a second file")
    if at.flag("spatial") and shape[1] * shape[2] > 1:
        refuse("spatial=1: darknet computes it on a GPU otherwise than on a CPU")
    if groups < 1 or count % groups or temperature == 0:
        refuse(f"{count} values cannot be split into {groups} groups at temperature {temperature}")
    e, x = at.e, at.flat()
    if temperature != 1:
        x = e.node("Div", [x, e.scalar(temperature)])
    if groups == 1 and flat:
        return at.node("Softmax", [x], axis=1)
    if groups > 1:
        x = e.node("Reshape", [x, e.ints(0, groups, count // groups)])
    x = e.node("Softmax", [x], axis=-1)
    return at.node("Reshape", [x, e.ints(0, *((count,) if flat else shape))])


# ------------------------------------- avgpool_layer.c, activation_layer.c, upsample_layer.c
def _avgpool(at: Layer) -> str:
    return at.node("GlobalAveragePool", [at.image()])


def _activation(at: Layer) -> str:
    activation = activation_of(at, "linear")
    if activation == "linear":
        return at.node("Identity", [at.raw()])
    return activate(at.e, activation, at.raw(), at.name)


def _upsample(at: Layer) -> str:
    c, h, w = at.shape()
    stride, scale = at.integer("stride", 2), at.real("scale", 1)
    step = abs(stride)
    if not 1 <= step <= _MAX_KERNEL:
        refuse(f"its stride is {stride}")
    if stride < 0 and (h % step or w % step):
        refuse(f"{h} x {w} cannot be divided by its stride of {step}")
    if stride > 0:
        check_shape((c, h * step, w * step))
    e, x = at.e, at.image()
    # a negative stride sums what a positive one would have copied
    factor = scale if stride > 0 else scale * step * step
    out = at.name if factor == 1 else f"{at.name}_plain"
    if stride > 0:
        x = e.enlarged(x, step, out)
    else:
        x = e.node("AveragePool", [x], out, kernel_shape=[step, step], strides=[step, step])
    return x if factor == 1 else at.node("Mul", [x, e.scalar(factor)])


# ------------------------------------------------------------------------------ crop_layer.c
def _crop(at: Layer) -> str:
    """At inference the middle is cut out; values are stretched from 0..1 to -1..1."""
    _, h, w = at.shape()
    height, width = at.integer("crop_height", 1), at.integer("crop_width", 1)
    if not (1 <= height <= h and 1 <= width <= w):
        refuse(f"its crop of {height} x {width} does not lie in {h} x {w}")
    e, top, left = at.e, (h - height) // 2, (w - width) // 2
    inputs = [at.image(), e.ints(top, left), e.ints(top + height, left + width), e.ints(2, 3)]
    if at.flag("noadjust"):
        return at.node("Slice", inputs)
    return (e.formula(e.node("Slice", inputs, f"{at.name}_cut")) * 2 - 1).written(at.name)


COMPUTING: dict[str, Converter] = {
    "convolutional": _convolutional,
    "connected": _connected,
    "batchnorm": _batchnorm,
    "maxpool": _pooling("MaxPool"),
    "local_avgpool": _pooling("AveragePool", count_include_pad=0),
    "avgpool": _avgpool,
    "softmax": _softmax,
    "activation": _activation,
    "upsample": _upsample,
    "crop": _crop,
}
