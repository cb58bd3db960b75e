"""The command line as a user runs it: a process of its own, from a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """What a command left: exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def rknntui(tmp_path: Path) -> Run:
    """Run ``rknntui ARGUMENTS`` in ``tmp_path`` (or ``cwd``); fails on a traceback."""

    def run(*arguments: str | Path, cwd: Path | None = None, timeout: float = 120) -> Ran:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "rknntui", *map(str, arguments)],
            cwd=cwd or tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
