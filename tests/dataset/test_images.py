"""The cache of decoded pictures: what it keeps, what it forgets, and that it changes nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import DatasetError
from engine.dataset import InputPlan, Preprocess, dataset_from_paths, samples
from engine.dataset.samples import ImageCache
from engine.graph.ir import TensorSpec
from tests.dataset.build import RGB, picture

pictures = sys.modules["engine.dataset.samples"]  # the package has a function of that name
PIXEL_BYTES = 6 * 8 * 3
(PLAN,) = Preprocess().plans([RGB])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were decoded, in order; files count as settled at once."""
    found: list[str] = []
    plain = pictures.to_rgb_or_gray

    def noted(path: Path, *more: Any) -> Any:
        found.append(path.name)
        return plain(path, *more)

    monkeypatch.setattr(pictures, "to_rgb_or_gray", noted)
    monkeypatch.setattr(pictures, "_SETTLED_NS", -1)
    return found


def files(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"{index}.png" for index in range(count)]
    for seed, path in enumerate(paths):
        picture(path, 20, 11, seed=seed)
    return paths


def read(cache: ImageCache, paths: list[Path], plan: InputPlan = PLAN) -> list[np.ndarray]:
    cache.begin_round()
    return [cache.get(path, plan).pixels for path in paths]


def test_a_second_reading_decodes_nothing(tmp_path: Path, decoded: list[str]) -> None:
    paths = files(tmp_path, 3)
    cache = ImageCache()
    first, second = read(cache, paths), read(cache, paths)
    assert decoded == ["0.png", "1.png", "2.png"]
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)
        assert one.shape == (6, 8, 3)
        assert one.dtype == np.uint8
        with pytest.raises(ValueError, match="read-only"):
            other[0] = 0


def test_more_samples_than_fit_are_not_all_decoded_again(
    tmp_path: Path, decoded: list[str]
) -> None:
    paths = files(tmp_path, 4)
    cache = ImageCache(3 * PIXEL_BYTES)
    read(cache, paths)
    for _ in range(2):
        decoded.clear()
        read(cache, paths)
        assert decoded == ["3.png"]
    read(cache, paths[3:])  # a round of others drops what was used longest ago
    decoded.clear()
    read(cache, paths[1:])
    assert decoded == []
    read(cache, paths[:1])
    assert decoded == ["0.png"]


def test_without_budget_nothing_is_kept(tmp_path: Path, decoded: list[str]) -> None:
    paths = files(tmp_path, 1)
    cache = ImageCache(0)
    read(cache, paths)
    read(cache, paths)
    assert len(decoded) == 2


def test_small_machines_keep_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "machine_bytes", lambda: 1 << 30)
    assert ImageCache()._limit == 1 << 24
    monkeypatch.setattr(pictures, "machine_bytes", lambda: 1 << 40)
    assert ImageCache()._limit == 128_000_000


def test_another_size_or_filter_is_another_picture(tmp_path: Path, decoded: list[str]) -> None:
    paths = files(tmp_path, 1)
    cache = ImageCache()
    (grey,) = Preprocess().plans([TensorSpec("image", (1, 1, 6, 8), "float32")])
    (small,) = Preprocess().plans([TensorSpec("image", (1, 3, 3, 4), "float32")])
    (box,) = Preprocess(resize_filter="box").plans([RGB])
    (crop,) = Preprocess(resize_fit="crop").plans([RGB])
    for _ in range(2):
        for plan in (PLAN, grey, small, box, crop):
            (pixels,) = read(cache, paths, plan)
            assert pixels.shape == (plan.height, plan.width, plan.channels)
    assert len(decoded) == 5


def test_a_changed_file_is_decoded_anew(tmp_path: Path, decoded: list[str]) -> None:
    (path,) = files(tmp_path, 1)
    cache = ImageCache()
    (before,) = read(cache, [path])
    times = path.stat()
    picture(tmp_path / "new.png", 20, 11, seed=9)
    (tmp_path / "new.png").replace(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    (after,) = read(cache, [path])
    assert not np.array_equal(before, after)
    path.unlink()
    with pytest.raises(DatasetError, match="cannot be decoded"):
        read(cache, [path])


def test_a_file_that_was_just_written_is_not_kept(
    tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = files(tmp_path, 1)
    monkeypatch.setattr(pictures, "_SETTLED_NS", 10**15)
    cache = ImageCache()
    read(cache, paths)
    read(cache, paths)
    assert len(decoded) == 2


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_streams_give_the_same_with_and_without(
    tmp_path: Path, decoded: list[str], fit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs in mean, std and swap shares pixels."""
    dataset = dataset_from_paths(files(tmp_path, 2), 1)
    ways = [
        Preprocess(resize_fit=fit),
        Preprocess(mean=((1.0, 2.0, 3.0),), std=((2.0,),), resize_fit=fit),
        Preprocess(rgb2bgr=True, resize_fit=fit),
    ]

    def values(limit: int) -> list[np.ndarray]:
        monkeypatch.setattr(pictures, "IMAGES", ImageCache(limit))
        return [sample["image"] for way in ways for sample in samples(dataset, [RGB], way)]

    plain = values(0)
    assert len(decoded) == 6
    decoded.clear()
    kept = values(10**6)
    assert len(decoded) == 2
    for one, other in zip(plain, kept, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
