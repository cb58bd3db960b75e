from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import pytest

from tests.cli.conftest import rknntui
from tests.safety import told_by

__all__ = ["Bounded", "bounded", "rknntui"]

Bounded = Callable[[str, Mapping[str, onnx.ModelProto]], dict[str, tuple[str, str]]]


@pytest.fixture
def bounded(tmp_path: Path, repository: Path) -> Bounded:
    """Do an action of ``tests.hostile.bounded`` to models; name -> (error class, what it said)."""

    def run(action: str, models: Mapping[str, onnx.ModelProto]) -> dict[str, tuple[str, str]]:
        paths = []
        for name, proto in models.items():
            paths.append(str(tmp_path / f"{name}.onnx"))
            onnx.save(proto, paths[-1])
        told = told_by(repository, "tests.hostile.bounded", action, *paths)
        return {name: (kind, said) for name, kind, said in told}

    return run
