"""Layers that move numbers, and those that change height and width."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from engine.base.text import shape_text
from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.caffe.prototxt import Fields
from engine.frontends.emit import Resizing


def _concat(at: Layer, param: Fields) -> Tensor:
    """concat_layer.cpp: along ``axis``, or ``concat_dim`` in old files."""
    axis = at.axis(param, "concat_dim" if "concat_dim" in param else "axis", 1)
    rest = [*at.x.shape[:axis], *at.x.shape[axis + 1 :]]
    for other in at.inputs[1:]:
        if other.rank != at.x.rank or [*other.shape[:axis], *other.shape[axis + 1 :]] != rest:
            shapes = " and ".join(shape_text(x.shape) for x in (at.x, other))
            raise at.fault(f"its bottoms do not fit along axis {axis}: {shapes}")
    if len(at.inputs) == 1:
        return at.x
    return at.top("Concat", *(x.name for x in at.inputs), axis=axis)


def _slice(at: Layer) -> Sequence[Tensor]:
    """slice_layer.cpp: at the points given, else into equal parts."""
    at.expect([1], None)
    param = at.param("slice_param")
    axis = at.axis(param, "slice_dim" if "slice_dim" in param else "axis", 1)
    count, length = len(at.spec.tops), at.x.shape[axis]
    points = param.integers("slice_point")
    if points and len(points) != count - 1:
        raise at.fault(f"{len(points)} slice points for {count} tops")
    if not points:
        points = [length * (i + 1) // count for i in range(count - 1)]
        if length % count:
            raise at.fault(f"{length} cannot be cut into {count} equal parts")
    sizes = [end - begin for begin, end in pairwise([0, *points, length])]
    if min(sizes) < 1:
        raise at.fault(f"slice points {points} do not rise within {length}")
    if count == 1:
        return [at.x]
    names = at.writer.nodes("Split", [at.x.name, at.ints(*sizes)], list(at.spec.makes), axis=axis)
    return [at.written(name) for name in names]


def _split(at: Layer) -> Sequence[Tensor]:
    """split_layer.cpp: the same tensor under several names."""
    at.expect([1], None)
    return [at.x] * len(at.spec.tops)


def _flatten(at: Layer, param: Fields) -> Tensor:
    """flatten_layer.cpp: the axes from ``axis`` to ``end_axis``, both included, become one."""
    begin, end = at.axis(param, "axis", 1), at.axis(param, "end_axis", -1)
    if end < begin:
        raise at.fault(f"end_axis {end} stands before axis {begin}")
    joined = math.prod(at.x.shape[begin : end + 1])
    return at.reshape_top(at.x.name, (*at.x.shape[:begin], joined, *at.x.shape[end + 1 :]))


def _reshape(at: Layer, param: Fields) -> Tensor:
    """reshape_layer.cpp: 0 copies an axis, -1 is what is left; ``num_axes`` axes are replaced."""
    dims = param.message("shape").integers("dim")
    axis, count = param.integer("axis", 0), param.integer("num_axes", -1)
    begin = axis if axis >= 0 else at.x.rank + axis + 1
    end = at.x.rank if count == -1 else begin + count
    if not 0 <= begin <= end <= at.x.rank or count < -1 or min([0, *dims]) < -1:
        raise at.fault(f"axis {axis} and num_axes {count} do not fit {shape_text(at.x.shape)}")
    sides = list(dims)
    for index, side in enumerate(dims):
        if side == 0:
            if begin + index >= at.x.rank:
                raise at.fault(f"dim {index} is 0, and the bottom has no such axis to copy")
            sides[index] = at.x.shape[begin + index]
    shape = [*at.x.shape[:begin], *sides, *at.x.shape[end:]]
    if shape.count(-1) > 1:
        raise at.fault("-1 is given more than once")
    total = math.prod(at.x.shape)
    if -1 in shape:
        known = -math.prod(shape)
        if total % known:
            raise at.fault(f"{total} numbers do not fill {shape_text(shape)}")
        shape[shape.index(-1)] = total // known
    if math.prod(shape) != total:
        raise at.fault(f"{shape_text(at.x.shape)} and {shape_text(shape)} differ in size")
    return at.reshape_top(at.x.name, shape)


def _permute(at: Layer, param: Fields) -> Tensor:
    """permute_layer.cpp of the SSD fork: axes that ``order`` leaves out follow."""
    order = param.integers("order")
    order += [axis for axis in range(at.x.rank) if axis not in order]
    return _transposed(at, order)


def _transpose(at: Layer, param: Fields) -> Tensor:
    """transpose_layer.cpp of the OCR forks: top axis i is bottom axis ``dim`` i."""
    return _transposed(at, param.integers("dim"))


def _transposed(at: Layer, order: list[int]) -> Tensor:
    if sorted(order) != list(range(at.x.rank)):
        raise at.fault(f"the order {order} does not name each of {at.x.rank} axes once")
    return at.top("Transpose", at.x.name, perm=order)


def _crop(at: Layer, param: Fields) -> Tensor:
    """crop_layer.cpp: from ``axis`` on the size of the second bottom, at the offsets given."""
    axis, reference = at.axis(param, "axis", 2), at.inputs[1]
    offsets = param.integers("offset")
    if len(offsets) <= 1:
        offsets = (offsets or [0]) * (at.x.rank - axis)
    if len(offsets) != at.x.rank - axis or reference.rank != at.x.rank:
        raise at.fault(f"{len(offsets)} offsets from axis {axis} of {at.x.rank}")
    shape = [*at.x.shape[:axis], *reference.shape[axis:]]
    ends = [offset + size for offset, size in zip(offsets, shape[axis:], strict=True)]
    if min(offsets) < 0 or any(e > have for e, have in zip(ends, at.x.shape[axis:], strict=True)):
        raise at.fault(f"{shape_text(reference.shape)} at {offsets} lies outside of its bottom")
    if "crop_param" not in at.spec.fields and tuple(shape) != at.x.shape:
        at.note(
            "crop-without-offset",
            "It says nothing of an offset and cuts at the top left, as BVLC's Caffe does.",
            "Forks of FCN and HED compute the offset from the layers before it.",
            "Where the net is of such a fork, write the offset into its crop_param.",
        )
    axes = at.ints(*range(axis, at.x.rank))
    begin, end = at.ints(*offsets), at.ints(*ends)
    return at.top("Slice", at.x.name, begin, end, axes)


def _reverse(at: Layer, param: Fields) -> Tensor:
    """reverse_layer.cpp of the OCR forks: one axis, by default the first, from its end."""
    axis = at.axis(param, "axis", 0)
    return at.top("Slice", at.x.name, *at.backwards(axis))


def _tile(at: Layer, param: Fields) -> Tensor:
    """tile_layer.cpp."""
    axis, tiles = at.axis(param, "axis", 1), param.integer("tiles", 0)
    if tiles < 1:
        raise at.fault(f"tiles is {tiles}")
    repeats = [tiles if i == axis else 1 for i in range(at.x.rank)]
    return at.top("Tile", at.x.name, at.ints(*repeats))


def _shuffle_channel(at: Layer, param: Fields) -> Tensor:
    """shuffle_channel_layer.cpp of the ShuffleNet fork: groups of channels become their columns."""
    group = param.integer("group", 1)
    if at.x.rank < 2 or group < 1 or at.x.shape[1] % group:
        raise at.fault(f"{group} groups do not fit {shape_text(at.x.shape)}")
    batch, channels, rest = at.x.shape[0], at.x.shape[1], math.prod(at.x.shape[2:])
    grouped = at.reshaped(at.x.name, (batch, group, channels // group, rest))
    swapped = at.node("Transpose", grouped, perm=[0, 2, 1, 3])
    return at.reshape_top(swapped, at.x.shape)


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
    linear: Resizing = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return at.top("Resize", name, "", "", at.ints(*at.x.shape[:2], *size), **linear)


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
    return at.written(at.writer.enlarged(at.x.name, scale, at.spec.makes[0], "constant:scales"))


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
    # only a lower bound of the size that is given: the mask alone says where numbers go
    kernel = [max(1, a // b) for a, b in zip(size, at.x.shape[2:], strict=True)]
    shape = at.ints(*at.x.shape[:2], *size)
    return at.top("MaxUnpool", at.x.name, mask.name, shape, kernel_shape=kernel, strides=kernel)


LAYERS: Mapping[str, Converter] = {
    "Concat": one_top(_concat, "concat_param", bottoms=range(1, 1000)),
    "Crop": one_top(_crop, "crop_param", bottoms=[2]),
    "Flatten": one_top(_flatten, "flatten_param"),
    "Permute": one_top(_permute, "permute_param"),
    "Reshape": one_top(_reshape, "reshape_param"),
    "Reverse": one_top(_reverse, "reverse_param"),
    "ShuffleChannel": one_top(_shuffle_channel, "shuffle_channel_param"),
    "Slice": _slice,
    "Split": _split,
    "Tile": one_top(_tile, "tile_param"),
    "Transpose": one_top(_transpose, "transpose_param"),
    "Interp": one_top(_interp, "interp_param"),
    "Upsample": one_top(_upsample, "upsample_param", bottoms=[1, 2], rank=4),
}
