"""Layers with weights or windows: convolutions, inner products and poolings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


# Pooling, with the windows of Caffe.

_METHODS = {0: "MAX", 1: "AVE", 2: "STOCHASTIC"}
_ROUNDING = {0: "CEIL", 1: "FLOOR"}


@dataclass(frozen=True)
class _Windows:
    """The windows along one axis of length ``size``: ``out`` of them, the first at ``-pad``."""

    size: int
    kernel: int
    stride: int
    pad: int
    out: int

    @property
    def beyond(self) -> int:
        """How far the last window reaches beyond the input."""
        return max(0, (self.out - 1) * self.stride - self.pad + self.kernel - self.size)


def _along(at: Layer, sides: Sequence[int], ceil: bool) -> _Windows:
    """pooling_layer.cpp, Reshape: rounded up, but the last window starts before the end padding."""
    size, kernel, stride, pad = sides
    what = f"a window of {kernel}, stride {stride}, padding {pad} on {size}"
    if kernel < 1 or stride < 1 or pad < 0 or pad >= kernel:
        raise at.fault(f"{what} is none")
    span = size + 2 * pad - kernel
    out = (-(-span // stride) if ceil else span // stride) + 1
    if pad and (out - 1) * stride >= size + pad:
        out -= 1
    if out < 1:
        raise at.fault(f"{what} does not fit")
    if (out - 1) * stride - pad >= size:
        raise at.refuse("its last window lies outside of the input, where Caffe gives no number")
    return _Windows(size, kernel, stride, pad, out)


def _pair(at: Layer, param: Fields, name: str, short: str, default: int) -> tuple[int, int]:
    """One number for both axes, or ``_h`` and ``_w``."""
    if f"{short}_h" not in param and f"{short}_w" not in param:
        side = param.integer(name, default)
        return side, side
    if name in param or f"{short}_h" not in param or f"{short}_w" not in param:
        raise at.fault(f"{short}_h and {short}_w go together, without {name}")
    return param.integer(f"{short}_h", default), param.integer(f"{short}_w", default)


def _pooling(at: Layer) -> Sequence[Tensor]:
    """pooling_layer.cpp."""
    param = at.param("pooling_param")
    param.ignore("engine")
    at.expect([1], None)
    if at.x.rank != 4:
        raise at.fault(f"its bottom has {at.x.rank} axes instead of 4")
    method = param.choice("pool", _METHODS, "MAX")
    if method == "STOCHASTIC":
        raise at.refuse("stochastic pooling draws at random")
    if param.flag("global_pooling", False):
        return _global(at, param, method)
    kernels = _pair(at, param, "kernel_size", "kernel", 0)
    strides = _pair(at, param, "stride", "stride", 1)
    pads = _pair(at, param, "pad", "pad", 0)
    # round_mode is BVLC's, ceil_mode that of other forks
    ceil = param.choice("round_mode", _ROUNDING, "CEIL") == "CEIL"
    ceil = param.flag("ceil_mode", ceil)
    windows = [
        _along(at, sides, ceil)
        for sides in zip(at.x.shape[2:], kernels, strides, pads, strict=True)
    ]
    if method == "AVE":
        at.expect([1])
        return [_average(at, windows)]
    return _maximum(at, windows)


def _global(at: Layer, param: Fields, method: str) -> Sequence[Tensor]:
    at.expect([1])
    if "kernel_size" in param or "kernel_h" in param or "kernel_w" in param:
        raise at.fault("global pooling has no kernel")
    if param.integer("pad", 0) or param.integer("stride", 1) != 1:
        raise at.fault("global pooling has no padding and no stride")
    op = "GlobalMaxPool" if method == "MAX" else "GlobalAveragePool"
    return [at.top(op, at.x.name)]


def _attributes(windows: Sequence[_Windows]) -> Window:
    return {
        "kernel_shape": [axis.kernel for axis in windows],
        "strides": [axis.stride for axis in windows],
    }


def _maximum(at: Layer, windows: Sequence[_Windows]) -> Sequence[Tensor]:
    """The end padding is written out: ONNX's own ``ceil_mode`` counts windows differently."""
    at.expect([1], len(at.spec.tops))
    pads = [axis.pad for axis in windows] + [axis.beyond for axis in windows]
    attributes: Window = {**_attributes(windows), "pads": pads}
    if len(at.spec.tops) == 1:
        return [at.top("MaxPool", at.x.name, **attributes)]
    if len(at.spec.tops) > 2:
        raise at.fault(f"it has {len(at.spec.tops)} tops instead of 1 or 2")
    raw = at.only_feeds(1, "Upsample")
    # ONNX counts through the whole tensor, Caffe's mask within one channel
    names = [at.spec.makes[0], at.spec.makes[1] if raw else f"{at.spec.makes[1]}:indices"]
    pooled, indices = at.writer.nodes("MaxPool", [at.x.name], names, **attributes)
    plane = at.x.shape[2:]
    if raw:
        return [at.written(pooled), at.written(indices, plane)]
    within = at.node("Mod", indices, at.ints(plane[0] * plane[1]))
    return [at.written(pooled), at.top("Cast", within, index=1, to=1)]


def _average(at: Layer, windows: Sequence[_Windows]) -> Tensor:
    """Divided by the window's area within the padded input; what lies beyond does not count.

    Padding counts, so it becomes zeros of a Pad where a window also reaches beyond it; what lies
    beyond is padding of AveragePool, which does not count.
    """
    name, attributes = at.x.name, _attributes(windows)
    begins, ends = [axis.pad for axis in windows], [axis.beyond for axis in windows]
    counted = not any(axis.beyond > axis.pad for axis in windows)
    if not counted and any(begins):
        inside = [min(axis.pad, axis.beyond) for axis in windows]
        name = at.node("Pad", name, at.ints(0, 0, *begins, 0, 0, *inside))
        begins, ends = [0, 0], [end - pad for end, pad in zip(ends, inside, strict=True)]
    attributes["pads"] = [*begins, *ends]
    return at.top("AveragePool", name, count_include_pad=int(counted), **attributes)


def _roi_pooling(at: Layer, param: Fields) -> Tensor:
    """roi_pooling_layer.cpp of Fast R-CNN, which ONNX's MaxRoiPool was made after."""
    size = [param.integer("pooled_h", 0), param.integer("pooled_w", 0)]
    rois = at.inputs[1]
    if at.x.rank != 4 or rois.shape[1:] not in ((5,), (5, 1, 1)) or min(size) < 1:
        raise at.fault("it pools from 4 axes by regions of 5 numbers")
    regions = rois.name if rois.rank == 2 else at.reshaped(rois.name, (rois.shape[0], 5))
    return at.top(
        "MaxRoiPool",
        at.x.name,
        regions,
        pooled_shape=size,
        spatial_scale=param.number("spatial_scale", 1.0),
    )


LAYERS: Mapping[str, Converter] = {
    "Convolution": _convolve("Conv"),
    "ConvolutionDepthwise": _convolve("Conv", depthwise=True),
    "Deconvolution": _convolve("ConvTranspose"),
    "DepthwiseConvolution": _convolve("Conv", depthwise=True),
    "Im2col": _im2col,
    "InnerProduct": one_top(_inner_product, "inner_product_param"),
    "Pooling": _pooling,
    "ROIPooling": one_top(_roi_pooling, "roi_pooling_param", bottoms=[2]),
}
