"""What a project is made from: inputs and outputs of the model, golden samples, the chip, the
post-processing; and names and texts of a user as generated code may have them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from engine.base.errors import UsageError
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.facts import chip as chip_facts
from engine.wire.codegen import TaskDetails

Array = np.ndarray[Any, np.dtype[Any]]

Api = Literal["full", "mini", "generation1"]
"""The interface of the runtime library: ``mini`` (librknnmrt.so) is zero-copy only."""


@dataclass(frozen=True)
class Board:
    """What a chip's boards have.

    Attributes:
        chip: its name.
        generation: of the toolkit and the C API.
        api: see :data:`Api`.
        library: name of the runtime library.
        architecture: ``arm64`` or ``armhf``, of the usual system on it.
        compiler: prefix of the usual cross compiler for 32 bits.
    """

    chip: str
    generation: int
    api: Api
    library: str
    architecture: Literal["arm64", "armhf"]
    compiler: str = "arm-linux-gnueabihf-"

    @classmethod
    def of_chip(cls, name: str) -> Board:
        """The board of a chip.

        Raises:
            UsageError: there is no such chip.
        """
        facts = chip_facts(name)
        if facts is None:
            raise UsageError(
                f"There is no chip {name!r}.", remedy="`rknntui chips` lists those there are."
            )
        name = facts.name
        if facts.generation == 1:
            # RK3399Pro's processor reaches its NPU through a library of another name
            library = "librknn_api.so" if name == "rk3399pro" else "librknn_runtime.so"
            return cls(name, 1, "generation1", library, "armhf" if name[:2] == "rv" else "arm64")
        if name.startswith(("rv1103", "rv1106")):
            prefix = "arm-rockchip830-linux-uclibcgnueabihf-"
            return cls(name, 2, "mini", "librknnmrt.so", "armhf", prefix)
        return cls(name, 2, "full", "librknnrt.so", "arm64")


@dataclass(frozen=True)
class ProjectInput:
    """An input as the project hands it over; its fields are in the order of C++'s ``InputSpec``.

    Attributes:
        name: as the model has it.
        shape: pictures (N, H, W, C).
        nhwc: whether the channels come last.
        picture: whether picture files fit it.
        width, height, channels: of a picture.
        order: new channel -> channel of the file; empty: as it is.
        filter, fit: how pictures are scaled.
        pad: value of each channel beside a picture, for ``pad``.
        mean, std: of each channel; applied here where ``normalise``, else in the compiled model.
    """

    name: str
    shape: tuple[int, ...]
    nhwc: bool
    picture: bool = False
    width: int = 0
    height: int = 0
    channels: int = 0
    order: tuple[int, ...] = ()
    filter: str = "bilinear"
    fit: str = "stretch"
    pad: tuple[float, ...] = ()
    normalise: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


@dataclass(frozen=True)
class ProjectOutput:
    """An output: its name and shape as the model has it."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Sample:
    """What is handed over for one inference, and what the simulator gave for it as float32."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Project:
    """All that a project is made from.

    Attributes:
        model: name of the model, as the user knows it.
        board: that it is for.
        inputs, outputs, samples: see above.
        made_from: how the compiled model is made, in a sentence for the README.
        compiled: the compiled model to copy in; None: the user puts it there.
    """

    model: str
    board: Board
    inputs: tuple[ProjectInput, ...]
    outputs: tuple[ProjectOutput, ...]
    samples: tuple[Sample, ...] = ()
    made_from: str = ""
    compiled: Path | None = field(default=None)

    @property
    def picture(self) -> ProjectInput | None:
        """The first input that takes pictures."""
        return next((spec for spec in self.inputs if spec.picture), None)


_WORDS = 40

# folders beside the program on a board
_TAKEN = frozenset({"data", "model"})


def identifier(name: str, default: str) -> str:
    """A name of ASCII letters, digits and ``_`` that begins with a letter: for files and targets.

    >>> identifier("my model-v2.onnx", "model")
    'my_model_v2_onnx'
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")[:_WORDS].rstrip("_")
    if not words:
        return default
    return words if words[0].isalpha() else f"{default}_{words}"


def program_name(name: str) -> str:
    """The :func:`identifier` of a model that a program may have on a board.

    >>> program_name("data")
    'model_data'
    """
    plain = identifier(name, "model")
    return f"model_{plain}" if plain in _TAKEN else plain


def plain_line(text: str) -> str:
    """Text that fits a comment or a line of a README: no control characters, no line breaks."""
    return "".join(c if c.isprintable() else "?" for c in text)[:300]


Family = Literal["none", "classification", "segmentation", "yolo", "priors"]
"""The sources ``postprocess_FAMILY`` among the templates."""

_MOST_BOXES = 300
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


def kept_boxes(
    details: TaskDetails, picture: ProjectInput, score: float, overlap: float
) -> dict[str, Constant]:
    """Which boxes of a detector are kept, and the size that they lie in.

    Args:
        score, overlap: where the user says nothing.
    """
    return {
        "score": score if details.score is None else details.score,
        "overlap": overlap if details.overlap is None else details.overlap,
        "most": _MOST_BOXES,
        "width": picture.width,
        "height": picture.height,
    }


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
