"""Darknet's layers that compute: one function each, from a section to a plan.

The semantics are those of AlexeyAB's darknet; the file of its ``src`` stands above each function.
Layers that move data or combine branches are in ``routes.py``, heads in
``detection_layers.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from engine.frontends.darknet.activations import activate, activation_of
from engine.frontends.darknet.files import Blob, Section
from engine.frontends.darknet.plan import Build, Net, Plan
from engine.frontends.emit import COPIED
from engine.frontends.typed_emitter import refuse

__all__ = ["COMPUTING", "Planner", "Weights", "finished"]

Planner = Callable[[Section, Net], Plan]
Weights = Mapping[str, np.ndarray]

_MAX_KERNEL = 1024
_NORMALISING = ("scales", "biases", "means", "variances")


def finished(build: Build, activation: str, write: Callable[[str], str]) -> str:
    """What ``write`` computes under a wished name, then the activation: the last is the layer's."""
    if activation == "linear":
        return write(build.name)
    x = write(f"{build.name}_linear")
    return activate(build, activation, x, build.name)


def constants(build: Build, blobs: Weights) -> dict[str, str]:
    """The weights of a layer as constants: role -> name."""
    return {role: build.constant(array, f"{build.name}_{role}") for role, array in blobs.items()}


def normalised(build: Build, x: str, names: Mapping[str, str], out: str, epsilon: float) -> str:
    """Batch normalisation by the running mean and variance (``normalize_cpu`` of blas.c)."""
    inputs = [x, *(names[role] for role in _NORMALISING)]
    return build.node("BatchNormalization", inputs, out, epsilon=epsilon)


# ------------------------------------------------------------------- convolutional_layer.c
def _convolutional(layer: Section, net: Net) -> Plan:
    source, (c, h, w) = net.before, net.shape_of(net.before)
    filters, size = layer.integer("filters", 1), layer.integer("size", 1)
    groups = max(1, layer.integer("groups", 1))
    strides = _strides(layer)
    dilation = 1 if size == 1 else layer.integer("dilation", 1)
    padding = size // 2 if layer.integer("pad", 0) else layer.integer("padding", 0)
    if min(filters, size, dilation, *strides) < 1 or padding < 0:
        refuse("its filters, size, stride, dilation or padding is below what makes sense")
    if max(size, padding, dilation) > _MAX_KERNEL:
        refuse(f"its size, padding or dilation is above {_MAX_KERNEL}")
    if c % groups or filters % groups:
        refuse(f"{c} channels and {filters} filters cannot be split into {groups} groups")
    if size == 1 and strides[1] == 1 and padding:
        refuse("darknet reads past its input for a 1x1 kernel of stride 1 with padding")
    height, width = _convolved((h, w), size, strides, padding, dilation)
    activation = activation_of(layer, "logistic")
    normalise = layer.flag("batch_normalize") or layer.flag("cbn")
    blobs = _blobs(filters, normalise, (filters, c // groups, size, size))
    owner = _owner(layer, net, blobs)
    flipped = layer.flag("flipped")

    def emit(build: Build, given: Weights) -> str:
        weights = dict(given)
        if flipped and owner is None:
            weights["weights"] = _unflipped(weights["weights"])
        names = constants(build, weights) if owner is None else build.constants[owner]
        build.constants[build.index] = names

        def convolve(out: str) -> str:
            return build.node(
                "Conv",
                [build.image(source), names["weights"], *([] if normalise else [names["biases"]])],
                out,
                kernel_shape=[size, size],
                strides=strides,
                pads=[padding * dilation] * 4,
                dilations=[dilation, dilation],
                group=groups,
            )

        def write(out: str) -> str:
            if not normalise:
                return convolve(out)
            return normalised(build, convolve(f"{build.name}_conv"), names, out, net.epsilon)

        return finished(build, activation, write)

    shape = (filters, height, width)
    return Plan(shape, emit, (source,), blobs if owner is None else (), owner=owner)


def _strides(layer: Section) -> tuple[int, int]:
    """Strides along height and width: ``stride_y`` and ``stride_x``, else ``stride``."""
    stride = layer.integer("stride", 1)
    y, x = layer.integer("stride_y", -1), layer.integer("stride_x", -1)
    return (y if y >= 1 else stride, x if x >= 1 else stride)


def _convolved(
    sizes: tuple[int, int], size: int, strides: tuple[int, int], padding: int, dilation: int
) -> tuple[int, int]:
    """Height and width behind a convolution.

    Darknet counts outputs without the dilation (``convolutional_out_height``), but its im2col with
    it, over ``padding * dilation``: where the two differ it reads what was never written.
    """
    reach = dilation * (size - 1) + 1
    counted = [(n + 2 * padding - size) // s + 1 for n, s in zip(sizes, strides, strict=True)]
    real = [
        (n + 2 * padding * dilation - reach) // s + 1 for n, s in zip(sizes, strides, strict=True)
    ]
    if counted != real:
        refuse("its dilation and padding do not fit: darknet leaves part of its output unset")
    return counted[0], counted[1]


def _blobs(filters: int, normalise: bool, kernel: tuple[int, ...]) -> tuple[Blob, ...]:
    """What the file holds of a convolution (``load_convolutional_weights`` of parser.c)."""
    vectors = ("biases", "scales", "means", "variances") if normalise else ("biases",)
    return (*(Blob(role, (filters,)) for role in vectors), Blob("weights", kernel))


def _owner(layer: Section, net: Net, blobs: tuple[Blob, ...]) -> int | None:
    """The layer whose weights this one uses (``share_index``); None where it has its own."""
    if "share_index" not in layer.options:
        return None
    index = net.refer(layer.integer("share_index", 0), "share_index")
    net.shape_of(index)
    plan = net.plans[index]
    if plan is not None and plan.owner is not None:
        index = plan.owner
        plan = net.plans[index]
    if plan is None or plan.blobs != blobs:
        refuse(f"it shares the weights of layer {index}, which have another form")
    return index


def _unflipped(weights: np.ndarray) -> np.ndarray:
    """Weights that are stored as (channels x size x size, filters)."""
    return np.ascontiguousarray(weights.reshape(-1, weights.shape[0]).T).reshape(weights.shape)


# ----------------------------------------------------------------------- connected_layer.c
def _connected(layer: Section, net: Net) -> Plan:
    source = net.before
    inputs, outputs = int(np.prod(net.shape_of(source))), layer.integer("output", 1)
    if outputs < 1:
        refuse(f"its output is {outputs}")
    activation = activation_of(layer, "logistic")
    normalise = layer.flag("batch_normalize")
    extra = ("scales", "means", "variances") if normalise else ()
    blobs = (
        Blob("biases", (outputs,)),
        Blob("weights", (outputs, inputs)),
        *(Blob(role, (outputs,)) for role in extra),
    )

    def emit(build: Build, weights: Weights) -> str:
        names = constants(build, weights)
        x = build.flat(source)

        def write(out: str) -> str:
            terms = [x, names["weights"]]
            if not normalise:
                return build.node("Gemm", [*terms, names["biases"]], out, transB=1)
            product = build.node("Gemm", terms, f"{build.name}_product", transB=1)
            return normalised(build, product, names, out, net.epsilon)

        return finished(build, activation, write)

    return Plan((outputs, 1, 1), emit, (source,), blobs, flat=True)


# ----------------------------------------------------------------------- batchnorm_layer.c
def _batchnorm(layer: Section, net: Net) -> Plan:
    source, shape = net.before, net.shape_of(net.before)
    roles = ("biases", "scales", "means", "variances")

    def emit(build: Build, weights: Weights) -> str:
        names = constants(build, weights)
        return normalised(build, build.raw(source), names, build.name, net.epsilon)

    blobs = tuple(Blob(role, (shape[0],)) for role in roles)
    return Plan(shape, emit, (source,), blobs, flat=net.is_flat(source))


# -------------------------------------------------------------------------- maxpool_layer.c
def _pads(
    sizes: tuple[int, int], size: int, strides: tuple[int, int], padding: int
) -> tuple[tuple[int, int], list[int]]:
    """Height and width behind a pooling, and its pads: top, left, bottom, right.

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
    return (outs[0], outs[1]), [before, before, *after]


def _pooling(op: str, **attributes: Any) -> Planner:
    def plan(layer: Section, net: Net) -> Plan:
        source, (c, h, w) = net.before, net.shape_of(net.before)
        if layer.flag("maxpool_depth") and op == "MaxPool":
            return _depth_pooling(layer, net)
        stride = layer.integer("stride", 1)
        strides = (layer.integer("stride_y", stride), layer.integer("stride_x", stride))
        size = layer.integer("size", stride)
        padding = layer.integer("padding", size - 1)
        if min(size, *strides) < 1 or padding < 0 or max(size, padding) > _MAX_KERNEL:
            refuse("its size, stride or padding is out of range")
        (height, width), pads = _pads((h, w), size, strides, padding)

        def emit(build: Build, _: Weights) -> str:
            return build.node(
                op,
                [build.image(source)],
                build.name,
                kernel_shape=[size, size],
                strides=strides,
                pads=pads,
                **attributes,
            )

        return Plan((c, height, width), emit, (source,))

    return plan


def _depth_pooling(layer: Section, net: Net) -> Plan:
    """``maxpool_depth``: the highest of the channels with equal remainders by ``out_channels``."""
    source, (c, h, w) = net.before, net.shape_of(net.before)
    channels = layer.integer("out_channels", 1)
    if channels < 1 or c % channels:
        refuse(f"{c} channels cannot be pooled to {channels}")

    def emit(build: Build, _: Weights) -> str:
        parts = build.node(
            "Reshape", [build.image(source), build.ints(0, c // channels, channels, h, w)]
        )
        return build.node("ReduceMax", [parts, build.ints(1)], build.name, keepdims=0)

    return Plan((channels, h, w), emit, (source,))


# -------------------------------------------------------------------------- avgpool_layer.c
def _avgpool(layer: Section, net: Net) -> Plan:
    source, (c, _h, _w) = net.before, net.shape_of(net.before)

    def emit(build: Build, _: Weights) -> str:
        return build.node("GlobalAveragePool", [build.image(source)], build.name)

    return Plan((c, 1, 1), emit, (source,))


# -------------------------------------------------------------------------- softmax_layer.c
def _softmax(layer: Section, net: Net) -> Plan:
    source, shape = net.before, net.shape_of(net.before)
    groups, temperature = layer.integer("groups", 1), layer.real("temperature", 1)
    count = int(np.prod(shape))
    if "tree" in layer.options:
        refuse("its classes are a tree (tree=), which needs a second file")
    if layer.flag("spatial") and shape[1] * shape[2] > 1:
        refuse("spatial=1: darknet computes it on a GPU otherwise than on a CPU")
    if groups < 1 or count % groups or temperature == 0:
        refuse(f"{count} values cannot be split into {groups} groups at temperature {temperature}")
    flat = net.is_flat(source)

    def emit(build: Build, _: Weights) -> str:
        x = build.flat(source)
        if temperature != 1:
            x = build.node("Div", [x, build.scalar(temperature)])
        if groups == 1 and flat:
            return build.node("Softmax", [x], build.name, axis=1)
        if groups > 1:
            x = build.node("Reshape", [x, build.ints(0, groups, count // groups)])
        x = build.node("Softmax", [x], axis=-1)
        back = (count,) if flat else shape
        return build.node("Reshape", [x, build.ints(0, *back)], build.name)

    return Plan(shape, emit, (source,), flat=flat)


# ------------------------------------------------------- activation_layer.c, upsample_layer.c
def _activation(layer: Section, net: Net) -> Plan:
    source, shape = net.before, net.shape_of(net.before)
    activation = activation_of(layer, "linear")

    def emit(build: Build, _: Weights) -> str:
        x = build.raw(source)
        if activation == "linear":
            return build.node("Identity", [x], build.name)
        return activate(build, activation, x, build.name)

    return Plan(shape, emit, (source,), flat=net.is_flat(source))


def _upsample(layer: Section, net: Net) -> Plan:
    source, (c, h, w) = net.before, net.shape_of(net.before)
    stride, scale = layer.integer("stride", 2), layer.real("scale", 1)
    step = abs(stride)
    if not 1 <= step <= _MAX_KERNEL:
        refuse(f"its stride is {stride}")
    if stride < 0 and (h % step or w % step):
        refuse(f"{h} x {w} cannot be divided by its stride of {step}")

    def emit(build: Build, _: Weights) -> str:
        x = build.image(source)
        # a negative stride sums what a positive one would have copied
        factor = scale if stride > 0 else scale * step * step
        out = build.name if factor == 1 else f"{build.name}_plain"
        if stride > 0:
            scales = build.constant(np.array([1, 1, step, step], np.float32), "scales")
            x = build.node("Resize", [x, "", scales], out, **COPIED)
        else:
            steps = [step, step]
            x = build.node("AveragePool", [x], out, kernel_shape=steps, strides=steps)
        return x if factor == 1 else build.node("Mul", [x, build.scalar(factor)], build.name)

    shape = (c, h * step, w * step) if stride > 0 else (c, h // step, w // step)
    return Plan(shape, emit, (source,))


# ------------------------------------------------------------------------------ crop_layer.c
def _crop(layer: Section, net: Net) -> Plan:
    """At inference the middle is cut out; values are stretched from 0..1 to -1..1."""
    source, (c, h, w) = net.before, net.shape_of(net.before)
    height, width = layer.integer("crop_height", 1), layer.integer("crop_width", 1)
    if not (1 <= height <= h and 1 <= width <= w):
        refuse(f"its crop of {height} x {width} does not lie in {h} x {w}")
    top, left = (h - height) // 2, (w - width) // 2
    plain = layer.flag("noadjust")

    def emit(build: Build, _: Weights) -> str:
        ends = build.ints(top + height, left + width)
        x = build.node(
            "Slice",
            [build.image(source), build.ints(top, left), ends, build.ints(2, 3)],
            build.name if plain else f"{build.name}_cut",
        )
        if plain:
            return x
        return (build.formula(x) * 2 - 1).written(build.name)

    return Plan((c, height, width), emit, (source,))


COMPUTING: dict[str, Planner] = {
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
