"""Projects that run a compiled model on a board, written for the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Literal

from engine.base.findings import Finding
from engine.base.plain import Values
from engine.wire.codec import Between, Text, Whole
from engine.wire.flags import Flag, Nested, output_flag
from engine.wire.method import Task
from engine.wire.record import record

Language = Literal["cpp", "python"]
ModelTask = Literal[
    "none",
    "classification",
    "yolov5",
    "yolov7",
    "yolov8",
    "yolov11",
    "yolox",
    "darknet",
    "ssd",
    "retinaface",
    "ultraface",
    "segmentation",
]
"""What the model is, which decides the post-processing; ``none`` writes the outputs as they are."""

MODEL_TASKS: dict[ModelTask, str] = {
    "none": "no post-processing: the outputs as they are",
    "classification": "the classes with the highest scores",
    "yolov5": "boxes of YOLOv5: grids with anchors, or one table",
    "yolov7": "boxes of YOLOv7: as YOLOv5, other anchors",
    "yolov8": "boxes of YOLOv8 (v6, v10, PP-YOLOE): distances to the sides, or one table",
    "yolov11": "boxes of YOLO11: as YOLOv8",
    "yolox": "boxes of YOLOX: grids without anchors",
    "darknet": "boxes of YOLOv3, v4 and Yolo-Fastest: raw heads with the cfg's anchors",
    "ssd": "boxes of SSD from priors",
    "retinaface": "faces and landmarks of RetinaFace",
    "ultraface": "faces of Ultra-Light (RFB-320, slim)",
    "segmentation": "the class of each pixel",
}
"""Task -> what its post-processing gives."""


def _read_numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not numbers with commas between.") from None


def _write_numbers(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


@record(kw_only=True)
class TaskDetails:
    """What the post-processing needs to know; None (or empty) takes the task's own default.

    Attributes:
        classes: else counted from the outputs.
        overlap: of boxes of one class: intersection over union.
        top: how many classes of a classification are told.
        logits: whether the model lacks the last sigmoid (or softmax).
        priors: centre and size in parts of the picture.
    """

    labels: Annotated[Text | None, Flag(help="A file with a class name a line.", kind="file")] = (
        None
    )
    classes: Annotated[
        Annotated[int, Whole(1, 1_000_000)] | None, Flag(help="How many classes there are.")
    ] = None
    anchors: Annotated[
        tuple[float, ...],
        Flag(
            help="Anchors in pixels of the input, those of the finest grid first.",
            metavar="W,H,...",
            read=_read_numbers,
            write=_write_numbers,
            whole=True,
        ),
    ] = ()
    priors: Annotated[Text | None, Flag(help="npy (N, 4) of SSD's priors.", kind="file")] = None
    score: Annotated[Annotated[float, Between(0, 1)] | None, Flag(help="Least score of a box.")] = (
        None
    )
    overlap: Annotated[
        Annotated[float, Between(0, 1)] | None, Flag(help="Largest overlap of two boxes.")
    ] = None
    top: Annotated[int, Whole(1, 10_000)] = 5
    logits: Annotated[
        bool | None,
        Flag(
            name="--logits/--probabilities",
            help="Whether the scores lack their sigmoid or softmax. Default: as the golden outputs "
            "show.",
        ),
    ] = None


@record(kw_only=True)
class CodegenParams:
    """A model, the language, and the folder.

    Attributes:
        recipe: option name -> value; None where ``build`` or ``model`` says all.
        build: a container of ours, in place of a recipe.
        model: a compiled ``.rknn`` of the vendor that the project takes; None: the project has a
            place for it, and says which command makes it. Alone, without recipe and build, there
            are no golden outputs.
        details: of the task.
    """

    recipe: Values | None = None
    build: Text | None = None
    path: Annotated[Text, output_flag("The folder to write.", "folder", "DIRECTORY")]
    language: Annotated[Language, Flag(help="cpp: the C API, CMake; python: rknnlite.")] = "cpp"
    task: Annotated[
        ModelTask, Flag(help="What the model is: its post-processing comes with the project.")
    ] = "none"
    chip: Annotated[
        Text | None,
        Flag(help="The chip it is for; default: target_platform of the recipe.", kind="chip"),
    ] = None
    inputs: Annotated[
        tuple[Text, ...],
        Flag(
            name="-i --input",
            help="A picture or npy for each input, samples one after the other. Default: the first "
            "calibration sample.",
            kind="file",
        ),
    ] = ()
    model: Annotated[
        Text | None,
        Flag(help="The compiled .rknn that the project takes along.", kind="file"),
    ] = None
    details: Annotated[TaskDetails, Nested()] = field(default_factory=TaskDetails)
    normalise: Annotated[
        bool, Flag(help="The project applies mean and std; the compiled model lacks them.")
    ] = False
    overwrite: Annotated[bool, Flag(help="Replace a project that was generated there.")] = False


@record(kw_only=True)
class Generated:
    """The files of a project, relative to its folder, and what a user should know."""

    path: str
    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


# fmt: off
CODEGEN = Task("codegen", CodegenParams, Generated, "codegen", after="compile",
    about="Write a C++ or Python project that runs a model on a board.",
    example="TARGET is a model file, a recipe, a container of this program, or a compiled .rknn. "
    "Tasks: " + "; ".join(f"{name}: {about}" for name, about in MODEL_TASKS.items()) + ".")
# fmt: on
