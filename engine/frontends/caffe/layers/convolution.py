"""Convolutions and inner products."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.caffe.prototxt import Fields
from engine.frontends.emit import Window

__all__ = ["LAYERS"]

_MAX_PATCH_WEIGHTS = 1 << 24


@dataclass(frozen=True)
class _Window:
    """Kernel, stride, padding and dilation, a number for each spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def extent(self) -> list[int]:
        """How far the kernel reaches with its dilation."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]

    @property
    def attributes(self) -> Window:
        """As ONNX's Conv has them."""
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.stride),
            "pads": [*self.pad, *self.pad],
            "dilations": list(self.dilation),
        }


@dataclass(frozen=True)
class _Form:
    """A convolution or its transpose: ONNX's operator, and the length of an output axis.

    ``side`` takes the input's length, padding, extent of the kernel and stride.
    """

    op: str
    side: Callable[[int, int, int, int], int]
    transposed: bool


_FORWARD = _Form("Conv", lambda n, pad, extent, step: (n + 2 * pad - extent) // step + 1, False)
_TRANSPOSED = _Form(
    "ConvTranspose", lambda n, pad, extent, step: step * (n - 1) + extent - 2 * pad, True
)


def _window(at: Layer, param: Fields) -> _Window:
    """base_conv_layer.cpp, LayerSetUp: one number for all axes, one for each, or ``_h`` and ``_w``.

    An axis named twice, or ``_h`` without ``_w``, is refused as Caffe does.
    """
    axes = at.x.rank - 2

    def sides(name: str, short: str, default: int | None, least: int) -> tuple[int, ...]:
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
        return tuple(values)

    return _Window(
        sides("kernel_size", "kernel", None, 1),
        sides("stride", "stride", 1, 1),
        sides("pad", "pad", 0, 0),
        sides("dilation", "dilation", 1, 1),
    )


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


def _convolution(at: Layer) -> Sequence[Tensor]:
    """conv_layer.cpp: weights are channels out, channels in of a group, kernel."""
    param = _convolution_param(at)
    return _convolve(at, param, param.integer("group", 1), _FORWARD)


def _depthwise(at: Layer) -> Sequence[Tensor]:
    """Depthwise layers of forks: a group for each channel where the file names none."""
    param = _convolution_param(at)
    return _convolve(at, param, param.integer("group", at.x.shape[1]), _FORWARD)


def _deconvolution(at: Layer) -> Sequence[Tensor]:
    """deconv_layer.cpp: weights are channels in, channels out of a group, kernel."""
    param = _convolution_param(at)
    return _convolve(at, param, param.integer("group", 1), _TRANSPOSED)


def _convolve(at: Layer, param: Fields, group: int, form: _Form) -> Sequence[Tensor]:
    window = _window(at, param)
    outputs, channels = param.integer("num_output", 0), at.x.shape[1]
    _check_group(at, outputs, channels, group)
    fillers = param.message("weight_filler"), param.message("bias_filler")
    first, second = (channels, outputs) if form.transposed else (outputs, channels)
    weight = at.blob([first, second // group, *window.kernel], "weight", fillers[0])
    operands = [at.constant(weight, "weight")]
    if param.flag("bias_term", True):
        operands.append(at.constant(at.blob([outputs], "bias", fillers[1]), "bias"))
    return _windows(at, window, operands, outputs, group, form)


def _windows(
    at: Layer, window: _Window, operands: Sequence[str], outputs: int, group: int, form: _Form
) -> Sequence[Tensor]:
    """The operator, once for each bottom."""
    tops = []
    for index, x in enumerate(at.inputs):
        sides = [
            form.side(*numbers)
            for numbers in zip(x.shape[2:], window.pad, window.extent, window.stride, strict=True)
        ]
        shape, more = (x.shape[0], outputs, *sides), window.attributes
        tops.append(
            at.top(form.op, x.name, *operands, shape=shape, index=index, group=group, **more)
        )
    return tops


def _im2col(at: Layer) -> Sequence[Tensor]:
    """im2col_layer.cpp: the numbers under the kernel as channels, those of one channel together.

    Written as a convolution of each channel by kernels that pick one place each.
    """
    param = _convolution_param(at)
    window, channels = _window(at, param), at.x.shape[1]
    places = math.prod(window.kernel)
    if channels * places * places > _MAX_PATCH_WEIGHTS:
        raise at.refuse(f"its kernel of {places} places is too large for {channels} channels")
    picks = np.eye(places, dtype=np.float32).reshape(places, 1, *window.kernel)
    weight = at.constant(np.concatenate([picks] * channels), "picks")
    operands, outputs = [weight], channels * places
    return _windows(at, window, operands, outputs, channels, _FORWARD)


def _check_group(at: Layer, outputs: int, channels: int, group: int) -> None:
    if outputs < 1 or group < 1 or outputs % group or channels % group:
        raise at.fault(f"{channels} channels, {outputs} outputs and {group} groups do not fit")


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
    shape = (*at.x.shape[:axis], outputs)
    attributes = {"transB": 0 if transpose else 1}
    if axis == 1:
        return at.top("Gemm", vectors, *operands, shape=shape, **attributes)
    product = at.node("Gemm", vectors, *operands, **attributes)
    return at.top("Reshape", product, at.ints(*shape), shape=shape)


LAYERS: Mapping[str, Converter] = {
    "Convolution": _convolution,
    "ConvolutionDepthwise": _depthwise,
    "Deconvolution": _deconvolution,
    "DepthwiseConvolution": _depthwise,
    "Im2col": _im2col,
    "InnerProduct": one_top(_inner_product, "inner_product_param"),
}
