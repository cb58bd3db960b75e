"""Layers that change height and width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.base.text import shape_text
from engine.frontends.caffe.fields import Fields
from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.emit import COPIED, Resizing

__all__ = ["LAYERS"]


def _interp(at: Layer, param: Fields) -> Tensor:
    """interp_layer.cpp of DeepLab and PSPNet: bilinear with the corners of both pictures aligned.

    Negative ``pad_beg`` and ``pad_end`` crop first.
    """
    begin, end = param.integer("pad_beg", 0), param.integer("pad_end", 0)
    if at.x.rank != 4 or begin > 0 or end > 0:
        raise at.fault("its bottom has not 4 axes, or a padding is above 0")
    sides = [side + begin + end for side in at.x.shape[2:]]
    if min(sides) < 1:
        raise at.fault(f"{begin} and {end} crop {shape_text(at.x.shape)} to nothing")
    size = _interp_size(at, param, sides)
    name = at.x.name
    if begin or end:
        starts, axes = at.ints(-begin, -begin), at.ints(2, 3)
        stops = at.ints(*(side - begin for side in sides))
        name = at.node("Slice", name, starts, stops, axes)
    shape = (*at.x.shape[:2], *size)
    linear: Resizing = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return at.top("Resize", name, "", "", at.ints(*shape), shape=shape, **linear)


def _interp_size(at: Layer, param: Fields, sides: Sequence[int]) -> list[int]:
    """Which of the parameters decides, in Caffe's order: one factor, height and width, both."""
    shrink, zoom = param.integer("shrink_factor", 1), param.integer("zoom_factor", 1)
    size = [param.integer("height", 0), param.integer("width", 0)]
    if shrink < 1 or zoom < 1:
        raise at.fault("a factor is below 1")
    factors = ("shrink_factor" in param) + ("zoom_factor" in param)
    if factors != 1 and min(size) > 0:
        return size
    if not factors:
        raise at.fault("it gives no factor and no height and width")
    shrunk = [(side - 1) // shrink + 1 for side in sides]
    return [side + (side - 1) * (zoom - 1) for side in shrunk]


def _upsample(at: Layer, param: Fields) -> Tensor:
    """Two forks' layers of one name, told apart by their bottoms.

    One bottom: each number repeated ``scale`` times (SeanQ88/caffe_upsample, YOLOv3 nets). Two:
    each number put where a MAX pooling took it from (TimoSaemann/caffe-segnet-cudnn5).
    """
    if len(at.inputs) == 2:
        return _unpooled(at, param)
    if "scale" not in param:
        raise at.refuse("it has one bottom and no scale")
    scale = param.integer("scale", 1)
    if not 1 <= scale <= 1 << 10:
        raise at.fault(f"scale is {scale}")
    shape = (*at.x.shape[:2], *(side * scale for side in at.x.shape[2:]))
    scales = at.writer.constant(np.array([1, 1, scale, scale], np.float32), "constant:scales")
    return at.top("Resize", at.x.name, "", scales, shape=shape, **COPIED)


def _unpooled(at: Layer, param: Fields) -> Tensor:
    """upsample_layer.cpp of SegNet's fork: size from upsample_h and upsample_w, or from factors."""
    mask = at.inputs[1]
    if mask.plane is None or mask.shape != at.x.shape:
        raise at.refuse("its second bottom is not the mask of a MAX pooling of its size")
    size = [param.integer("upsample_h", 0), param.integer("upsample_w", 0)]
    if min(size) < 1:
        scale = param.integer("scale", 2)
        factors = [param.integer(f"scale_{side}", scale) for side in "hw"]
        less = [param.flag(f"pad_out_{side}", False) for side in "hw"]
        size = [
            side * factor - cut
            for side, factor, cut in zip(at.x.shape[2:], factors, less, strict=True)
        ]
    if tuple(size) != mask.plane:
        raise at.refuse(
            f"it makes {shape_text(size)} of a mask of {shape_text(mask.plane)}, so that numbers "
            "would land elsewhere than where they came from"
        )
    shape = (*at.x.shape[:2], *size)
    # only a lower bound of the size that is given: the mask alone says where numbers go
    kernel = [max(1, a // b) for a, b in zip(size, at.x.shape[2:], strict=True)]
    return at.top(
        "MaxUnpool",
        at.x.name,
        mask.name,
        at.ints(*shape),
        shape=shape,
        kernel_shape=kernel,
        strides=kernel,
    )


LAYERS: Mapping[str, Converter] = {
    "Interp": one_top(_interp, "interp_param"),
    "Upsample": one_top(_upsample, "upsample_param", bottoms=[1, 2], rank=4),
}
