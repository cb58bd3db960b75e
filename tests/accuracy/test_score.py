"""Scores over labelled samples: counts by hand, intervals from tables, the user's functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.accuracy import TopK, evaluate_labelled, metric_of, read_labelled
from engine.accuracy.score import mean_interval, paired_interval, share_interval
from engine.base.errors import DatasetError, JobCancelledError, UsageError
from engine.base.events import CallbackReporter
from engine.dataset import Preprocess
from engine.graph.ir import TensorSpec
from engine.wire.codec import encode

INPUTS = (TensorSpec("x", (1, 1, 1, 2), "float32"),)


def write(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def first_is_larger(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": feeds["x"].ravel()}


def always_zero(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": np.array([1.0, 0.0])}


def four(tmp_path: Path) -> Path:
    pixels = np.array([[[9, 1]], [[1, 9]], [[0, 5]], [[7, 2]]], dtype=np.uint8)
    return write(tmp_path / "s.npz", samples=pixels, labels=np.array([0, 1, 0, 1]))


def run(path: Path, metric: Any) -> dict[str, Any]:
    labelled = read_labelled(path)
    result = evaluate_labelled(first_is_larger, always_zero, labelled, INPUTS, Preprocess(), metric)
    return encode(result)


# ------------------------------------------------------------------------------------------ top-k


def test_counts(tmp_path: Path) -> None:
    data = run(four(tmp_path), TopK("y", (2,)))
    # float answers 0 1 1 0, simulated 0 0 0 0, labels 0 1 0 1
    one, two = data["scores"]
    assert (one["name"], one["float"], one["simulated"], one["difference"]) == (
        "top-1",
        0.5,
        0.5,
        0.0,
    )
    assert (two["name"], two["float"], two["simulated"]) == ("top-2", 1.0, 1.0)
    assert data["samples"] == 4
    assert data["agreement"] == 0.5
    assert one["difference_interval"][0] < 0 < one["difference_interval"][1]


@given(st.lists(st.integers(0, 5), min_size=6, max_size=6), st.integers(0, 5), st.integers(1, 6))
def test_top_k_is_that_of_a_stable_sort(scores: list[int], label: int, k: int) -> None:
    metric = TopK("y", (k,))
    outputs = {"y": np.array(scores, np.float32)}
    metric.add(outputs, outputs, label, {})
    found = {score.name: score.golden for score in metric.result(1).scores}
    best = np.argsort(-outputs["y"], kind="stable")[:k]
    assert found[f"top-{k}"] == float(label in best)


def test_a_score_that_is_no_number_is_nobodys_answer() -> None:
    metric = TopK("y")
    metric.add({"y": np.array([np.nan, 1.0])}, {"y": np.array([np.nan, 1.0])}, 1, {})
    assert metric.result(1).scores[0].golden == 1.0


@pytest.mark.parametrize(("label", "offset"), [(2, 0), (-1, 0), (1, 1), ("cat", 0)])
def test_labels_that_are_no_class_are_refused(label: int | str, offset: int) -> None:
    with pytest.raises(DatasetError, match="none of the 2 classes"):
        TopK("y", (), offset).add({"y": np.zeros(2)}, {"y": np.zeros(2)}, label, {})


def test_cancel(tmp_path: Path) -> None:
    reporter = CallbackReporter(lambda _: None, lambda: True)
    with pytest.raises(JobCancelledError):
        evaluate_labelled(
            first_is_larger,
            always_zero,
            read_labelled(four(tmp_path)),
            INPUTS,
            Preprocess(),
            TopK("y"),
            reporter,
        )


# -------------------------------------------------------------------------------------- intervals


def test_share_interval_is_wilsons() -> None:
    """R. G. Newcombe, Two-sided confidence intervals for the single proportion (1998), table I."""
    for right, samples, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert share_interval(right, samples) == pytest.approx((low, high), abs=5e-5)
    assert share_interval(0, 0) == (0.0, 1.0)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(1, 40))
def test_paired_interval_holds_the_difference(a: int, b: int, c: int, d: int) -> None:
    samples = a + b + c + d
    low, high = paired_interval(b, c, samples)
    assert -1 <= low < high <= 1
    assert low <= (c - b) / (samples + 2) <= high
    mirrored = paired_interval(c, b, samples)
    assert mirrored == pytest.approx((-high, -low))


def test_paired_interval_is_the_published_one() -> None:
    """A. Agresti, Categorical Data Analysis (2002), 10.1.1: 1,600 answers, 150 and 86 changed.

    Without the half samples, which move it by less than 0.0002: -0.04 +- 1.96 x 0.0095.
    """
    assert paired_interval(150, 86, 1600) == pytest.approx((-0.0586, -0.0214), abs=4e-4)


def test_mean_interval_is_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(3, 2, 50)
    low, high = mean_interval(values.sum(), np.square(values).sum(), 50) or (0, 0)
    half = 1.959964 * values.std(ddof=1) / np.sqrt(50)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half))
    assert mean_interval(1.0, 1.0, 1) is None


# ------------------------------------------------------------------------- functions of the user's


def test_a_function_is_averaged_over_samples(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def score(outputs: Any, label: Any, sample: Any) -> dict[str, float]:
        seen.append(sample)
        return {"margin": float(outputs["y"][0] - outputs["y"][1]), "label": label}

    data = run(four(tmp_path), metric_of(score, "score.py:score"))
    margin, label = data["scores"]
    assert margin["float"] == pytest.approx((8 - 8 - 5 + 5) / 4)
    assert margin["simulated"] == 1.0
    assert label["difference"] == 0
    assert data["agreement"] is None
    assert len(seen) == 8
    assert set(seen[0]) == {"index", "paths", "inputs"}


def test_a_class_sees_the_whole_set(tmp_path: Path) -> None:
    class Largest:
        def __init__(self) -> None:
            self.best = 0.0

        def update(self, outputs: Any, label: Any, sample: Any) -> None:
            self.best = max(self.best, float(outputs["y"].max()))

        def result(self) -> float:
            return self.best

    (row,) = run(four(tmp_path), metric_of(Largest, "score.py:Largest"))["scores"]
    assert (row["name"], row["float"], row["simulated"]) == ("score", 9.0, 1.0)
    assert row["float_interval"] is row["difference_interval"] is None


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda o, label, s: "good", "gave 'good'"),
        (lambda o, label, s: float("nan"), "gave nan"),
        (lambda o, label, s: {}, "gave {}"),
        (lambda o, label, s: "0.5", "gave '0.5'"),
        (lambda o, label, s: 10**400, "gave 1000"),
        (lambda o, label, s: 1 / 0, "ZeroDivisionError"),
        (lambda o, label, s: exit(3), "SystemExit"),
    ],
)
def test_faults_of_a_function_are_the_users(tmp_path: Path, function: Any, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        run(four(tmp_path), metric_of(function, "score.py:score"))


def test_what_is_no_scoring_function() -> None:
    for found in (3, object, int):
        with pytest.raises(UsageError, match="not a scoring function"):
            metric_of(found, "score.py:Name")


# --------------------------------------------------------------------------------------- labelled


def picture(path: Path, *pixels: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.array([pixels], np.uint8)).save(path)


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    picture(tmp_path / "cat" / "b.png", 9, 1)
    picture(tmp_path / "cat" / "a.png", 1, 9)
    picture(tmp_path / "ant" / "c.png", 7, 2)
    (tmp_path / "cat" / "notes.txt").write_text("no sample")
    (tmp_path / ".hidden").mkdir()
    labelled = read_labelled(tmp_path)
    assert labelled.classes == ("ant", "cat")
    assert list(labelled.labels) == [0, 1, 1]
    assert [Path(labelled.paths(i)[0]).name for i in range(3)] == ["c.png", "a.png", "b.png"]
    data = run(tmp_path, TopK("y"))
    assert data["scores"][0]["float"] == pytest.approx(2 / 3)


def test_folders_named_by_numbers_are_those_classes(tmp_path: Path) -> None:
    picture(tmp_path / "1" / "a.png", 1, 9)
    picture(tmp_path / "0" / "a.png", 9, 1)
    labelled = read_labelled(tmp_path)
    assert list(labelled.labels) == [0, 1]
    assert labelled.classes == ()


def test_a_list_with_labels(tmp_path: Path) -> None:
    picture(tmp_path / "in" / "a.png", 1, 9)
    path = tmp_path / "labels.txt"
    path.write_text("in/a.png 1\n\nin/a.png 0\n")
    assert list(read_labelled(path).labels) == [1, 0]
    assert run(path, TopK("y"))["scores"][0]["float"] == 0.5
    path.write_text("in/a.png boxes/a.txt\n")
    assert list(read_labelled(path).labels) == ["boxes/a.txt"]
    with pytest.raises(DatasetError, match=r"labels.txt line 1: The label boxes/a.txt is none"):
        run(path, TopK("y"))
    path.write_text("in/a.png 1\nin/none.png 1\n")
    with pytest.raises(DatasetError, match="line 2"):
        run(path, TopK("y"))
    path.write_text("in/a.png\n")
    with pytest.raises(DatasetError, match="line 1 has no label"):
        read_labelled(path)


def test_arrays_of_the_zoos_names(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.npz",
        x_train=np.zeros((1, 1, 2), np.uint8),
        x_test=np.zeros((2, 1, 2), np.uint8),
        y_test=np.array([1, 0]),
    )
    assert list(read_labelled(path).labels) == [1, 0]


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
    with pytest.raises(DatasetError, match="does not exist"):
        read_labelled(tmp_path / "none.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="no samples in folders"):
        read_labelled(tmp_path / "empty")


def test_samples_of_another_size_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "s.npz", samples=np.zeros((1, 4, 4), np.uint8), labels=np.zeros(1, int))
    with pytest.raises(DatasetError, match="takes"):
        run(path, TopK("y"))
