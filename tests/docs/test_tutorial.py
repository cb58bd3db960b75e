"""The commands of the tutorial work, in their order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


def test_every_command_of_the_tutorial_works(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    folder = Path(sys.executable).parent
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    for figure in re.findall(r"logits +[0-9.]+ dB", page):
        assert figure in ran.stdout
    assert (tmp_path / "tutorial" / "model.rknn").read_bytes().startswith(b"RKNN")
    assert (tmp_path / "tutorial" / "model_qdq.onnx").is_file()
