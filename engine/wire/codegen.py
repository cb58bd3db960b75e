"""Projects that run a compiled model on a board, written for the user."""

from __future__ import annotations

from typing import Literal

from engine.base.findings import Finding
from engine.wire.codec import Text, Values
from engine.wire.record import record

__all__ = ["CodegenParams", "Generated", "Language", "ModelTask"]

Language = Literal["cpp", "python"]
ModelTask = Literal[
    "none", "classification", "yolov5", "yolov8", "yolox", "ssd", "retinaface", "segmentation"
]
"""What the model is, which decides the post-processing; ``none`` writes the outputs as they are."""


@record(kw_only=True)
class CodegenParams:
    """A model, the language, and the folder.

    Attributes:
        recipe: option name -> value; None where ``model`` says all.
        model: a compiled ``.rknn`` of the vendor that the project takes; None: the project has a
            place for it, and says which command makes it.
        path: the folder to write.
        inputs: a file for every input, stored in the project with the golden outputs.
        overwrite: replace a folder that is there.
    """

    path: Text
    recipe: Values | None = None
    model: Text | None = None
    language: Language = "cpp"
    task: ModelTask = "none"
    inputs: tuple[Text, ...] = ()
    chip: Text | None = None
    overwrite: bool = False


@record(kw_only=True)
class Generated:
    """The files of a project, relative to its folder, and what a user should know."""

    path: str
    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
