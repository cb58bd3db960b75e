"""Projects that run a compiled model on a board, written for the user."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from engine.base.findings import Finding
from engine.wire.codec import Text, Values, Whole
from engine.wire.method import Task
from engine.wire.record import record

__all__ = [
    "CODEGEN",
    "MODEL_TASKS",
    "CodegenParams",
    "Generated",
    "Language",
    "ModelTask",
    "TaskDetails",
]

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


@record(kw_only=True)
class TaskDetails:
    """What the post-processing needs to know; None (or empty) takes the task's own default.

    Attributes:
        classes: how many there are; else counted from the outputs.
        labels: a file with a name a line.
        anchors: width and height of each in pixels of the input, those of the finest grid first.
        score: least score of a box.
        overlap: largest intersection over union of two boxes of one class.
        top: how many classes of a classification are told.
        logits: whether the model lacks the last sigmoid (or softmax); else seen in the outputs.
        priors: npy of SSD's priors, (N, 4): centre and size in parts of the picture.
    """

    classes: Annotated[int, Whole(1, 1_000_000)] | None = None
    labels: Text | None = None
    anchors: tuple[float, ...] = ()
    score: float | None = None
    overlap: float | None = None
    top: Annotated[int, Whole(1, 10_000)] = 5
    logits: bool | None = None
    priors: Text | None = None


@record(kw_only=True)
class CodegenParams:
    """A model, the language, and the folder.

    Attributes:
        recipe: option name -> value; None where ``build`` or ``model`` says all.
        build: a container of ours, in place of a recipe.
        model: a compiled ``.rknn`` of the vendor that the project takes; None: the project has a
            place for it, and says which command makes it. Alone, without recipe and build, there
            are no golden outputs.
        path: the folder to write.
        inputs: a file for every input, samples one after the other, stored in the project with
            the golden outputs; empty: the first calibration sample, or random values.
        chip: None: the recipe's ``target_platform``, or the compiled model's.
        details: of the task.
        normalise: mean and std are applied by the project's code, as the compiled model lacks them.
        overwrite: replace a folder that is there.
    """

    path: Text
    recipe: Values | None = None
    build: Text | None = None
    model: Text | None = None
    language: Language = "cpp"
    task: ModelTask = "none"
    inputs: tuple[Text, ...] = ()
    chip: Text | None = None
    details: TaskDetails = field(default_factory=TaskDetails)
    normalise: bool = False
    overwrite: bool = False


@record(kw_only=True)
class Generated:
    """The files of a project, relative to its folder, and what a user should know."""

    path: str
    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


CODEGEN = Task("codegen", CodegenParams, Generated)
