"""The post-processing of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.base.errors import DatasetError, UsageError
from engine.base.files import read_regular
from engine.base.text import sanitize
from engine.export.codegen.priors import plan_priors
from engine.export.codegen.project import Constant, Project, TaskPlan, assumed, misfit, value_range
from engine.export.codegen.yolo import plan_yolo
from engine.wire.codegen import ModelTask, TaskDetails

_LABEL_BYTES = 4 << 20
_MOST_LABELS = 100_000


def plan_task(
    project: Project,
    task: ModelTask,
    details: TaskDetails,
    anchors: Mapping[str, object] | None = None,
) -> TaskPlan:
    """The post-processing of a task, checked against the model's outputs.

    Args:
        project: outputs and golden samples.
        task: what the model is.
        details: what the user says of it.
        anchors: of a Darknet network, see :func:`plan_yolo`.

    Raises:
        UsageError: the model does not look like its task; names the shapes that were expected.
        DatasetError: a file of labels or priors cannot be read.
    """
    _check(details)
    labels = () if details.labels is None else _labels(Path(details.labels))
    if task == "none":
        return TaskPlan(labels=labels)
    classes = details.classes or None
    if classes is None and labels and task not in ("classification", "segmentation", "ssd"):
        classes = len(labels)
    if task == "classification":
        plan = _classification(project, details, labels)
    elif task == "segmentation":
        plan = _segmentation(project, details)
    elif task in ("ssd", "retinaface", "ultraface"):
        plan = plan_priors(project, task, details, classes)
    else:
        plan = plan_yolo(project, task, details, classes, anchors or {})
    if task in ("retinaface", "ultraface") and not labels:
        labels = ("background", "face")
    return replace(plan, labels=labels)


def _check(details: TaskDetails) -> None:
    for name, value in (("score", details.score), ("overlap", details.overlap)):
        if value is not None and not 0 <= value <= 1:
            raise UsageError(f"{name} is {value}.", remedy="Give a share from 0 to 1.")
    if any(not 0 < value < 1e6 for value in details.anchors):
        raise UsageError("An anchor is no size in pixels.", remedy="Give widths and heights.")


def _labels(path: Path) -> tuple[str, ...]:
    shown = sanitize(str(path), 300)
    try:
        text = read_regular(path, _LABEL_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DatasetError(
            f"The labels {shown} cannot be read: {sanitize(str(why), 160)}.",
            remedy="Give a text file (UTF-8) with a name a line.",
        ) from error
    lines = [sanitize(line.strip(), 100) for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if not 0 < len(lines) <= _MOST_LABELS:
        raise DatasetError(
            f"The labels {shown} have {len(lines)} lines.",
            remedy="Give a text file with a name a line.",
        )
    return tuple(lines)


def _classification(project: Project, details: TaskDetails, labels: tuple[str, ...]) -> TaskPlan:
    class_count = details.classes or len(labels) or None
    sizes = {
        number: int(np.prod(spec.shape))
        for number, spec in enumerate(project.outputs)
        if sum(size > 1 for size in spec.shape) == 1
    }
    fits = [number for number, size in sizes.items() if class_count in (None, size)]
    if not fits:
        count = "classes" if class_count is None else f"{class_count} classes"
        raise misfit(project, "a classification", f"(1, {count}) or (1, {count}, 1, 1)")
    output = fits[0]
    golden = [sample.outputs[output] for sample in project.samples]
    extent = value_range(golden)
    softmax = bool(details.logits)
    if details.logits is None and extent is not None:
        softmax = extent[0] < -0.01 or extent[1] > 1.01
    constants: dict[str, Constant] = {"output": output, "softmax": softmax, "top": details.top}
    note = assumed("The output is taken as probabilities.", "Set --logits where it is not.")
    known = details.logits is not None or extent is not None
    return TaskPlan("classification", constants, findings=() if known else (note,))


def _segmentation(project: Project, details: TaskDetails) -> TaskPlan:
    for number, spec in enumerate(project.outputs):
        shape = spec.shape
        if len(shape) == 3 and shape[0] == 1:
            shape = (1, *shape)
        if len(shape) != 4 or shape[0] != 1 or min(shape[2:]) < 2:
            continue
        if details.classes not in (None, shape[1]):
            continue
        threshold = 0.0 if details.logits else 0.5
        golden = value_range([sample.outputs[number] for sample in project.samples])
        if details.logits is None and golden is not None and golden[0] < -0.01:
            threshold = 0.0  # what a sigmoid of a half comes from
        constants: dict[str, Constant] = {
            "output": number,
            "classes": shape[1],
            "height": shape[2],
            "width": shape[3],
            "threshold": threshold,
        }
        return TaskPlan("segmentation", constants)
    raise misfit(project, "a segmentation", "(1, classes, H, W) or, of two classes, (1, 1, H, W)")
