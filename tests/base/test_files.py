"""Writing leaves the old file or the new one, never half of either."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from engine.base.errors import OutputError, OutputExistsError, SourceModelError
from engine.base.files import atomic_write, atomic_write_all, read_bounded, sha256_of
from tests.safety import small_disk


def test_writes_and_says_the_size(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    assert atomic_write(path, b"12345") == 5
    assert path.read_bytes() == b"12345"
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_file_is_kept_unless_overwriting_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(OutputExistsError) as caught:
        atomic_write(path, b"new")
    assert "exists" in caught.value.what
    assert path.read_bytes() == b"old"
    atomic_write(path, b"new", overwrite=True)
    assert path.read_bytes() == b"new"


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def writer(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        atomic_write(tmp_path / "a.bin", writer)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "what", "cause", "remedy"),
    [
        ("no/a.bin", "No such file", "does not exist", "/no"),
        ("", "Is a directory", "folder", ""),
        ("taken/a.bin", "Not a directory", "A part of the path is a file, not a folder.", ""),
    ],
)
def test_a_place_where_it_cannot_be_is_told(
    tmp_path: Path, place: str, what: str, cause: str, remedy: str
) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(OutputError, match=what) as caught:
        atomic_write(tmp_path / place, b"", overwrite=True)
    assert cause in caught.value.cause
    assert remedy in caught.value.remedy
    if place.startswith("taken"):
        assert "Make" not in caught.value.remedy  # its name is taken: it cannot be made


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "64k") as place:
        yield place


def test_full_disk(small: Path) -> None:
    path = small / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(OutputError) as caught:
        atomic_write(path, bytes(200_000), overwrite=True)
    assert "full" in caught.value.cause
    assert path.read_bytes() == b"old"
    assert list(small.iterdir()) == [path]


def test_files_that_belong_together_are_written_all_or_none(small: Path) -> None:
    first, second = small / "a.bin", small / "b.bin"
    with pytest.raises(OutputError, match=r"b\.bin"):
        atomic_write_all([(first, b"new"), (second, bytes(200_000))])
    assert list(small.iterdir()) == []
    first.write_bytes(b"old")
    with pytest.raises(OutputError, match=r"b\.bin"):
        atomic_write_all([(first, b"new"), (second, bytes(200_000))], overwrite=True)
    assert list(small.iterdir()) == [first]
    assert first.read_bytes() == b"old"
    sizes = atomic_write_all([(first, b"new"), (second, b"two")], overwrite=True)
    assert (sizes, first.read_bytes(), second.read_bytes()) == ([3, 3], b"new", b"two")
    assert sorted(small.iterdir()) == [first, second]


def test_read_only_disk(small: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    with pytest.raises(OutputError) as caught:
        atomic_write(small / "a.bin", b"1")
    assert "read-only" in caught.value.cause


def test_reading_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5, "a test file") == b"12345"
    with pytest.raises(SourceModelError, match="read up to 4"):
        read_bounded(path, 4, "a test file")
    with pytest.raises(SourceModelError, match="does not exist"):
        read_bounded(tmp_path / "b.bin", 4, "a test file")
    with pytest.raises(SourceModelError, match="directory"):
        read_bounded(tmp_path, 1 << 20, "a test file")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(SourceModelError, match="pipe or a device"):
            read_bounded(path, 1 << 30, "a test file")


def test_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256_of(path) == empty
