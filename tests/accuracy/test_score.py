"""Top-1 of two models over labelled samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from engine.accuracy.score import read_labelled, top1
from engine.base.errors import DatasetError
from engine.base.events import NullReporter
from engine.dataset import InputPlan, Preprocess
from engine.graph.ir import TensorSpec


def plan() -> InputPlan:
    return Preprocess().plans([TensorSpec("x", (1, 1, 1, 2), "float32")])[0]


def write(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def first_is_larger(feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    return feeds["x"].ravel()


def always_zero(feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.array([1.0, 0.0])


def test_counts(tmp_path: Path) -> None:
    pixels = np.array([[[9, 1]], [[1, 9]], [[0, 5]], [[7, 2]]], dtype=np.uint8)
    path = write(tmp_path / "s.npz", samples=pixels, labels=np.array([0, 1, 0, 1]))
    score = top1(first_is_larger, always_zero, read_labelled(path), plan(), NullReporter())
    # float answers 0 1 1 0, simulated 0 0 0 0, labels 0 1 0 1
    assert score.to_json() == {
        "samples": 4,
        "float_top1": 0.5,
        "simulated_top1": 0.5,
        "agreement": 0.5,
    }


@pytest.mark.parametrize(
    ("arrays", "word"),
    [
        ({"samples": np.zeros((1, 1, 2), np.uint8)}, "no array"),
        ({"samples": np.zeros((1, 1, 2), np.uint8), "labels": np.zeros(2, int)}, "labels"),
        ({"samples": np.zeros((1, 1, 2), np.float32), "labels": np.zeros(1, int)}, "float32"),
        ({"samples": np.zeros((0, 1, 2), np.uint8), "labels": np.zeros(0, int)}, r"\(0,"),
        ({"samples": np.array([{}]), "labels": np.zeros(1, int)}, "not a readable npz"),
    ],
)
def test_unfit_files_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], word: str) -> None:
    with pytest.raises(DatasetError, match=word):
        read_labelled(write(tmp_path / "s.npz", **arrays))


def test_missing_and_damaged_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not a readable npz"):
        read_labelled(tmp_path / "none.npz")
    path = write(tmp_path / "s.npz", samples=np.zeros((1, 1, 2), np.uint8), labels=np.zeros(1, int))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DatasetError, match="not a readable npz"):
        read_labelled(path)


def test_samples_of_another_size_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "s.npz", samples=np.zeros((1, 4, 4), np.uint8), labels=np.zeros(1, int))
    with pytest.raises(DatasetError, match="takes"):
        top1(always_zero, always_zero, read_labelled(path), plan(), NullReporter())
