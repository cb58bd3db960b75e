"""Detectors of the YOLO family: which output is what.

Sources of the forms: the exporters of YOLOv5, v7, v8, X and of Darknet, and what the vendor's model
zoo makes of them (the last sigmoid within the graph, a box and a class output for each grid).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from engine.base.errors import UsageError
from engine.base.findings import Finding
from engine.export.codegen.project import (
    Array,
    Constant,
    Head,
    Project,
    ProjectInput,
    TaskPlan,
    assumed,
    kept_boxes,
    misfit,
    picture_of,
    value_range,
)
from engine.wire.codegen import TaskDetails

_YOLOV5 = (10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326)
_YOLOV7 = (12, 16, 19, 36, 40, 28, 36, 75, 76, 55, 72, 146, 142, 110, 192, 243, 459, 401)
_ANCHORS: dict[str, tuple[int, ...]] = {
    "yolov5": _YOLOV5,
    "yolov7": _YOLOV7,
    "darknet": _YOLOV5,
    "yolox": (),
}
_BOX = {"yolov5": "yolov5", "yolov7": "yolov5", "darknet": "darknet", "yolox": "yolox"}
_STRIDES = (8, 16, 32)
_SCORE, _OVERLAP = 0.25, 0.45
_WANTED = {
    "yolov5": "for each grid (1, A x (5 + classes), H, W) or (1, A, H, W, 5 + classes) with A "
    "anchors, or one table (1, N, 5 + classes)",
    "yolox": "for each grid (1, 5 + classes, H, W), or one table (1, N, 5 + classes) with N = the "
    "places of the grids of stride 8, 16 and 32",
    "yolov8": "for each grid boxes (1, 4 x bins, H, W) and classes (1, classes, H, W), or both in "
    "one (1, 64 + classes, H, W), or one table (1, 4 + classes, N)",
}
_WANTED |= {"yolov7": _WANTED["yolov5"], "darknet": _WANTED["yolov5"]}
_WANTED |= {"yolov11": _WANTED["yolov8"]}


@dataclass(frozen=True)
class _Asked:
    """A request to plan: everything that the steps below share; ``shapes`` of the outputs."""

    project: Project
    task: str
    details: TaskDetails
    picture: ProjectInput
    classes: int | None
    shapes: Sequence[tuple[int, ...]]

    def refuse(self, remedy: str = "") -> UsageError:
        """The error for outputs that do not fit."""
        return misfit(self.project, self.task, _WANTED[self.task], remedy)

    def strides(self, height: int, width: int) -> tuple[float, float]:
        """Pixels of the input from one place of a grid to the next: across and down."""
        return self.picture.width / width, self.picture.height / height


def plan_yolo(
    project: Project,
    task: str,
    details: TaskDetails,
    classes: int | None,
    anchors: Mapping[str, object],
) -> TaskPlan:
    """The post-processing of a detector with grids.

    Args:
        project: its outputs and golden samples.
        task: yolov5, yolov7, yolov8, yolov11, yolox or darknet.
        details: of the user.
        classes: how many, where the user said it.
        anchors: of a Darknet network, by ``anchors`` (for each output in order) and ``scale``.

    Raises:
        UsageError: the outputs do not look like it.
    """
    shapes = [spec.shape for spec in project.outputs]
    asked = _Asked(project, task, details, picture_of(project, task), classes, shapes)
    if task in ("yolov8", "yolov11"):
        return _with_sides(asked)
    tables = [
        i
        for i, shape in enumerate(shapes)
        if len(shape) in (2, 3) and shape[-1] > 5 and shape[-2] > 1
    ]
    if not any(len(shape) in (4, 5) for shape in shapes) and tables:
        return _of_tables(asked, tables)
    return _with_anchors(asked, anchors)


def _finish(
    asked: _Asked, heads: Sequence[Head], scores: Sequence[Array], **constants: Constant
) -> TaskPlan:
    """The plan; whether the scores lack their sigmoid is seen in those of the golden samples."""
    findings: tuple[Finding, ...] = ()
    logits = asked.details.logits
    if logits is None:
        extent, default = value_range(scores), constants.get("box") == "darknet"
        logits = default if extent is None else extent[0] < -0.01 or extent[1] > 1.01
        if extent is None:
            state = "lack" if default else "have"
            findings = (
                assumed(f"The scores are taken to {state} their sigmoid.", "Set --logits."),
            )
    all_constants: dict[str, Constant] = {
        "box": "placed",
        "form": "planes",
        "channels": 1,
        "classes": 0,
        "bins": 1,
        "multiply": False,
        "unit_x": 1.0,
        "unit_y": 1.0,
        **constants,
        "logits": logits,
        **kept_boxes(asked.details, asked.picture, _SCORE, _OVERLAP),
    }
    return TaskPlan("yolo", all_constants, tuple(heads), findings=findings)


def _places(picture: ProjectInput) -> int:
    """Places of the usual three grids."""
    return sum((picture.height // s) * (picture.width // s) for s in _STRIDES)


def _golden(project: Project, output: int) -> list[Array]:
    return [sample.outputs[output] for sample in project.samples]


# ------------------------------------------------------------------- YOLOv5, v7, X, Darknet


def _with_anchors(asked: _Asked, anchors: Mapping[str, object]) -> TaskPlan:
    shapes = asked.shapes
    last = all(len(shape) != 4 for shape in shapes)
    rank = 5 if last else 4
    known = {i: shape for i, shape in enumerate(shapes) if len(shape) == rank and shape[0] == 1}
    own = anchors.get("anchors") if not asked.details.anchors else None
    per_head = _anchors_per_head(asked, known, own)
    if last:
        channels = {i: s[4] for i, s in known.items() if s[1] == per_head}
    else:
        channels = {i: s[1] // per_head for i, s in known.items() if s[1] % per_head == 0}
    if asked.classes is not None:
        channels = {i: c for i, c in channels.items() if c == 5 + asked.classes}
    channels = {i: c for i, c in channels.items() if c > 5}
    kinds = Counter(channels.values())
    if len(kinds) > 1:
        counts = ", ".join(str(kind - 5) for kind in kinds)
        raise asked.refuse(f"Say how many classes there are (--classes): {counts} would fit.")
    if not kinds:
        raise asked.refuse()
    (size,) = kinds
    numbers = sorted(channels, key=lambda i: -shapes[i][2] * shapes[i][3])
    heads = []
    flat = _anchor_rows(asked, len(numbers), per_head)
    scale = anchors.get("scale")
    for number, known_row in zip(numbers, flat, strict=True):
        height, width = shapes[number][2:4]
        row = tuple(own[number]) if isinstance(own, Mapping) else known_row
        scale_xy = float(scale[number]) if isinstance(scale, Mapping) else 1.0
        strides = asked.strides(height, width)
        heads.append(Head(number, 0, 0, 0, height, width, *strides, row, scale_xy))
    scores = [
        array[..., 4:] if last else array.reshape(per_head, size, -1)[:, 4:]
        for number in numbers
        for array in _golden(asked.project, number)
    ]
    plan = _finish(
        asked,
        heads,
        scores,
        box=_BOX[asked.task],
        form="last" if last else "planes",
        channels=size,
        classes=size - 5,
    )
    if asked.task == "darknet" and not asked.details.anchors and own is None:
        note = assumed("The anchors are taken to be those of YOLOv3.", "Give --anchors.")
        plan = replace(plan, findings=(*plan.findings, replace(note, cause="No cfg was given.")))
    return plan


def _anchors_per_head(asked: _Asked, known: Mapping[int, tuple[int, ...]], own: object) -> int:
    if asked.task == "yolox":
        return 1
    if isinstance(own, Mapping) and own:
        return len(next(iter(own.values()))) // 2
    anchors = asked.details.anchors
    if len(anchors) % 2:
        raise UsageError(
            f"{len(anchors)} numbers were given as anchors.",
            remedy="Give width and height of each, those of the finest grid first.",
        )
    if not anchors:
        return 3
    grids = {shape[2:4] for shape in known.values()}
    heads = max(1, len(grids))
    if len(anchors) // 2 % heads and len(anchors) // 2 % 3 == 0:
        return 3
    return max(1, len(anchors) // 2 // heads)


def _anchor_rows(asked: _Asked, heads: int, per_head: int) -> list[tuple[float, ...]]:
    """Width and height of the anchors of each head, the finest first."""
    if asked.task == "yolox":
        return [()] * heads
    flat = tuple(map(float, asked.details.anchors or _ANCHORS[asked.task]))
    size = 2 * per_head
    if asked.details.anchors and len(flat) != size * heads:
        raise UsageError(
            f"{len(flat) // 2} anchors were given for {heads} grids.",
            cause=f"The outputs have {heads} grids of {per_head} anchors.",
            remedy=f"Give {size * heads} numbers: width and height of each anchor.",
        )
    # a network of two grids has the larger anchors on its coarser one
    rows = [flat[i * size : (i + 1) * size] for i in range(len(flat) // size)]
    if len(rows) < heads:
        raise UsageError(
            f"The model has {heads} grids, and the anchors are not known.",
            remedy="Give them with --anchors, those of the finest grid first.",
        )
    return rows[-heads:] if asked.task == "darknet" else rows[:heads]


def _of_tables(asked: _Asked, tables: Sequence[int]) -> TaskPlan:
    """Tables of boxes: rows of a box, whether something is there, and its classes."""
    shapes = asked.shapes
    size = shapes[tables[0]][-1]
    channels = size if asked.classes is None else 5 + asked.classes
    tables = [i for i in tables if shapes[i][-1] == channels]
    if not tables:
        raise asked.refuse()
    finish = partial(_finish, form="rows", channels=channels, classes=channels - 5)
    scores = [a[..., 4:] for i in tables for a in _golden(asked.project, i)]
    if asked.task == "yolox":
        heads, first = [], 0
        for stride in _STRIDES:
            height, width = asked.picture.height // stride, asked.picture.width // stride
            heads.append(Head(tables[0], 0, 0, first, height, width, float(stride), float(stride)))
            first += height * width
        if shapes[tables[0]][-2] != first:
            raise asked.refuse()
        return finish(asked, heads, scores, box="yolox")
    heads = [Head(i) for i in tables]
    if asked.task == "darknet":  # our own decoded heads: parts of the picture, classes multiplied
        unit_x, unit_y = float(asked.picture.width), float(asked.picture.height)
        return finish(asked, heads, scores, unit_x=unit_x, unit_y=unit_y)
    if any(shapes[i][-2] % _places(asked.picture) for i in tables):
        raise asked.refuse()
    return finish(asked, heads, scores, multiply=True)


# ------------------------------------------------------------------------------ YOLOv8 and later


def _with_sides(asked: _Asked) -> TaskPlan:
    tables = [i for i, shape in enumerate(asked.shapes) if len(shape) == 3 and shape[0] == 1]
    grids: dict[tuple[int, int], list[int]] = {}
    for number, shape in enumerate(asked.shapes):
        if len(shape) == 4 and shape[0] == 1:
            grids.setdefault((shape[2], shape[3]), []).append(number)
    if not grids and tables:
        return _of_columns(asked, tables)
    candidates = []
    for (height, width), numbers in sorted(grids.items(), reverse=True):
        parts = _head_of(asked, numbers)
        if parts is not None:
            boxes, bins, classes, first, count = parts
            strides = asked.strides(height, width)
            candidates.append(
                (Head(boxes, classes, first, 0, height, width, *strides), bins, count)
            )
    kinds = {(bins, count) for _, bins, count in candidates}
    if len(kinds) != 1:
        raise asked.refuse("Say how many classes there are (--classes).")
    ((bins, count),) = kinds
    heads = [head for head, _, _ in candidates]
    scores = [
        array[:, head.class_channel : head.class_channel + count]
        for head in heads
        for array in _golden(asked.project, head.classes)
    ]
    return _finish(asked, heads, scores, box="distances", bins=bins, classes=count)


def _head_of(asked: _Asked, numbers: Sequence[int]) -> tuple[int, int, int, int, int] | None:
    """Boxes, bins, classes, the first class's channel, their count; None where it is no head."""
    sizes = {number: asked.shapes[number][1] for number in numbers}
    if len(numbers) == 1:
        (number,) = numbers
        count = asked.classes or sizes[number] - 64
        bins = (sizes[number] - count) // 4
        fits = count > 0 and bins > 0 and sizes[number] == 4 * bins + count
        return (number, bins, number, 4 * bins, count) if fits else None
    boxes = next((n for size in (64, 68, 4) for n in numbers if sizes[n] == size), None)
    if boxes is None:
        return None
    others = [n for n in numbers if n != boxes]
    if asked.classes is not None:
        others = [n for n in others if sizes[n] == asked.classes]
    elif any(sizes[n] > 1 for n in others):
        others = [n for n in others if sizes[n] > 1]
    if not others or (asked.classes is None and len({sizes[n] for n in others}) > 1):
        return None
    return boxes, sizes[boxes] // 4, others[0], 0, sizes[others[0]]


def _of_columns(asked: _Asked, tables: Sequence[int]) -> TaskPlan:
    """One table of boxes in pixels: (1, 4 + classes, N), or rows."""
    places = _places(asked.picture)
    for number in tables:
        for form, axis in (("columns", 1), ("rows", 2)):
            size, count = asked.shapes[number][axis], asked.shapes[number][3 - axis]
            if count != places or size < 5 or asked.classes not in (None, size - 4):
                continue
            scores = [np.moveaxis(a, axis, 0)[4:] for a in _golden(asked.project, number)]
            return _finish(
                asked, [Head(number)], scores, form=form, channels=size, classes=size - 4
            )
    raise asked.refuse()
