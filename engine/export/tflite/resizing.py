"""Resizing of pictures, with channels last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.export.tflite.emitter import LAST, Emitter, refused
from engine.export.tflite.layer import Layer
from engine.export.tflite.sliding import (
    as_float,
    text_of,
)

__all__ = ["resize"]


def resize(layer: Layer, emitter: Emitter) -> None:
    """Resize of height and width; nearest of any rule by GATHER where TFLite's own differs."""
    before, after = layer.data.shape, layer.target.shape
    if len(before) != 4 or before[:2] != after[:2]:
        raise refused(layer.node, "TFLite resizes height and width of four dimensions")
    mode = text_of(layer.attribute("mode", "nearest"))
    place = text_of(layer.attribute("coordinate_transformation_mode", "half_pixel"))
    if mode == "linear" and _is_known(place, before, after):
        _linear(layer, emitter, place)
        return
    source = emitter.read(layer.data, LAST) if layer.quantized else as_float(layer, emitter)
    quant = emitter.writer.quant(source)
    if mode == "nearest":
        rule = text_of(layer.attribute("nearest_mode", "round_prefer_floor"))
        scales = _scales(layer)
        rows = [
            _nearest(b, a, s, place, rule)
            for b, a, s in zip(before[2:], after[2:], scales[2:], strict=True)
        ]
        plain = [[min(i * b // a, b - 1) for i in range(a)] for b, a in _pairs(before, after)]
        if rows != plain:
            for axis, index in enumerate(rows, start=1):
                source = _gather(emitter, source, index, axis)
            emitter.settle(layer.target, LAST, source)
            return
        made = emitter.output(layer.target, LAST, quant)
        size = emitter.ints("size", after[2:])
        options = "ResizeNearestNeighborOptions"
        emitter.emit("RESIZE_NEAREST_NEIGHBOR", [source, size], [made], options)
    else:
        raise refused(layer.node, f"TFLite has no resizing {mode} with {place}")
    emitter.settle(layer.target, LAST, made)


def _linear(layer: Layer, emitter: Emitter, place: str) -> None:
    """RESIZE_BILINEAR in float32: on 8 bits its kernels have factors of few bits, 1 value in 5 was
    a step off, and that became 48 steps behind the next layers of a pose net.
    """
    source = as_float(layer, emitter)
    batch, _, _, channels = emitter.writer.shape(source)
    size = layer.target.shape[2:]
    made = emitter.compute(
        "RESIZE_BILINEAR",
        [source, emitter.ints("size", size)],
        (batch, *size, channels),
        f"{layer.target.value.name}/resized",
        options="ResizeBilinearOptions",
        values={
            "AlignCorners": place == "align_corners",
            "HalfPixelCenters": place.endswith("half_pixel"),
        },
    )
    emitter.finish(layer.target, LAST, made)


def _is_known(place: str, before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether TFLite has a rule of places; PyTorch's differs where one element is left."""
    if place == "pytorch_half_pixel":
        return all(a > 1 or b == 1 for b, a in _pairs(before, after))
    return place in ("align_corners", "half_pixel", "asymmetric")


def _pairs(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(before[2:], after[2:], strict=True))


def _scales(layer: Layer) -> list[float]:
    given = layer.constant(2)
    if given is not None and given.array.size == 4:
        return [float(v) for v in given.array]
    return [a / b for a, b in zip(layer.target.shape, layer.data.shape, strict=True)]


def _nearest(before: int, after: int, scale: float, place: str, rule: str) -> list[int]:
    """Which row each row of the output is (ONNX, Resize)."""
    rows = np.arange(after, dtype=np.float64)
    if place == "align_corners":
        at = rows * (before - 1) / max(after - 1, 1)
    elif place == "asymmetric":
        at = rows / scale
    elif place in ("half_pixel", "pytorch_half_pixel"):
        at = (rows + 0.5) / scale - 0.5
        if place == "pytorch_half_pixel" and after == 1:
            at = rows * 0
    else:
        at = (rows + 0.5) * before / after - 0.5
    whole = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_ceil": np.floor(at + 0.5),
    }.get(rule, np.ceil(at - 0.5))
    return [int(v) for v in np.clip(whole, 0, before - 1)]


def _gather(emitter: Emitter, source: int, index: list[int], axis: int) -> int:
    shape = list(emitter.writer.shape(source))
    if index == list(range(shape[axis])):
        return source
    shape[axis] = len(index)
    quant = emitter.writer.quant(source)
    name = f"{emitter.writer.name(source)}/rows"
    made = emitter.writer.tensor(name, shape, "int8" if quant else "float32", quant)
    values = {"Axis": axis}
    emitter.emit("GATHER", [source, emitter.ints("rows", index)], [made], "GatherOptions", values)
    return made
