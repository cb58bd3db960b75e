"""Upsampling, adaptive pooling, and the anchors of SSD (src/operator/nn and contrib)."""

from __future__ import annotations

import math

import numpy as np

from engine.frontends.emit import refuse
from engine.frontends.mxnet.call import Call, Result, named
from engine.frontends.mxnet.operators.shaping import image_shape

_MAX_SCALE = 1 << 10


def _upsampling(call: Call) -> Result:
    """Nearest, of several inputs to the size of the first; or bilinear by a transposed convolution.

    nn/upsampling-inl.h: kernel 2 s - s % 2, padding ceil((s - 1) / 2), one group per channel.
    """
    scale = call.whole("scale", 1)
    _, channels, height, width = image_shape(call)
    if not 1 <= scale <= _MAX_SCALE:
        refuse(f"its scale is {scale}")
    kind = call.text("sample_type", "nearest")
    if kind == "bilinear":
        kernel, pad = 2 * scale - scale % 2, math.ceil((scale - 1) / 2)
        return call.op(
            "ConvTranspose",
            [call.x(0), call.x(1)],
            kernel_shape=[kernel, kernel],
            strides=[scale, scale],
            pads=[pad] * 4,
            group=channels,
        )
    if kind != "nearest":
        refuse(f"its sample_type is {kind!r}")
    if len(call.values) == 1:
        return call.w.enlarged(call.x(), scale, call.out())
    parts = []
    for index, x in enumerate(call.xs()):
        _, _, h, w = call.shape(index)
        step = height * scale // h
        if (h * step, w * step) != (height * scale, width * scale):
            refuse(f"it brings {h}x{w} to {height * scale}x{width * scale}")
        parts.append(call.w.enlarged(x, step) if step > 1 else x)
    if call.text("multi_input_mode", "concat") == "sum":
        return call.op("Sum", parts)
    return call.op("Concat", parts, axis=1)


def _bilinear_resize(call: Call) -> Result:
    """contrib/bilinear_resize: corners aligned unless ``align_corners`` says otherwise (1.6)."""
    batch, channels, height, width = image_shape(call)
    mode = call.text("mode", "size")
    if mode == "like":
        height, width = call.shape(1)[2:]
    elif mode != "size":
        refuse(f"its mode is {mode!r}")
    elif call.given("scale_height") or call.given("scale_width"):
        height = int(height * call.real("scale_height", 1.0))
        width = int(width * call.real("scale_width", 1.0))
    else:
        height, width = call.whole("height", 1), call.whole("width", 1)
    if min(height, width) < 1:
        refuse(f"it resizes to {height}x{width}")
    aligned = call.flag("align_corners", True)
    return call.op(
        "Resize",
        [call.x(), "", "", call.w.ints(batch, channels, height, width)],
        mode="linear",
        coordinate_transformation_mode="align_corners" if aligned else "half_pixel",
    )


def _shares(size: int, out: int) -> np.ndarray:
    """The matrix that averages ``size`` places to ``out`` as adaptive pooling divides them.

    contrib/adaptive_avg_pooling.cc: place i takes those from floor(i n / o) to ceil((i+1) n / o).
    """
    shares = np.zeros((size, out), np.float32)
    for place in range(out):
        begin, end = place * size // out, -(-(place + 1) * size // out)
        shares[begin:end, place] = 1 / (end - begin)
    return shares


def _adaptive_average(call: Call) -> Result:
    _, _, height, width = image_shape(call)
    size = call.wholes("output_size", (1,)) or [1]
    size = size * 2 if len(size) == 1 else size
    if len(size) != 2 or not all(1 <= n <= 1 << 12 for n in size):
        refuse(f"its output_size is {tuple(size)}")
    if size == [1, 1]:
        return call.op("GlobalAveragePool", [call.x()])
    if height % size[0] == 0 and width % size[1] == 0:
        kernel = [height // size[0], width // size[1]]
        return call.op("AveragePool", [call.x()], kernel_shape=kernel, strides=kernel)
    if max(height, width) > 1 << 12:
        refuse(f"its input has {height}x{width} places")
    w = call.w
    columns = w.node("MatMul", [call.x(), w.constant(_shares(width, size[1]), "columns")])
    rows = w.constant(np.ascontiguousarray(_shares(height, size[0]).T), "rows")
    return call.op("MatMul", [rows, columns])


def _multi_box_prior(call: Call) -> Result:
    """The anchors of SSD, which depend on the size alone (contrib/multibox_prior.cc of 1.x)."""
    _, _, height, width = image_shape(call)
    sizes, ratios = call.reals("sizes", (1.0,)), call.reals("ratios", (1.0,))
    steps, offsets = call.reals("steps", (-1.0, -1.0)), call.reals("offsets", (0.5, 0.5))
    if len(steps) != 2 or len(offsets) != 2 or not sizes or not ratios or min(ratios) <= 0:
        refuse("its sizes, ratios, steps or offsets are not converted")
    boxes = [(size, ratios[0]) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    if height * width * len(boxes) > 1 << 22:
        refuse(f"it would make {height * width * len(boxes)} anchors")
    step_y, step_x = (
        step if step > 0 else 1 / n for step, n in zip(steps, (height, width), strict=True)
    )
    roots = np.sqrt([ratio for _, ratio in boxes])
    scale = np.array([size for size, _ in boxes])
    half_w, half_h = scale * height / width * roots / 2, scale / roots / 2
    y = ((np.arange(height) + offsets[0]) * step_y)[:, None, None]
    x = ((np.arange(width) + offsets[1]) * step_x)[None, :, None]
    corners = np.broadcast_arrays(x - half_w, y - half_h, x + half_w, y + half_h)
    anchors = np.stack(corners, axis=-1).reshape(1, -1, 4).astype(np.float32)
    return np.clip(anchors, 0, 1) if call.flag("clip") else anchors


RESIZING = named(
    {
        "UpSampling": _upsampling,
        "_contrib_BilinearResize2D": _bilinear_resize,
        "_contrib_AdaptiveAvgPooling2D": _adaptive_average,
        "_contrib_MultiBoxPrior MultiBoxPrior": _multi_box_prior,
    }
)
