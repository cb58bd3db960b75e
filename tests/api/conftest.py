from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.api import RKNN
from engine.graph.execute import Session
from tests.pipeline.nets import picture, project


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that the manuals' examples name."""
    project(tmp_path, "arcface.onnx")
    picture(tmp_path / "dog_224x224.jpg", 9)
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


def built(
    generation: int = 2,
    *,
    model: str = "arcface.onnx",
    quantize: bool = True,
    dataset: str = "dataset.txt",
    compiler: str | None = None,
    batch: int | None = None,
    **config: object,
) -> RKNN:
    """The small net, or another one, built by keyword arguments."""
    rknn = RKNN(generation=generation, compiler=compiler)
    assert rknn.config(**config) is None
    assert rknn.load_onnx(model) == 0
    samples = dataset if quantize else None
    assert rknn.build(do_quantization=quantize, dataset=samples, rknn_batch_size=batch or -1) == 0
    return rknn


def ready(*args: Any, **how: Any) -> RKNN:
    """The same, in the simulator."""
    rknn = built(*args, **how)
    assert rknn.init_runtime() == 0
    return rknn


def run(rknn: RKNN, *arrays: Any, **how: Any) -> np.ndarray:
    """The first output of an inference."""
    outputs = rknn.inference(list(arrays), **how)
    assert outputs is not None
    return outputs[0]


def simulated(rknn: RKNN, feed: np.ndarray) -> np.ndarray:
    """What the quantized graph of a build gives for its input."""
    assert rknn._build is not None
    graph = rknn._build.quantized.graph.graph
    return Session(graph).run({"image": np.ascontiguousarray(feed)})["scores"]
