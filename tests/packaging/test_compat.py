"""The distribution ``rknntui-rknn-api`` (folder ``compat``): the vendor's names, nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from engine import __version__
from engine.base.process import DROP_IN
from tests.packaging.test_wheel import built_of, names_in


def content(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*.py")}


def test_it_is_of_this_version_and_of_the_files_that_script_uses(repository: Path) -> None:
    project = tomllib.loads((repository / "compat/pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert project["dependencies"] == [f"rknntui=={__version__}"]
    for package in ("rknn", "rknnlite"):
        # links in a checkout, files in the source archive
        ours = repository / "compat" / package
        assert content(ours) == content(DROP_IN / package) != {}


@pytest.mark.long
def test_the_wheel_has_both_packages(repository: Path, tmp_path: Path) -> None:
    """Built from its source archive, as pip does."""
    names = names_in(built_of(repository / "compat", tmp_path))
    assert names == {
        path.relative_to(DROP_IN).as_posix()
        for package in ("rknn", "rknnlite")
        for path in (DROP_IN / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert "rknn/py.typed" in names
