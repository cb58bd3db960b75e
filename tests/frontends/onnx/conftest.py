"""Models as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a model and give its path."""

    def write(model: onnx.ModelProto, name: str = "m.onnx", **options: Any) -> Path:
        onnx.save(model, tmp_path / name, **options)
        return tmp_path / name

    return write
