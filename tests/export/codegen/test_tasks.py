"""What a task makes of a model's outputs: the heads that it finds, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import DatasetError, UsageError
from engine.export.codegen.project import Array, Board
from engine.export.codegen.tasks import TaskPlan, plan_task
from engine.wire.codegen import ModelTask, TaskDetails
from tests.export.codegen.projects import project_of

LARGE = (1, 640, 640, 3)


def plan(
    task: ModelTask,
    *shapes: tuple[int, ...],
    picture: tuple[int, int, int, int] = LARGE,
    cfg: dict[str, object] | None = None,
    **details: Any,
) -> TaskPlan:
    project = project_of([np.zeros(shape, np.float32) for shape in shapes], picture=picture)
    return plan_task(project, task, TaskDetails(**details), cfg)


def grids(channels: int) -> list[tuple[int, ...]]:
    return [(1, channels, 640 // s, 640 // s) for s in (8, 16, 32)]


def test_yolov5_heads() -> None:
    # in whatever order the outputs come
    found = plan("yolov5", *reversed(grids(255)))
    assert [(head.boxes, head.height, head.stride_x) for head in found.heads] == [
        (2, 80, 8.0),
        (1, 40, 16.0),
        (0, 20, 32.0),
    ]
    assert found.heads[0].anchors == (10, 13, 16, 30, 33, 23)
    assert found.heads[2].anchors == (116, 90, 156, 198, 373, 326)
    assert found.constants["classes"] == 80
    assert found.constants["logits"] is False


def test_yolov5_segmentation_needs_the_classes() -> None:
    shapes = [*grids(255), *grids(96), (1, 32, 160, 160)]
    with pytest.raises(UsageError, match="does not look like yolov5") as caught:
        plan("yolov5", *shapes)
    assert "--classes" in caught.value.remedy
    assert plan("yolov5", *shapes, classes=80).constants["classes"] == 80


def test_yolov8_heads_of_the_zoo() -> None:
    one = [(1, 64, 80, 80), (1, 80, 80, 80), (1, 1, 80, 80)]
    shapes = [(1, c, h // s, w // s) for s in (1, 2, 4) for _, c, h, w in one]
    found = plan("yolov8", *shapes)
    assert [(head.boxes, head.classes) for head in found.heads] == [(0, 1), (3, 4), (6, 7)]
    assert found.constants["bins"] == 16
    # classes before boxes, and the masks of a segmenting one
    found = plan("yolov8", *[(1, c, s, s) for s in (80, 40, 20) for c in (80, 64)])
    assert [(head.boxes, head.classes) for head in found.heads] == [(1, 0), (3, 2), (5, 4)]
    masks = [(1, c, s, s) for s in (80, 40, 20) for c in (64, 80, 1, 32)] + [(1, 32, 160, 160)]
    assert len(plan("yolov8", *masks, classes=80).heads) == 3
    # v6 without bins, PP-YOLOE with 17
    assert plan("yolov8", (1, 4, 80, 80), (1, 80, 80, 80)).constants["bins"] == 1
    assert plan("yolov8", (1, 68, 80, 80), (1, 80, 80, 80)).constants["bins"] == 17


def test_tables() -> None:
    assert plan("yolov8", (1, 84, 8400)).constants["form"] == "columns"
    assert plan("yolov8", (1, 8400, 84)).constants["form"] == "rows"
    found = plan("yolov5", (1, 25200, 85))
    assert found.constants["box"] == "placed"
    assert found.constants["multiply"] is True
    assert [head.first for head in plan("yolox", (1, 8400, 85)).heads] == [0, 6400, 8000]


def test_darknet_takes_the_anchors_of_its_cfg() -> None:
    cfg: dict[str, object] = {
        "anchors": {0: (1.0, 2, 3, 4), 1: (5.0, 6, 7, 8)},
        "scale": {0: 1.05, 1: 1.2},
    }
    shapes = ((1, 2 * 9, 10, 10), (1, 2 * 9, 20, 20))
    found = plan("darknet", *shapes, cfg=cfg)
    assert [(head.boxes, head.anchors, head.scale) for head in found.heads] == [
        (1, (5, 6, 7, 8), 1.2),
        (0, (1, 2, 3, 4), 1.05),
    ]
    # without a cfg those of YOLOv3, and that is said
    found = plan("darknet", (1, 27, 10, 10), (1, 27, 20, 20))
    assert found.heads[1].anchors == (116, 90, 156, 198, 373, 326)
    assert "YOLOv3" in found.findings[-1].what


def test_priors() -> None:
    found = plan("retinaface", (1, 4200, 4), (1, 4200, 2), (1, 4200, 10), picture=(1, 320, 320, 3))
    assert found.priors is None, "boxes that end where they begin are placed"
    boxes = np.random.default_rng(0).normal(size=(1, 4200, 4)).astype(np.float32)
    face = project_of(
        [boxes, np.zeros((1, 4200, 2), np.float32), np.zeros((1, 4200, 10), np.float32)],
        picture=(1, 320, 320, 3),
    )
    found = plan_task(face, "retinaface", TaskDetails())
    assert found.constants["landmarks"] == 2
    assert found.labels == ("background", "face")
    priors = found.priors
    assert priors is not None
    # the first place of the finest grid, its two sizes
    np.testing.assert_allclose(priors[:2], [[4 / 320, 4 / 320, s / 320, s / 320] for s in (16, 32)])
    assert len(priors) == 4200
    # one of fifty ends before it begins: they are no corners
    mixed = np.tile(np.float32([0, 0, 1, 1]), (1, 4200, 1))
    mixed[:, ::50, 2] = -1
    face = project_of([mixed, np.zeros((1, 4200, 2), np.float32)], picture=(1, 320, 320, 3))
    assert plan_task(face, "retinaface", TaskDetails()).priors is not None
    mixed[:, : 4200 - 42, 2] = 1
    assert plan_task(face, "retinaface", TaskDetails()).priors is None


def test_the_smallest_map_of_classes() -> None:
    assert plan("segmentation", (1, 5, 2, 2)).constants["classes"] == 5


def test_priors_of_a_file(tmp_path: Path) -> None:
    given = np.random.default_rng(1).random((30, 4), np.float32)
    np.save(tmp_path / "priors.npy", given)
    outputs: list[Array] = [
        np.random.default_rng(2).normal(size=(1, 30, 4)).astype(np.float32),
        np.zeros((1, 30, 21), np.float32),
    ]
    details = TaskDetails(priors=str(tmp_path / "priors.npy"))
    found = plan_task(project_of(outputs), "ssd", details)
    np.testing.assert_array_equal(found.priors, given)
    with pytest.raises(UsageError, match="does not look like ssd") as caught:
        plan_task(project_of(outputs), "ssd", TaskDetails())
    assert "1917" in caught.value.cause
    np.save(tmp_path / "priors.npy", given[:9])
    with pytest.raises(UsageError, match="the model has 30 boxes"):
        plan_task(project_of(outputs), "ssd", details)


REFUSED: list[tuple[ModelTask, tuple[tuple[int, ...], ...], str]] = [
    ("yolov5", ((1, 1000),), "A x (5 + classes)"),
    ("yolov5", ((1, 64, 80, 80),), "A x (5 + classes)"),
    ("yolov5", tuple(grids(3 * 5)), "A x (5 + classes)"),
    ("yolov8", tuple(grids(5)), "boxes (1, 4 x bins, H, W)"),
    ("yolov8", ((1, 84, 8401),), "(1, 4 + classes, N)"),
    ("yolox", ((1, 8401, 85),), "places of the grids"),
    ("ssd", ((1, 100, 4),), "scores (1, N, classes)"),
    ("retinaface", ((1, 100, 5), (1, 100, 2)), "landmarks (1, N, 10)"),
    ("ultraface", ((1, 4420, 3), (1, 4420, 4)), "scores (1, N, 2)"),
    ("classification", ((1, 3, 20, 20),), "(1, classes)"),
    ("segmentation", ((1, 1000),), "(1, classes, H, W)"),
    ("segmentation", ((1, 5, 1, 2),), "(1, classes, H, W)"),
]


@pytest.mark.parametrize(("task", "shapes", "expected"), REFUSED)
def test_refusals_name_the_shapes(
    task: ModelTask, shapes: tuple[tuple[int, ...], ...], expected: str
) -> None:
    with pytest.raises(UsageError, match="The model does not look like") as caught:
        plan(task, *shapes)
    assert expected in caught.value.cause
    assert "out0 1x" in caught.value.what
    assert caught.value.remedy


def test_scores_that_lack_their_sigmoid_are_seen() -> None:
    ranges = (0.0, 1.0, False), (-4.0, 3.0, True), (0.0, 1.2, True), (-0.005, 1.005, False)
    for low, high, logits in ranges:
        outputs = [np.linspace(low, high, 255 * s * s, dtype=np.float32) for s in (80, 40, 20)]
        shaped = [a.reshape(1, 255, s, s) for a, s in zip(outputs, (80, 40, 20), strict=True)]
        project = project_of(shaped, picture=LARGE)
        assert plan_task(project, "yolov5", TaskDetails()).constants["logits"] is logits
        given = plan_task(project, "yolov5", TaskDetails(logits=not logits))
        assert given.constants["logits"] is not logits


def test_what_is_assumed_without_golden_samples() -> None:
    project = project_of([np.zeros((1, 255, 80, 80), np.float32)], picture=LARGE, samples=False)
    (found,) = plan_task(project, "yolov5", TaskDetails()).findings
    assert "sigmoid" in found.what
    assert "--logits" in found.remedy


def test_labels(tmp_path: Path) -> None:
    labels = tmp_path / "names"
    labels.write_text("cat\n\x1b[31mdog\n\nlast\n\n", "utf-8")
    found = plan("classification", (1, 4), labels=str(labels))
    assert (found.labels[0], *found.labels[2:]) == ("cat", "", "last")
    assert not any("\x1b" in each for each in found.labels)
    with pytest.raises(UsageError, match="does not look like"):
        plan("classification", (1, 5), labels=str(labels))
    labels.write_bytes(b"\xff\xfe")
    with pytest.raises(DatasetError, match="cannot be read"):
        plan("classification", (1, 4), labels=str(labels))
    with pytest.raises(DatasetError, match="cannot be read"):
        plan("classification", (1, 4), labels=str(tmp_path / "none"))


@pytest.mark.parametrize(
    "details", [{"score": 1.5}, {"overlap": -0.1}, {"anchors": (1.0, -2.0)}, {"anchors": (1.0,)}]
)
def test_bad_details(details: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plan("yolov5", *grids(255), **details)


@pytest.mark.parametrize(
    ("chip", "api", "library", "architecture"),
    [
        ("rk3588", "full", "librknnrt.so", "arm64"),
        ("rv1106", "mini", "librknnmrt.so", "armhf"),
        ("rv1103b", "mini", "librknnmrt.so", "armhf"),
        ("rv1126b", "full", "librknnrt.so", "arm64"),
        ("rk1808", "generation1", "librknn_runtime.so", "arm64"),
        ("rv1126", "generation1", "librknn_runtime.so", "armhf"),
        ("rk3399pro", "generation1", "librknn_api.so", "arm64"),
    ],
)
def test_boards(chip: str, api: str, library: str, architecture: str) -> None:
    found = Board.of_chip(chip)
    assert (found.api, found.library, found.architecture) == (api, library, architecture)


def test_no_such_chip() -> None:
    with pytest.raises(UsageError, match="no chip 'z80'"):
        Board.of_chip("z80")
