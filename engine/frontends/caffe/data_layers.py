"""The shape of what an Input layer declares, or a layer that reads a dataset would give."""

from __future__ import annotations

from collections.abc import Callable

from engine.frontends.caffe.fields import Fields

__all__ = ["input_shape_of"]

Shape = tuple[int, ...] | None


def input_shape_of(kind: str, fields: Fields, index: int) -> Shape:
    """The shape of one top of a layer of the type ``kind``; None where the file does not tell."""
    return _SHAPES.get(kind, _cropped)(fields, index)


def _listed(fields: Fields, name: str, index: int) -> Shape:
    """One ``shape`` for each top, or one for all."""
    shapes = [tuple(shape.integers("dim")) for shape in fields.message(name).messages("shape")]
    if not shapes:
        return None
    return shapes[index] if index < len(shapes) else shapes[0]


def _input(fields: Fields, index: int) -> Shape:
    return _listed(fields, "input_param", index)


def _dummy(fields: Fields, index: int) -> Shape:
    param = fields.message("dummy_data_param")
    sides = [param.integers(name) for name in ("num", "channels", "height", "width")]
    if not all(sides):
        return _listed(fields, "dummy_data_param", index)
    return tuple(side[index] if index < len(side) else side[0] for side in sides)


def _memory(fields: Fields, index: int) -> Shape:
    param = fields.message("memory_data_param")
    sides = [param.integer(name, 0) for name in ("channels", "height", "width")]
    return (1, *sides) if index == 0 and all(sides) else None


def _cropped(fields: Fields, index: int) -> Shape:
    """Pictures of a dataset: only a crop or a resize tells their size; batches are training's."""
    transform = fields.message("transform_param")
    side = transform.integer("crop_size", 0)
    height = width = side
    if not side and "resize_param" in transform:
        resize = transform.message("resize_param")
        height, width = resize.integer("height", 0), resize.integer("width", 0)
    if index or not height or not width:
        return None
    return (1, 1 if transform.flag("force_gray", False) else 3, height, width)


_SHAPES: dict[str, Callable[[Fields, int], Shape]] = {
    "DummyData": _dummy,
    "Input": _input,
    "MemoryData": _memory,
}
