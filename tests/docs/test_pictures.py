"""The script that makes the pictures of the docs still finds every screen that it waits for."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.safety import ran


@pytest.mark.long
@pytest.mark.vendor
@pytest.mark.usefixtures("toolkit2")  # the pictures of Chips and Bench show what it compiles
@pytest.mark.skipif(shutil.which("adb") is None, reason="an emulated board is reached by adb")
def test_every_picture_of_the_docs_can_be_made_again(
    repository: Path, zoo: Path, tmp_path: Path
) -> None:
    script = repository / "scripts" / "make_pictures.py"
    env = {**os.environ, "RKNNTUI_ZOO": str(zoo)}  # the tasks begin with its models
    made = ran(sys.executable, script, tmp_path, timeout=900, env=env)
    assert made.returncode == 0, made.stdout + made.stderr
    kept = {path.name for path in (repository / "docs" / "pictures").glob("*.svg")}
    assert {path.name for path in tmp_path.glob("*.svg")} == kept
