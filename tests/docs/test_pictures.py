"""The script that makes the pictures of the docs still finds every screen that it waits for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.vendor
@pytest.mark.usefixtures("toolkit2")  # the pictures of Chips and Bench show what it compiles
@pytest.mark.skipif(shutil.which("adb") is None, reason="an emulated board is reached by adb")
def test_every_picture_of_the_docs_can_be_made_again(
    repository: Path, zoo: Path, tmp_path: Path
) -> None:
    script = repository / "scripts" / "make_pictures.py"
    words = [sys.executable, str(script), str(tmp_path)]
    env = {**os.environ, "RKNNTUI_ZOO": str(zoo)}  # the tasks begin with its models
    made = subprocess.run(words, check=False, capture_output=True, text=True, timeout=900, env=env)
    assert made.returncode == 0, made.stdout + made.stderr
    kept = {path.name for path in (repository / "docs" / "pictures").glob("*.svg")}
    assert {path.name for path in tmp_path.glob("*.svg")} == kept
