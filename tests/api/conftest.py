from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from PIL import Image

from engine.api import RKNN
from tests.pipeline.nets import picture, small_net


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that the manuals' examples name."""
    onnx.save(small_net(), tmp_path / "arcface.onnx")
    for number in range(4):
        picture(tmp_path / f"{number}.png", number)
    picture(tmp_path / "dog_224x224.jpg", 9)
    (tmp_path / "dataset.txt").write_text("".join(f"{number}.png\n" for number in range(4)))
    (tmp_path / "one.txt").write_text("dog_224x224.jpg\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dog(place: Path) -> np.ndarray:
    return np.asarray(Image.open(place / "dog_224x224.jpg"))


@pytest.fixture
def rknn_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """``from rknn.api import RKNN`` gives ours, as the manuals' examples write it."""
    package, module = ModuleType("rknn"), ModuleType("rknn.api")
    module.RKNN = RKNN  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rknn", package)
    monkeypatch.setitem(sys.modules, "rknn.api", module)


def built(generation: int = 2, **config: object) -> RKNN:
    """The small net, built by keyword arguments."""
    rknn = RKNN(generation=generation)
    assert rknn.config(**config) is None
    assert rknn.load_onnx("arcface.onnx") == 0
    assert rknn.build(do_quantization=True, dataset="dataset.txt") == 0
    return rknn
