"""What a post-processing is generated from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.base.errors import UsageError
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.export.codegen.project import Array, Project, ProjectInput

Family = Literal["none", "classification", "segmentation", "yolo", "priors"]
"""The sources ``postprocess_FAMILY`` among the templates."""

Constant = bool | int | float | str


@dataclass(frozen=True)
class Head:
    """One grid of a detector; its fields are in the order of C++'s ``Head``.

    Attributes:
        boxes, classes: numbers of the outputs.
        class_channel: where the classes begin in theirs.
        first: row of the head's first box, in a table of all heads.
        height, width: of the grid.
        stride_x, stride_y: pixels of the input from one place to the next.
        anchors: width and height of each, in pixels of the input.
        scale: Darknet's ``scale_x_y``.
    """

    boxes: int
    classes: int = 0
    class_channel: int = 0
    first: int = 0
    height: int = 0
    width: int = 0
    stride_x: float = 1.0
    stride_y: float = 1.0
    anchors: tuple[float, ...] = ()
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class TaskPlan:
    """The post-processing of a project.

    Attributes:
        family: see :data:`Family`.
        constants: name in Python -> value; in C++ ``k`` and the words joined.
        heads: of a detector with grids.
        priors: (N, 4) float32: centre and size in parts of the picture; None where there are none.
        labels: names of the classes.
        findings: what was assumed.
    """

    family: Family = "none"
    constants: Mapping[str, Constant] = field(default_factory=dict)
    heads: tuple[Head, ...] = ()
    priors: Array | None = None
    labels: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def misfit(project: Project, task: str, wanted: str, remedy: str = "") -> UsageError:
    """The error for a model that does not look like its task."""
    outputs = ", ".join(
        f"{sanitize(spec.name, 40)} {shape_text(spec.shape)}" for spec in project.outputs[:12]
    )
    return UsageError(
        f"The model does not look like {task}: its outputs are {outputs}.",
        cause=f"Expected: {wanted}.",
        remedy=remedy or "Choose another task, or none, and interpret the outputs yourself.",
    )


def picture_of(project: Project, task: str) -> ProjectInput:
    """The input that the boxes of a detector lie in.

    Raises:
        UsageError: there is none.
    """
    picture = project.picture
    if picture is None:
        raise UsageError(
            f"The model does not look like {task}: no input takes a picture.",
            cause="Expected: an input of four dimensions with 1 or 3 channels.",
            remedy="Choose the task none.",
        )
    return picture


def value_range(arrays: Sequence[Array]) -> tuple[float, float] | None:
    """Smallest and largest value; None where there are no arrays (no golden sample)."""
    filled = [array for array in arrays if array.size]
    if not filled:
        return None
    return min(float(a.min()) for a in filled), max(float(a.max()) for a in filled)


def assumed(what: str, remedy: str) -> Finding:
    """What was taken for granted, as there is no golden sample to see it in."""
    return Finding(
        "codegen-assumed",
        "warning",
        "task",
        what,
        cause="The project has no golden sample to see it in.",
        remedy=remedy,
    )
