"""Datasets from folders, checks before a build, and the preview."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine import samples_beside
from engine.base.errors import DatasetError, OutputExistsError, UsageError
from engine.base.events import NullReporter
from engine.dataset import (
    Preprocess,
    check,
    dataset_digest,
    dataset_from_paths,
    make_dataset,
    preview,
    read_dataset,
    samples,
)
from engine.graph.ir import TensorSpec
from engine.services.build import build
from rknntui.demo import demo_folder, demo_recipe

RGB = TensorSpec("image", (1, 3, 6, 8), "float32")


def picture(path: Path, width: int = 8, height: int = 6, value: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (value, value // 2, 0)).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for index in range(6):
        picture(root / f"p{index}.png", value=index)
    picture(root / "sub/deep/q.JPG")
    picture(root / ".hidden/h.png")
    picture(root / ".dot.png")
    (root / "notes.txt").write_text("no picture", encoding="utf-8")
    (root / "bad.jpg").write_bytes(b"no picture")
    whole = picture(tmp_path / "whole.jpg", 200, 200).read_bytes()
    (root / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "loop").symlink_to(root)
    return root


def test_make_writes_a_list_that_can_be_read_and_moved(folder: Path, tmp_path: Path) -> None:
    made = make_dataset(folder, tmp_path / "lists.txt")
    lines = (tmp_path / "lists.txt").read_text().splitlines()
    assert lines == [f"pictures/p{i}.png" for i in range(6)] + ["pictures/sub/deep/q.JPG"]
    assert {(p.name, bool(why)) for p, why in made.dataset.skipped} == {
        ("bad.jpg", True),
        ("cut.jpg", True),
    }
    assert made.found == 9
    assert read_dataset(tmp_path / "lists.txt").entries == made.dataset.entries
    assert len(list(samples(made.dataset, [RGB], Preprocess()))) == 7
    moved = tmp_path / "moved"
    moved.mkdir()
    folder.rename(moved / "pictures")
    (tmp_path / "lists.txt").rename(moved / "lists.txt")
    assert len(list(samples(read_dataset(moved / "lists.txt"), [RGB], Preprocess()))) == 7


def test_list_elsewhere_goes_up_and_down(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "a/b"
    other.mkdir(parents=True)
    (tmp_path / "link").symlink_to(other)
    make_dataset(folder, tmp_path / "link/d.txt", count=2)
    assert (other / "d.txt").read_text().startswith("../../pictures/")
    assert len(list(samples(read_dataset(tmp_path / "link/d.txt"), [RGB], Preprocess()))) == 2


def test_choice_depends_on_names_and_seed_only(folder: Path, tmp_path: Path) -> None:
    first = make_dataset(folder, tmp_path / "1.txt", count=3, seed=1)
    again = make_dataset(folder, tmp_path / "2.txt", count=3, seed=1)
    other = make_dataset(folder, tmp_path / "3.txt", count=3, seed=2)
    assert (tmp_path / "1.txt").read_bytes() == (tmp_path / "2.txt").read_bytes()
    assert first.dataset.entries == again.dataset.entries != other.dataset.entries
    names = sorted(["bad.jpg", "cut.jpg", *(f"p{i}.png" for i in range(6)), "sub/deep/q.JPG"])
    random.Random(1).shuffle(names)
    wanted = sorted([n for n in names if n not in ("bad.jpg", "cut.jpg")][:3])
    assert (tmp_path / "1.txt").read_text().splitlines() == [f"pictures/{n}" for n in wanted]
    in_memory = read_dataset(folder, count=3, seed=1)
    assert [p[0].relative_to(folder).as_posix() for p in in_memory.entries] == wanted
    assert in_memory.where(0) == "sample 1"


def test_a_folder_takes_names_that_a_list_cannot_hold(folder: Path, tmp_path: Path) -> None:
    for name in ("my cat.png", "two\nlines.png", "一 二.png"):
        picture(folder / name)
    taken = {entry[0].name for entry in read_dataset(folder).entries}
    assert {"my cat.png", "two\nlines.png", "一 二.png"} <= taken
    dataset = read_dataset(folder)
    assert len(dataset_digest(dataset)) == 64
    made = make_dataset(folder, tmp_path / "d.txt")
    listed = {entry[0].name for entry in read_dataset(tmp_path / "d.txt").entries}
    assert listed == taken - {"my cat.png", "two\nlines.png", "一 二.png"}
    left = {path.name: why for path, why in made.dataset.skipped}
    assert "space" in left["my cat.png"]


def test_spaces_above_the_pictures_are_no_matter_where_the_list_is_beside_them(
    tmp_path: Path,
) -> None:
    root = tmp_path / "my pictures"
    picture(root / "a.png")
    with pytest.raises(DatasetError, match="spaces") as caught:
        make_dataset(root, tmp_path / "d.txt")
    assert "folder itself" in caught.value.remedy
    assert not (tmp_path / "d.txt").exists()
    make_dataset(root, root / "d.txt")
    assert len(read_dataset(root / "d.txt")) == 1
    assert len(read_dataset(root)) == 1


def test_a_build_over_a_folder_with_spaces_in_its_names(tmp_path: Path) -> None:
    """From the folder to the container, as `use the folder as it is` does it."""
    folder = tmp_path / "my pictures"
    folder.mkdir()
    for path in sorted((demo_folder() / "calibration").glob("*.png"))[:4]:
        shutil.copy(path, folder / f"picture {path.name}")
    recipe = {**demo_recipe(), "dataset": str(folder)}
    summary = build({"recipe": recipe}, NullReporter())
    assert summary["quantized"]
    assert summary["samples"] == 4


def test_folders_that_give_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DatasetError, match="no readable image"):
        read_dataset(empty)
    (empty / "a.jpg").write_bytes(b"x")
    with pytest.raises(DatasetError) as caught:
        make_dataset(empty, tmp_path / "d.txt")
    assert "a.jpg" in caught.value.cause
    with pytest.raises(DatasetError, match="not a folder"):
        make_dataset(tmp_path / "none", tmp_path / "d.txt")
    with pytest.raises(UsageError):
        make_dataset(empty, tmp_path / "d.txt", count=0)


def test_an_existing_list_is_kept(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "d.txt"
    out.write_text("mine", encoding="utf-8")
    with pytest.raises(OutputExistsError):
        make_dataset(folder, out)
    assert out.read_text() == "mine"
    make_dataset(folder, out, force=True)
    assert out.read_text() != "mine"


# ----------------------------------------------------------------------------------------- check


@pytest.mark.parametrize("decode", [False, True])
def test_check_tells_everything_at_once(tmp_path: Path, decode: bool) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "b.png", 20, 10)
    np.save(tmp_path / "c.npy", np.zeros((6, 8, 3), np.float32))
    np.save(tmp_path / "d.npy", np.zeros((5, 8, 3), np.float32))
    lines = ["a.png", "b.png", "c.npy", "", "none.png", "d.npy", "a.png b.png", "a.png"]
    (tmp_path / "d.txt").write_text("\n".join(lines), encoding="utf-8")
    facts = check(read_dataset(tmp_path / "d.txt"), [RGB], Preprocess(), decode=decode)
    assert (facts.samples, facts.files, facts.pictures, facts.arrays) == (7, 8, 3, 1)
    assert facts.sizes[0] == ("8x6", 2)
    assert [(p.line, Path(p.file).name) for p in facts.problems] == [
        (5, "none.png"),
        (6, "d.npy"),
        (7, ""),
    ]
    assert all(p.what and p.remedy for p in facts.problems)
    assert {f.code for f in facts.findings} == {
        "pictures-resized",
        "mean-std-unset",
        "samples-repeated",
        # the sanity of what was looked at
        "npy-constant",
        "pictures-stretched",
        "samples-few",
    }
    assert facts.problems[0].line == 5


def test_damage_inside_a_picture_needs_decoding(tmp_path: Path) -> None:
    whole = picture(tmp_path / "a.png", 300, 300).read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    dataset = dataset_from_paths([tmp_path / "a.png"], 1)
    assert check(dataset, [RGB], Preprocess()).problems == ()
    assert len(check(dataset, [RGB], Preprocess(), decode=True).problems) == 1


def test_findings_that_depend_on_the_options(tmp_path: Path) -> None:
    image = Image.new("RGB", (8, 6))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif)
    dataset = dataset_from_paths([tmp_path / "turned.jpg"], 1)
    set_ = Preprocess(mean=((127.0,),), std=((128.0,),))
    doubts = ["only-one-sample", "pictures-constant"]
    codes = [f.code for f in check(dataset, [RGB], set_).findings]
    assert codes == ["orientation-ignored", *doubts]
    bytes_ = TensorSpec("image", (2, 3, 6, 8), "uint8")
    codes = [f.code for f in check(dataset, [bytes_], Preprocess()).findings]
    assert codes == ["orientation-ignored", "batch-repeated", *doubts]


# --------------------------------------------------------------------------------------- preview


def test_preview_shows_what_the_network_sees(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", value=200)
    preprocess = Preprocess(mean=((127.0,),), std=((128.0,),), rgb2bgr=True)
    shown = preview(
        dataset_from_paths([tmp_path / "a.png"], 1), [RGB], preprocess, 0, columns=4, rows=4
    )
    assert shown.shape == (1, 3, 6, 8)
    assert shown.thumbnail == ("c86400" * 4,) * 3
    blue, green, red = shown.channels
    assert red.mean == pytest.approx((200 - 127) / 128)
    assert green.maximum == pytest.approx((100 - 127) / 128)
    assert blue.minimum == pytest.approx(-127 / 128)
    assert blue.expected == pytest.approx([-127 / 128, 1])
    assert blue.fits
    assert not replace(blue, minimum=-1.5).fits
    assert not replace(blue, maximum=None).fits, "no number is in no range"


def test_preview_of_other_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.arange(4, dtype=np.float32))
    spec = TensorSpec("v", (1, 4), "float32")
    dataset = dataset_from_paths([tmp_path / "v.npy"], 1)
    shown = preview(dataset, [spec], Preprocess(), 0)
    assert shown.thumbnail == ()
    (channel,) = shown.channels
    assert (channel.maximum, channel.expected, channel.fits) == (3, None, True)
    for index, input_index in ((1, 0), (-1, 0), (0, 1)):
        with pytest.raises(UsageError):
            preview(dataset, [spec], Preprocess(), index, input_index=input_index)
    (tmp_path / "v.npy").unlink()
    with pytest.raises(DatasetError, match="sample 1"):
        preview(dataset, [spec], Preprocess(), 0)
    grey = TensorSpec("g", (1, 1, 6, 8), "float32")
    picture(tmp_path / "g.png")
    shown = preview(dataset_from_paths([tmp_path / "g.png"], 1), [grey], Preprocess(), 0, rows=1)
    assert len(shown.thumbnail) == 1


def test_samples_beside_a_model(tmp_path: Path) -> None:
    model = tmp_path / "models" / "net.onnx"
    model.parent.mkdir()
    assert samples_beside(model) == ""
    photos = tmp_path / "photos"
    for folder in (photos, tmp_path / ".hidden", tmp_path / "empty"):
        folder.mkdir()
    (tmp_path / ".hidden" / "a.png").touch()
    (photos / "a.JPG").touch()
    assert samples_beside(str(model)) == str(photos)
    (model.parent / "dataset.txt").touch()
    assert samples_beside(model) == str(model.parent / "dataset.txt")
    assert samples_beside(tmp_path / "no folder" / "net.onnx") == str(photos)
