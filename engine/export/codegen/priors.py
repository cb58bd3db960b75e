"""Detectors with priors: SSD, RetinaFace, Ultra-Light.

Sources of the priors: the configurations that these networks are published with (min sizes and
steps of RetinaFace and of Ultra-Light, six layers of the SSD MobileNet of TensorFlow).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.base.errors import UsageError
from engine.base.findings import Finding
from engine.dataset.decode import open_array
from engine.export.codegen.project import (
    Array,
    Constant,
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

_WANTED = {
    "ssd": "boxes (1, N, 4) and scores (1, N, classes) with the background first",
    "retinaface": "boxes (1, N, 4), scores (1, N, 2) and landmarks (1, N, 10)",
    "ultraface": "scores (1, N, 2) and boxes (1, N, 4)",
}
_SIZES: dict[str, tuple[tuple[int, tuple[int, ...]], ...]] = {
    "ultraface": (
        (8, (10, 16, 24)),
        (16, (32, 48)),
        (32, (64, 96)),
        (64, (128, 192, 256)),
    ),
    "retinaface": ((8, (16, 32)), (16, (64, 128)), (32, (256, 512))),
}
_OVERLAP = {"ssd": 0.45, "retinaface": 0.4, "ultraface": 0.3}
_SCORE = {"ssd": 0.5, "retinaface": 0.5, "ultraface": 0.7}
_SSD_GRIDS = (19, 10, 5, 3, 2, 1)


def plan_priors(project: Project, task: str, details: TaskDetails, classes: int | None) -> TaskPlan:
    """The post-processing of a detector with priors.

    Raises:
        UsageError: the outputs do not look like it, or the priors are not known.
        DatasetError: the file of priors cannot be read.
    """
    picture = picture_of(project, task)
    boxes, scores, landmarks, count = _outputs(project, task, classes)
    golden = [sample.outputs for sample in project.samples]
    findings: list[Finding] = []
    placed = _are_placed([outputs[boxes] for outputs in golden])
    if placed is None:
        placed = False
        findings.append(assumed("The boxes are taken as offsets from priors.", "Give --inputs."))
    priors = None
    y_first = False
    if not placed:
        priors, y_first = _priors(project, task, details, picture, count)
    activation = _activation(task, details, [outputs[scores] for outputs in golden])
    constants: dict[str, Constant] = {
        "boxes": boxes,
        "scores": scores,
        "landmarks": landmarks,
        "placed": placed,
        "y_first": y_first,
        "center_variance": 0.1,
        "size_variance": 0.2,
        "activation": activation,
        "background": 1,
        **kept_boxes(details, picture, _SCORE[task], _OVERLAP[task]),
    }
    return TaskPlan("priors", constants, priors=priors, findings=tuple(findings))


def _outputs(project: Project, task: str, classes: int | None) -> tuple[int, int, int, int]:
    """Numbers of boxes, scores and landmarks (-1: none), and how many boxes there are."""
    shapes = [tuple(size for size in spec.shape[1:] if size != 1) for spec in project.outputs]
    rows = {i: shape for i, shape in enumerate(shapes) if len(shape) == 2}
    boxes = next((i for i, shape in rows.items() if shape[1] == 4), None)
    refused = misfit(project, task, _WANTED[task])
    if boxes is None:
        raise refused
    count = rows.pop(boxes)[0]
    rows = {i: shape for i, shape in rows.items() if shape[0] == count}
    landmarks = -1
    if task == "retinaface":
        landmarks = next((i for i, shape in rows.items() if shape[1] == 10), -1)
    width = 2 if task != "ssd" else None if classes is None else classes + 1
    scores = next(
        (
            i
            for i, shape in rows.items()
            if i != landmarks and shape[1] > 1 and width in (None, shape[1])
        ),
        None,
    )
    if scores is None:
        raise refused
    return boxes, scores, landmarks, count


def _are_placed(boxes: Sequence[Array]) -> bool | None:
    """Whether boxes are corners already: then none ends before it begins. None: not known."""
    if not boxes:
        return None
    rows = np.concatenate([array.reshape(-1, 4) for array in boxes])
    right = (rows[:, 2] >= rows[:, 0]) & (rows[:, 3] >= rows[:, 1])
    return bool(right.mean() >= 0.99)


def _activation(task: str, details: TaskDetails, scores: Sequence[Array]) -> str:
    kind = "sigmoid" if task == "ssd" else "softmax"
    if details.logits is not None:
        return kind if details.logits else "none"
    extent = value_range(scores)
    if extent is None:
        return "none"
    return "none" if extent[0] > -0.01 and extent[1] < 1.01 else kind


def _priors(
    project: Project, task: str, details: TaskDetails, picture: ProjectInput, count: int
) -> tuple[Array, bool]:
    """(N, 4) float32, and whether the model gives y before x."""
    if details.priors is not None:
        own_priors = np.asarray(open_array(Path(details.priors)), np.float32)
        if own_priors.shape != (count, 4):
            raise UsageError(
                f"The priors have the shape {own_priors.shape}, the model has {count} boxes.",
                remedy="Give an npy of (boxes, 4): centre x and y, width and height, in parts of "
                "the picture.",
            )
        return own_priors, False
    if task == "ssd":
        priors, y_first = _ssd_mobilenet(), True
        remedy = (
            "Give the priors as an npy of (N, 4) with --priors: centre x and y, width and height, "
            "in parts of the picture."
        )
    else:
        priors, y_first, remedy = _sized(_SIZES[task], picture), False, ""
    if len(priors) != count:
        expected = f"{_WANTED[task]}; N is {len(priors)} for this input"
        raise misfit(project, task, expected, remedy)
    return priors, y_first


def _sized(levels: Sequence[tuple[int, tuple[int, ...]]], picture: ProjectInput) -> Array:
    rows = [
        (
            (x + 0.5) / across,
            (y + 0.5) / down,
            size / picture.width,
            size / picture.height,
        )
        for step, sizes in levels
        for down, across in [
            (math.ceil(picture.height / step), math.ceil(picture.width / step)),
        ]
        for y in range(down)
        for x in range(across)
        for size in sizes
    ]
    return np.clip(np.array(rows, np.float32), 0, 1)


def _ssd_mobilenet() -> Array:
    """The 1917 anchors of the SSD MobileNet of TensorFlow at 300 x 300."""
    scales = [0.2 + 0.15 * i for i in range(6)] + [1.0]
    rows: list[tuple[float, float, float, float]] = []
    for level, grid in enumerate(_SSD_GRIDS):
        if level == 0:  # fewer on the finest
            boxes = [(0.1, 1.0), (scales[0], 2.0), (scales[0], 0.5)]
        else:
            boxes = [(scales[level], ratio) for ratio in (1.0, 2.0, 0.5, 3.0, 1.0 / 3.0)]
            boxes.append((math.sqrt(scales[level] * scales[level + 1]), 1.0))
        rows += [
            ((x + 0.5) / grid, (y + 0.5) / grid, s * math.sqrt(r), s / math.sqrt(r))
            for y in range(grid)
            for x in range(grid)
            for s, r in boxes
        ]
    return np.array(rows, np.float32)
