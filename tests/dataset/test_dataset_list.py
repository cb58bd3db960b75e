"""The list of a dataset: the vendor's form, errors with line and file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.base.errors import DatasetError
from engine.dataset import (
    Preprocess,
    dataset_digest,
    dataset_from_paths,
    read_dataset,
    samples,
)
from engine.graph.ir import TensorSpec
from tests.dataset.build import RGB, picture


def test_list_of_the_vendor(tmp_path: Path) -> None:
    path = tmp_path / "dataset.txt"
    path.write_bytes(b"\xef\xbb\xbfa.jpg sub/b.npy\r\n\r\n   \n/abs/c.jpg\td.npy")
    dataset = read_dataset(path)
    assert dataset.entries == (
        (tmp_path / "a.jpg", tmp_path / "sub/b.npy"),
        (Path("/abs/c.jpg"), tmp_path / "d.npy"),
    )
    assert dataset.lines == (1, 4)
    assert dataset.where(1) == "dataset.txt line 4"
    assert len(dataset.first(1)) == 1


def test_names_that_are_no_utf8_survive(tmp_path: Path) -> None:
    name = b"p\xff.png"
    picture(tmp_path / "p.png")
    (tmp_path / "p.png").rename(tmp_path / name.decode("utf-8", "surrogateescape"))
    (tmp_path / "d.txt").write_bytes(name)
    stream = samples(read_dataset(tmp_path / "d.txt"), [RGB], Preprocess())
    assert len(list(stream)) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "no samples"), (b"\n \n", "no samples"), (b"a\0b", "not a text file")],
)
def test_lists_that_are_none(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "d.txt"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=says) as caught:
        read_dataset(path)
    assert caught.value.remedy


def test_missing_list_and_picture_given_as_list(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="does not exist"):
        read_dataset(tmp_path / "none.txt")
    picture(tmp_path / "a.png")
    with pytest.raises(DatasetError, match="not a text file"):
        read_dataset(tmp_path / "a.png")


def test_wrong_number_of_files_is_told_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "d.txt"
    path.write_text("a.jpg b.jpg\n\nmy cat.jpg c.jpg\n", encoding="utf-8")
    two = [RGB, TensorSpec("other", (1, 3, 6, 8), "float32")]
    with pytest.raises(DatasetError) as caught:
        samples(read_dataset(path), two, Preprocess())
    assert "d.txt line 3 has 3 files" in caught.value.what
    assert "image, other" in caught.value.what
    assert "spaces" in caught.value.cause
    with pytest.raises(DatasetError, match=r"d\.txt line 1 has 2 files"):
        samples(read_dataset(path), [RGB], Preprocess())


def test_missing_file_names_line_and_file(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "d.txt").write_text("a.png\nnone.png\n", encoding="utf-8")
    stream = samples(read_dataset(tmp_path / "d.txt"), [RGB], Preprocess())
    next(stream)
    with pytest.raises(DatasetError) as caught:
        next(stream)
    assert caught.value.what.startswith("d.txt line 2: ")
    assert "none.png does not exist" in caught.value.what
    assert caught.value.cause
    assert caught.value.remedy


def test_names_from_a_list_are_made_safe_for_a_screen(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_bytes(b"\x1b[31m\xffred.png\n")
    with pytest.raises(DatasetError, match=r"\[31m\ufffdred\.png does not exist") as caught:
        next(samples(read_dataset(tmp_path / "d.txt"), [RGB], Preprocess()))
    assert "\x1b" not in str(caught.value)
    str(caught.value).encode("utf-8")


def test_digest_is_of_contents_in_order(tmp_path: Path) -> None:
    for name, seed in (("a.png", 1), ("b.png", 2)):
        picture(tmp_path / name, seed=seed)
    (tmp_path / "c.png").write_bytes((tmp_path / "a.png").read_bytes())
    a, b, c = (tmp_path / n for n in ("a.png", "b.png", "c.png"))
    digest = dataset_digest(dataset_from_paths([a, b], 1))
    assert digest == dataset_digest(dataset_from_paths([c, b], 1))
    assert digest != dataset_digest(dataset_from_paths([b, a], 1))
    assert digest != dataset_digest(dataset_from_paths([a, b], 2))
    with pytest.raises(DatasetError, match="sample 2"):
        dataset_digest(dataset_from_paths([a, tmp_path / "none"], 1))


def test_devices_and_pipes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "d.txt").write_text("/dev/zero\npipe.png\n")
    for path in (Path("/dev/zero"), tmp_path / "pipe.png"):
        with pytest.raises(DatasetError, match="device, pipe or socket"):
            read_dataset(path)
        with pytest.raises(DatasetError, match=r"sample 1: .*device, pipe or socket"):
            dataset_digest(dataset_from_paths([path], 1))
        with pytest.raises(DatasetError, match="device, pipe or socket"):
            list(samples(dataset_from_paths([path], 1), [RGB], Preprocess()))
    with pytest.raises(DatasetError, match="line 1"):
        dataset_digest(read_dataset(tmp_path / "d.txt"))
