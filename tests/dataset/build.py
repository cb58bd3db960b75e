"""Pictures, and one file as the network takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.base.errors import DatasetError
from engine.dataset import Preprocess, dataset_from_paths, samples
from engine.graph.ir import TensorSpec

RGB = TensorSpec("image", (1, 3, 6, 8), "float32")
GREY = TensorSpec("image", (1, 1, 6, 8), "float32")


def picture(path: Path, width: int = 8, height: int = 6, mode: str = "RGB", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    shape = (height, width) if mode == "L" else (height, width, len(mode))
    pixels = rng.integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def only(path: Path, spec: TensorSpec = RGB, preprocess: Preprocess | None = None) -> np.ndarray:
    stream = samples(dataset_from_paths([path], 1), [spec], preprocess or Preprocess())
    (sample,) = stream
    return sample[spec.name]


def refused(path: Path, spec: TensorSpec = RGB) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        only(path, spec)
    error = caught.value
    assert path.name in error.what
    assert error.what.startswith("sample 1: ")
    assert error.remedy
    return error
