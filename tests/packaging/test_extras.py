"""What an error tells to install is what the extras of ``pyproject.toml`` bring."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.frontends.converter_process import FRAMEWORKS
from engine.jobs.cluster import PACKAGES, open_cluster
from rknntui.doctor import EXTRAS


def test_the_lines_are_those_of_the_extras(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = {name: tuple(wanted) for name, wanted in project["optional-dependencies"].items()}
    assert extras["sweep"] == PACKAGES
    assert FRAMEWORKS["pytorch"].packages == EXTRAS["PyTorch"][1] == extras["torch"]
    assert FRAMEWORKS["tensorflow"].packages == EXTRAS["TensorFlow"][1] == extras["tensorflow"]


def test_a_sweep_without_dask_gives_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="needs Dask and cryptography") as caught:
        open_cluster(None, 1).__enter__()
    line = f"{sys.executable} -m pip install 'cryptography>=48' 'dask[distributed]>=2026.8,<2027'"
    assert caught.value.remedy == line


@pytest.mark.parametrize("page", ["README.md", "docs", "compat/README.md", "CONTRIBUTING.md"])
def test_pages_link_the_clone_and_copy_nothing(repository: Path, page: str) -> None:
    """Without -e pip copies the program: after `git pull` the old code would run."""
    path = repository / page
    found = []
    for file in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
        for line in file.read_text(encoding="utf-8").splitlines():
            for verb in ("pip install ", "uv tool install "):
                words = line.partition(verb)[2].partition("`")[0].partition("#")[0].split()
                places = [w for w in words if w.strip("'").startswith((".[", "./")) or w == "."]
                if places and not {"-e", "--editable"} & set(words):
                    found.append(f"{file.name}: {line.strip()}")
    assert not found
