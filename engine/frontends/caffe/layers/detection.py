"""Prior boxes of SSD, which depend on sizes alone and so are constants."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.caffe.prototxt import Fields

_MAX_PRIORS = 1 << 22


def _prior_box(at: Layer, param: Fields) -> Tensor:
    """prior_box_layer.cpp of the SSD fork: boxes and, as a second channel, their variances."""
    if any(x.rank != 4 for x in at.inputs):
        raise at.fault("a bottom has not 4 axes")
    height, width = at.x.shape[2:]
    sizes = _box_sizes(at, param)
    if height * width * len(sizes) > _MAX_PRIORS:
        raise at.fault(f"{height}x{width} places of {len(sizes)} boxes are too many")
    image = _picture(at, param)
    steps = _steps(at, param, image)
    offset, clip = param.number("offset", 0.5), param.flag("clip", False)
    # Caffe computes centres in float32, and from there on in double
    rows = (np.arange(height, dtype=np.float32) + np.float32(offset)) * np.float32(steps[0])
    columns = (np.arange(width, dtype=np.float32) + np.float32(offset)) * np.float32(steps[1])
    half = np.array(sizes, np.float32).astype(np.float64) / 2
    boxes = np.empty((height, width, len(sizes), 4))
    across = columns[None, :, None].astype(np.float64)
    down = rows[:, None, None].astype(np.float64)
    boxes[..., 0], boxes[..., 2] = across - half[:, 0], across + half[:, 0]
    boxes[..., 1], boxes[..., 3] = down - half[:, 1], down + half[:, 1]
    boxes /= (image[1], image[0], image[1], image[0])
    if clip:
        boxes = boxes.clip(0, 1)
    priors = boxes.reshape(-1).astype(np.float32)
    variances = _variances(at, param, priors.size)
    return at.fixed_top(np.stack([priors, variances])[None])


def _box_sizes(at: Layer, param: Fields) -> list[tuple[float, float]]:
    """Width and height of the boxes at one place.

    Sizes are cut to whole numbers as Caffe does (``int min_size_``), and an aspect ratio that is
    there already is left out.
    """
    smallest, largest = param.numbers("min_size"), param.numbers("max_size")
    if not smallest or min(smallest) <= 0 or (largest and len(largest) != len(smallest)):
        raise at.fault(f"{len(smallest)} min_size and {len(largest)} max_size")
    ratios = _ratios(at, param)
    sizes = []
    for index, size in enumerate(smallest):
        side = int(size)
        sizes.append((float(side), float(side)))
        if largest:
            if largest[index] <= size:
                raise at.fault("a max_size is not above its min_size")
            middle = math.sqrt(side * int(largest[index]))
            sizes.append((middle, middle))
        sizes += [
            (side * math.sqrt(ratio), side / math.sqrt(ratio))
            for ratio in ratios
            if abs(ratio - 1) >= 1e-6
        ]
    return sizes


def _ratios(at: Layer, param: Fields) -> list[float]:
    flip = param.flag("flip", True)
    ratios = [1.0]
    for ratio in param.numbers("aspect_ratio"):
        if ratio <= 0:
            raise at.fault(f"the aspect ratio {ratio} is not above 0")
        if all(abs(np.float32(ratio) - known) >= 1e-6 for known in ratios):
            ratios.append(float(np.float32(ratio)))
            ratios += [float(np.float32(1 / np.float64(np.float32(ratio))))] if flip else []
        if len(ratios) > 1000:
            raise at.fault("there are more than 1000 aspect ratios")
    return ratios


def _picture(at: Layer, param: Fields) -> tuple[int, int]:
    """Height and width of the picture: as given, else the second bottom's."""
    both = param.integer("img_size", 0)
    height, width = param.integer("img_h", both), param.integer("img_w", both)
    if height > 0 and width > 0:
        return height, width
    if len(at.inputs) != 2:
        raise at.fault("it has no second bottom and no img_size")
    return at.inputs[1].shape[2], at.inputs[1].shape[3]


def _steps(at: Layer, param: Fields, image: tuple[int, int]) -> tuple[float, float]:
    """Distance of two places in rows and columns of the picture."""
    both = param.number("step", 0.0)
    down, across = param.number("step_h", both), param.number("step_w", both)
    if down < 0 or across < 0:
        raise at.fault("a step is below 0")
    if down and across:
        return down, across
    return image[0] / at.x.shape[2], image[1] / at.x.shape[3]


def _variances(at: Layer, param: Fields, size: int) -> np.ndarray:
    variances = param.numbers("variance") or [0.1]
    if len(variances) not in (1, 4) or min(variances) <= 0:
        raise at.fault(f"variance is {variances}: 1 or 4 numbers above 0 belong there")
    return np.resize(np.array(variances, np.float32), size)


LAYERS: Mapping[str, Converter] = {
    "PriorBox": one_top(_prior_box, "prior_box_param", bottoms=[1, 2]),
}
