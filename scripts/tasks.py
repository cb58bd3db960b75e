"""Tasks that the workbench is measured by: the keys of each, and what is seen before the next one.

``tests/tui/test_tasks.py`` plays them at 80x24 and counts their keys; ``scripts/make_pictures.py``
plays them again and saves the last screen of each. A task of the docs is one of these.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

RFB = "onnx/version-RFB-320_without_postprocessing.onnx"
"""A face detector, in the zoo."""

YOLO = "shapes/published/yolov8n.onnx"
"""The graph of YOLOv8n, in the zoo."""


@dataclass(frozen=True)
class Step:
    """Keys, and a text that is on the screen before the next ones.

    Attributes:
        keys: names of Textual.
        sees: empty where nothing has to be waited for.
    """

    keys: tuple[str, ...]
    sees: str = ""


@dataclass(frozen=True)
class Task:
    """What a user wants, and how it is done by keys alone.

    Attributes:
        title: in words.
        most: so many keys it may take.
        file: makes what the task begins with in a folder, of the zoo and the demo: gives the file
            to open.
        before: steps that lead to where the task begins; they are not counted.
        steps: the task.
    """

    title: str
    most: int
    file: Callable[[Path, Path, Path], Path]
    steps: tuple[Step, ...]
    before: tuple[Step, ...] = ()

    @property
    def keys(self) -> int:
        """How many it takes."""
        return sum(len(step.keys) for step in self.steps)


async def play(
    steps: tuple[Step, ...],
    press: Callable[..., Awaitable[None]],
    sees: Callable[[str], Awaitable[None]],
) -> None:
    """Press the keys of steps, and wait for what has to be seen."""
    for step in steps:
        await press(*step.keys)
        if step.sees:
            await sees(step.sees)


def _faces(folder: Path, zoo: Path, _demo: Path) -> Path:
    """RFB-320 beside a folder of photographs."""
    photos = folder / "photos"
    photos.mkdir()
    for path in sorted((zoo / "images" / "coco").glob("*.jpg"))[:4]:
        shutil.copy(path, photos)
    return Path(shutil.copy(zoo / RFB, folder / "RFB-320.onnx"))


def _faces_recipe(folder: Path, zoo: Path, demo: Path) -> Path:
    """The same with its recipe, mean and std set."""
    model = _faces(folder, zoo, demo)
    mean, std = "[127, 127, 127]", "[128, 128, 128]"
    return _recipe(folder / "faces.yaml", model.name, "photos", mean, std)


def digits(folder: Path, _zoo: Path, demo: Path) -> Path:
    """The demo with its recipe, as a user would have them."""
    ignored = shutil.ignore_patterns("*.py", "__pycache__")
    shutil.copytree(demo, folder, ignore=ignored, dirs_exist_ok=True)
    return _recipe(folder / "digits.yaml", "digits_demo.onnx", "dataset.txt", "[127.5]", "[127.5]")


def _recipe(path: Path, model: str, dataset: str, mean: str, std: str) -> Path:
    path.write_text(
        "version: 1\n"
        f"source: {{model: {model}}}\n"
        f"preprocess: {{mean_values: [{mean}], std_values: [{std}]}}\n"
        f"dataset: {{dataset: {dataset}}}\n"
        "target: {target_platform: rk3588}\n",
        encoding="utf-8",
    )
    return path


def _yolo(folder: Path, zoo: Path, _demo: Path) -> Path:
    return Path(shutil.copy(zoo / YOLO, folder / "yolov8n.onnx"))


def _cut_model(folder: Path, _zoo: Path, demo: Path) -> Path:
    path = folder / "cut.onnx"
    path.write_bytes((demo / "digits_demo.onnx").read_bytes()[:400])
    return path


def _lost_sample(folder: Path, zoo: Path, demo: Path) -> Path:
    recipe = digits(folder, zoo, demo)
    lines = (folder / "dataset.txt").read_text(encoding="utf-8").split()
    (folder / "dataset.txt").write_text("\n".join([*lines[:3], "gone.png", ""]), encoding="utf-8")
    return recipe


def _slip(folder: Path, zoo: Path, demo: Path) -> Path:
    recipe = digits(folder, zoo, demo)
    recipe.write_text(
        recipe.read_text(encoding="utf-8").replace("preprocess", "preproces"), encoding="utf-8"
    )
    return recipe


def _steps(*steps: tuple[str, str]) -> tuple[Step, ...]:
    """Steps from their keys, with blanks between, and what is seen."""
    return tuple(Step(tuple(keys.split()), sees) for keys, sees in steps)


TASKS: dict[str, Task] = {
    "a": Task(
        "RFB-320 from its file to w8a8 with its accuracy, mean and std set",
        25,
        _faces,
        _steps(("enter", "127, 128"), ("enter", "Enter build"), ("enter", "boxes")),
        before=_steps(("", "a guess")),
    ),
    "b": Task(
        "promote the two layers with the best gain within 5 % of the time, and export",
        6,
        _faces_recipe,
        _steps(
            ("3", "by gain per ms"), ("p 2 enter", "2 of 73 layers changed"), ("x", "Export"),
            ("enter", "boxes      21.89 dB →"),
        ),
        before=_steps(("", "Enter build"), ("b", "boxes")),
    ),
    "c": Task(
        "which chips run YOLOv8n at 25 frames a second, and what the others need",
        4,
        _yolo,
        _steps(("4", "rk3588"), ("f", "Frames a second to reach"), ("enter", "input")),
        before=_steps(("", "Enter choose samples")),
    ),
    "d-model": Task("a broken model", 0, _cut_model, (), before=_steps(("", "Likely cause"))),
    "d-dataset": Task(
        "a broken dataset",
        2,
        _lost_sample,
        _steps(("n", "line 4"), ("n", "dataset line 4")),
        before=_steps(("", "✗ dataset")),
    ),
    "d-recipe": Task("a broken recipe", 0, _slip, (), before=_steps(("", "no section"))),
    "e": Task(
        "an emulated board from nothing: add, examine, run, watch, compare",
        12,
        digits,
        _steps(
            ("5 a", "Add a board"), ("enter", "temperature"), ("d", "no problem found"),
            ("r", "p50"), ("equals_sign", "board and simulator are equal"),
        ),
        before=_steps(("", "Enter build")),
    ),
    "f": Task(
        "compile for two chips, write a project with its model, encrypt",
        16,
        digits,
        _steps(
            ("4", "rk3576 "), ("up space space r", "Compile for rk3576, rk3588"),
            ("enter", " printed"),
            ("v r", "files in"), ("v down enter", "Encrypt a model"), ("enter", "crypt.rknn"),
        ),
        before=_steps(("", "Enter build")),
    ),
    "g": Task(
        "what changed between two builds",
        3,
        digits,
        _steps(("7 equals_sign", "Outputs, dB (simulated)")),
        before=_steps(
            ("", "Enter build"), ("b", "Conv  +"), ("space", "Enter build"),
            ("b", "▸ compile"),
        ),
    ),
}  # fmt: skip
"""By the name that the docs give them."""
