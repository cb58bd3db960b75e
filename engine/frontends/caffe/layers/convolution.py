"""Convolutions and inner products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.caffe.prototxt import Fields
from engine.frontends.emit import Window

_MAX_PATCH_WEIGHTS = 1 << 24


def _window(at: Layer, param: Fields) -> Window:
    """base_conv_layer.cpp, LayerSetUp: one number for all axes, one for each, or ``_h`` and ``_w``.

    An axis named twice, or ``_h`` without ``_w``, is refused as Caffe does.
    """
    axes = at.x.rank - 2

    def sides(name: str, short: str, default: int | None, least: int) -> list[int]:
        values = param.integers(name)
        pair = [param.integer(f"{short}_{side}", -1) for side in "hw"]
        if f"{short}_h" in param or f"{short}_w" in param:
            if values or axes != 2 or min(pair) < 0:
                raise at.fault(f"{short}_h and {short}_w go together, without {name}, in two axes")
            values = pair
        if not values and default is None:
            raise at.fault(f"{name} is missing")
        values = values or [default or 0]
        values = values * axes if len(values) == 1 else values
        if len(values) != axes or min(values) < least:
            raise at.fault(f"{name} is {values} for {axes} spatial axes")
        return values

    return {
        "kernel_shape": sides("kernel_size", "kernel", None, 1),
        "strides": sides("stride", "stride", 1, 1),
        "pads": sides("pad", "pad", 0, 0) * 2,
        "dilations": sides("dilation", "dilation", 1, 1),
    }


def _convolution_param(at: Layer) -> Fields:
    param = at.param("convolution_param")
    param.ignore("engine", "force_nd_im2col")
    at.expect(range(1, 1000), None)
    if len(at.inputs) != len(at.spec.tops):
        raise at.fault(f"{len(at.inputs)} bottoms and {len(at.spec.tops)} tops")
    if at.x.rank < 3:
        raise at.fault(f"its bottom has {at.x.rank} axes, none of them spatial")
    if at.axis(param, "axis", 1) != 1:
        raise at.refuse("its channels are not axis 1")
    if any(x.rank != at.x.rank or x.shape[1] != at.x.shape[1] for x in at.inputs):
        raise at.fault("its bottoms have different channels")
    return param


def _convolve(op: str, *, depthwise: bool = False) -> Converter:
    """conv_layer.cpp and deconv_layer.cpp.

    Weights are channels out, channels in of a group, kernel; those of a transposed convolution
    begin with the channels in. Depthwise layers of forks have a group for each channel where the
    file names none.
    """

    def convert(at: Layer) -> Sequence[Tensor]:
        param, channels = _convolution_param(at), at.x.shape[1]
        group = param.integer("group", channels if depthwise else 1)
        window, outputs = _window(at, param), param.integer("num_output", 0)
        if outputs < 1 or group < 1 or outputs % group or channels % group:
            raise at.fault(f"{channels} channels, {outputs} outputs and {group} groups do not fit")
        fillers = param.message("weight_filler"), param.message("bias_filler")
        first, second = (outputs, channels) if op == "Conv" else (channels, outputs)
        sides = [first, second // group, *window["kernel_shape"]]
        operands = [at.constant(at.blob(sides, "weight", fillers[0]), "weight")]
        if param.flag("bias_term", True):
            operands.append(at.constant(at.blob([outputs], "bias", fillers[1]), "bias"))
        return _windows(at, op, window, operands, group)

    return convert


def _windows(
    at: Layer, op: str, window: Window, operands: Sequence[str], group: int
) -> Sequence[Tensor]:
    """The operator, once for each bottom."""
    axes = len(window["kernel_shape"])
    numbers = (window["kernel_shape"], window["dilations"], window["pads"][:axes])
    for x in at.inputs:
        for size, kernel, dilation, pad in zip(x.shape[2:], *numbers, strict=True):
            if op == "Conv" and dilation * (kernel - 1) + 1 > size + 2 * pad:
                raise at.fault(f"a kernel of {kernel} on {size} leaves a tensor that holds nothing")
    return [
        at.top(op, x.name, *operands, index=index, group=group, **window)
        for index, x in enumerate(at.inputs)
    ]


def _im2col(at: Layer) -> Sequence[Tensor]:
    """im2col_layer.cpp: the numbers under the kernel as channels, those of one channel together.

    Written as a convolution of each channel by kernels that pick one place each.
    """
    param = _convolution_param(at)
    window, channels = _window(at, param), at.x.shape[1]
    kernel = window["kernel_shape"]
    places = math.prod(kernel)
    if channels * places * places > _MAX_PATCH_WEIGHTS:
        raise at.refuse(f"its kernel of {places} places is too large for {channels} channels")
    picks = np.eye(places, dtype=np.float32).reshape(places, 1, *kernel)
    weight = at.constant(np.concatenate([picks] * channels), "picks")
    return _windows(at, "Conv", window, [weight], channels)


def _inner_product(at: Layer, param: Fields) -> Tensor:
    """inner_product_layer.cpp: all axes from ``axis`` on are one vector."""
    axis = at.axis(param, "axis", 1)
    outputs, transpose = param.integer("num_output", 0), param.flag("transpose", False)
    if outputs < 1:
        raise at.fault("num_output is missing")
    fillers = param.message("weight_filler"), param.message("bias_filler")
    length = math.prod(at.x.shape[axis:])
    sides = [length, outputs] if transpose else [outputs, length]
    operands = [at.constant(at.blob(sides, "weight", fillers[0]), "weight")]
    if param.flag("bias_term", True):
        operands.append(at.constant(at.blob([outputs], "bias", fillers[1]), "bias"))
    flat = axis == 1 and at.x.rank == 2
    vectors = at.x.name if flat else at.node("Flatten", at.x.name, axis=axis)
    attributes = {"transB": 0 if transpose else 1}
    if axis == 1:
        return at.top("Gemm", vectors, *operands, **attributes)
    product = at.node("Gemm", vectors, *operands, **attributes)
    return at.reshape_top(product, (*at.x.shape[:axis], outputs))


LAYERS: Mapping[str, Converter] = {
    "Convolution": _convolve("Conv"),
    "ConvolutionDepthwise": _convolve("Conv", depthwise=True),
    "Deconvolution": _convolve("ConvTranspose"),
    "DepthwiseConvolution": _convolve("Conv", depthwise=True),
    "Im2col": _im2col,
    "InnerProduct": one_top(_inner_product, "inner_product_param"),
}
