from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import pytest

from tests.cli.conftest import rknntui

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
        command = [sys.executable, "-m", "tests.hostile.bounded", action, *paths]
        ran = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
        told = [json.loads(line) for line in ran.stdout.splitlines()]
        assert ran.returncode == 0, f"{ran.returncode} after {told}:\n{ran.stderr[-2000:]}"
        return {name: (kind, said) for name, kind, said in told}

    return run
