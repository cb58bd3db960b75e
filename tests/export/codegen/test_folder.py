"""A project's folder: whole or not at all, and over nobody else's files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import JobCancelledError, OutputError, OutputExistsError
from engine.base.events import Event, NullReporter
from engine.export.codegen import check_target
from engine.export.codegen.folder import MARK, write_folder
from tests.export.codegen.projects import generate, project_of

GOLDEN = np.arange(10, dtype=np.float32).reshape(1, 10)


def listed(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()}


def test_what_is_written(tmp_path: Path) -> None:
    made = generate(project_of([GOLDEN]), tmp_path / "app", "classification")
    assert listed(tmp_path / "app") == {*made.files, MARK}
    assert {"CMakeLists.txt", "README.md", "build.sh", "run.sh", "src/main.cpp"} <= set(made.files)
    assert {"data/sample0/input0.npy", "data/sample0/output0.npy"} <= set(made.files)
    assert os.access(tmp_path / "app" / "run.sh", os.X_OK)
    assert not os.access(tmp_path / "app" / "README.md", os.X_OK)
    np.testing.assert_array_equal(np.load(tmp_path / "app/data/sample0/output0.npy"), GOLDEN)
    assert [each.name for each in tmp_path.iterdir()] == ["app"]  # nothing left beside it
    assert made.findings == ()


def test_no_template_word_is_left(tmp_path: Path) -> None:
    for language in ("cpp", "python"):
        made = generate(project_of([GOLDEN]), tmp_path / language, "classification", language)
        for name in made.files:
            if not name.endswith(".npy"):
                text = (tmp_path / language / name).read_text()
                for word in ("@NAME", "@MODEL", "@COSINE", "@API", "@BOARD"):
                    assert word not in text, name


def test_a_folder_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "app"
    generate(project_of([GOLDEN]), path)
    with pytest.raises(OutputExistsError, match="exists already"):
        generate(project_of([GOLDEN]), path)
    (path / "src" / "main.cpp").write_text("edited")
    (path / "model" / "small_model.rknn").write_bytes(b"mine")
    (path / "notes").mkdir()
    (path / "notes" / "todo.txt").write_text("mine")
    generate(project_of([GOLDEN * 2]), path, overwrite=True)
    assert "edited" not in (path / "src" / "main.cpp").read_text()
    assert np.load(path / "data/sample0/output0.npy").max() == 18
    # what is not ours stays
    assert (path / "model" / "small_model.rknn").read_bytes() == b"mine"
    assert (path / "notes" / "todo.txt").read_text() == "mine"
    generate(project_of([GOLDEN]), path, language="python", overwrite=True)
    assert not (path / "src").exists(), "what was generated and is not any more, is gone"
    assert (path / "notes" / "todo.txt").read_text() == "mine"


@pytest.mark.parametrize("what", ["folder", "empty", "file", "link", "damaged"])
def test_never_a_folder_of_somebody_else(tmp_path: Path, what: str) -> None:
    path = tmp_path / "app"
    if what == "file":
        path.write_text("mine")
    elif what == "link":
        generate(project_of([GOLDEN]), tmp_path / "real")
        path.symlink_to(tmp_path / "real")
    else:
        path.mkdir()
    if what == "folder":
        (path / "thesis.txt").write_text("mine")
    if what == "damaged":
        (path / MARK).write_text("[1, 2")
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(OutputExistsError, match="not a project that was generated here") as caught:
        check_target(path, overwrite=True)
    assert MARK in caught.value.cause
    with pytest.raises(OutputExistsError):
        generate(project_of([GOLDEN]), path, overwrite=True)
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    generate(project_of([GOLDEN]), tmp_path / "new" / "app")
    assert (tmp_path / "new" / "app" / MARK).exists()
    # two levels are a path that was misspelled
    with pytest.raises(OutputError, match="could not be written"):
        check_target(tmp_path / "no" / "such" / "app", overwrite=False)


class StopsLater(NullReporter):
    """Cancels after a number of looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def emit(self, event: Event) -> None:
        """Nothing is told."""

    def check_cancelled(self) -> None:
        """Cancelled in the end."""
        self.looks -= 1
        if self.looks < 0:
            raise JobCancelledError("stopped")


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_cancel_leaves_nothing(tmp_path: Path, looks: int) -> None:
    files: dict[str, bytes | Path] = {"a/b": b"1", "c": b"2"}
    with pytest.raises(JobCancelledError):
        write_folder(tmp_path / "app", files, frozenset(), StopsLater(looks), overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_cancel_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "app"
    write_folder(path, {"a": b"1"}, frozenset(), NullReporter(), overwrite=False)
    with pytest.raises(JobCancelledError):
        write_folder(path, {"a": b"2"}, frozenset(), StopsLater(1), overwrite=True)
    assert (path / "a").read_bytes() == b"1"
    assert [each.name for each in tmp_path.iterdir()] == ["app"]
    assert json.loads((path / MARK).read_text())["files"] == ["a", MARK]
