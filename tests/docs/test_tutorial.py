"""The commands of the tutorial work, in their order, in an empty folder, and give what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.docs.pages import Reader, read

pytestmark = pytest.mark.long


def follow_tutorial(repository: Path, folder: Path, programs: Path) -> str:
    """Run its blocks in ``folder`` with the programs there; what they printed."""
    page = read(repository / "docs" / "tutorial.md", repository)
    with Reader(folder, programs) as reader:
        for block in page.run:
            reader.run(block)
        return reader.printed


def test_every_command_of_the_tutorial_works(repository: Path, tmp_path: Path) -> None:
    printed = follow_tutorial(repository, tmp_path, Path(sys.executable).parent)
    text = (repository / "docs" / "tutorial.md").read_text(encoding="utf-8")
    figures = re.findall(r"logits +[0-9.]+ dB", text)
    assert figures
    for figure in figures:
        assert figure in printed
    assert (tmp_path / "tutorial" / "model.rknn").read_bytes().startswith(b"RKNN")
    assert (tmp_path / "tutorial" / "model_qdq.onnx").is_file()
