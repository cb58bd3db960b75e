"""The demo model and its samples, as they come with the program. Standard library only.

``scripts/make_demo.py`` makes the files and describes them: a small CNN on the UCI digits, 100
calibration samples as pictures and 500 labelled test samples, all 8x8 grey bytes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

CHIP = "rk3588"
"""What the demo is for in the workbench."""
__all__ = ["CHIP", "copy_demo", "demo_folder", "demo_recipe", "demo_test_samples"]


def demo_folder() -> Path:
    """The folder that holds the files. Only read from."""
    return Path(__file__).resolve().parent


def demo_recipe(chip: str | None = None) -> dict[str, object]:
    """A new recipe for the demo model: option name to value, with absolute paths.

    Args:
        chip: that it is for; None for none.
    """
    folder = demo_folder()
    target = {"target_platform": chip} if chip else {}
    return {
        "model": str(folder / "digits_demo.onnx"),
        "dataset": str(folder / "dataset.txt"),
        "mean_values": [[127.5]],
        "std_values": [[127.5]],
        **target,
    }


def demo_test_samples() -> Path:
    """An npz with ``samples`` uint8 (500, 8, 8) and ``labels`` uint8 (500,)."""
    return demo_folder() / "test.npz"


def copy_demo(folder: Path) -> list[str]:
    """Copy what a first try needs into a new folder; the names that are in it then.

    ``model.onnx``, its photos in ``photos``, and ``labelled.npz``, the test samples.

    Raises:
        OSError: the folder exists and is not empty, or cannot be written.
    """
    ours = demo_folder()
    with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as work:
        target = Path(work) / folder.name
        target.mkdir()
        shutil.copyfile(ours / "digits_demo.onnx", target / "model.onnx")
        shutil.copyfile(demo_test_samples(), target / "labelled.npz")
        (target / "photos").mkdir()
        for photo in (ours / "calibration").iterdir():
            shutil.copyfile(photo, target / "photos" / photo.name)
        os.rename(target, folder)  # noqa: PTH104 - an empty folder is replaced
    return ["model.onnx", "photos", "labelled.npz"]
