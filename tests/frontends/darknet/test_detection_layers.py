"""Heads of Darknet: raw, and decoded as darknet itself decodes them, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.load import inspect_source, load_source
from tests.frontends.darknet.networks import head, run, source

RANDOM = np.random.default_rng(5)
ANCHORS = [10.0, 13, 16, 30, 33, 23, 30, 61]
OPTIONS = "anchors= 10,13,  16,30, 33,23, 30,61\nclasses=3\nnum=4\n"
# the picture is 40 high and 48 wide, the head 5 x 6
PICTURE = head(3, 40, 48) + "[maxpool]\nsize=1\nstride=8\npadding=0\n"


def logistic(x: float) -> float:
    return 1 / (1 + float(np.exp(-x)))


def network(filters: int, section: str) -> tuple[str, np.ndarray]:
    body = f"[convolutional]\nfilters={filters}\nsize=1\nactivation=linear\n[{section}"
    return PICTURE + body, RANDOM.standard_normal(filters * 4).astype(np.float32)


def decoded(folder: Path, filters: int, section: str) -> tuple[np.ndarray, np.ndarray]:
    """The table of a decoded head, and the raw head [filters, 5, 6]."""
    cfg, floats = network(filters, section)
    x = RANDOM.uniform(size=(1, 3, 40, 48)).astype(np.float32)
    (raw,) = run(load_source(source(folder, cfg, floats)), x)
    given = source(folder, cfg, floats, darknet_decode=True)
    (table,) = run(load_source(given), x)
    told = inspect_source(given).outputs[0]
    assert (told.name, told.shape) == (f"{section.partition(']')[0].lower()}_2", table.shape)
    return table, raw[0].astype(np.float64)


def cells(raw: np.ndarray, anchors: Sequence[Any]) -> Iterator[tuple[int, int, Any, np.ndarray]]:
    """(row, column, anchor, entries) of a raw head in the order of a table."""
    entries = raw.reshape(len(anchors), -1, *raw.shape[1:])
    for row, column, number in np.ndindex(*raw.shape[1:], len(anchors)):
        yield row, column, anchors[number], entries[number, :, row, column]


def check(table: np.ndarray, rows: list[list[float]]) -> None:
    np.testing.assert_allclose(table, np.array(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("new", [False, True])
def test_yolo_as_get_yolo_detections_decodes_it(tmp_path: Path, new: bool) -> None:
    extra = f"scale_x_y=1.2\nmask = 1,3\nnew_coords={int(new)}\n"
    table, raw = decoded(tmp_path, 16, f"yolo]\n{extra}{OPTIONS}")
    rows = []
    for row, column, anchor, entries in cells(raw, (1, 3)):
        x, y, w, h, obj, *classes = entries
        if not new:
            x, y, obj = logistic(x), logistic(y), logistic(obj)
            classes = [logistic(c) for c in classes]
        width, height = ANCHORS[2 * anchor] / 48, ANCHORS[2 * anchor + 1] / 40
        wide = w * w * 4 * width if new else np.exp(w) * width
        high = h * h * 4 * height if new else np.exp(h) * height
        centre = [(column + x * 1.2 - 0.1) / 6, (row + y * 1.2 - 0.1) / 5]
        rows.append([*centre, wide, high, obj, *(obj * c for c in classes)])
    check(table, rows)


@pytest.mark.parametrize(("point", "shift"), [("center", 0), ("left_top", 1), ("right_bottom", -1)])
def test_gaussian_yolo_lowers_classes_by_the_uncertainty(
    tmp_path: Path, point: str, shift: int
) -> None:
    section = f"Gaussian_yolo]\nmask = 0,2\nyolo_point={point}\n{OPTIONS}"
    table, raw = decoded(tmp_path, 24, section)
    rows = []
    for row, column, anchor, entries in cells(raw, (0, 2)):
        x, _, y, _, w, _, h, _, *scores = entries
        doubt = np.mean([logistic(v) for v in entries[[1, 3, 5, 7]]])
        wide = np.exp(w) * ANCHORS[2 * anchor] / 48
        high = np.exp(h) * ANCHORS[2 * anchor + 1] / 40
        obj, *classes = (logistic(v) for v in scores)
        across = (column + logistic(x)) / 6 + shift * wide / 2
        down = (row + logistic(y)) / 5 + shift * high / 2
        lowered = [obj * c * (1 - doubt) for c in classes]
        rows.append([across, down, wide, high, obj, *lowered])
    check(table, rows)


@pytest.mark.parametrize("classfix", [0, -1])
def test_region_takes_anchors_in_cells_and_softmax(tmp_path: Path, classfix: int) -> None:
    section = f"region]\nanchors=1.3,1.7, 3.2\nclasses=3\nnum=2\nsoftmax=1\nclassfix={classfix}\n"
    table, raw = decoded(tmp_path, 16, section)
    rows = []
    # the anchor that the file leaves out is 0.5
    for row, column, (wide, high), entries in cells(raw, ((1.3, 1.7), (3.2, 0.5))):
        x, y, w, h, obj, *classes = entries
        obj = logistic(obj)
        obj = 0 if classfix and obj < 0.5 else obj
        powers = np.exp(classes)
        box = [(column + logistic(x)) / 6, (row + logistic(y)) / 5]
        box += [np.exp(w) * wide / 6, np.exp(h) * high / 5]
        rows.append([*box, obj, *(obj * powers / powers.sum())])
    check(table, rows)


def test_a_batch_gives_a_table_for_each_picture(tmp_path: Path) -> None:
    cfg, floats = network(16, f"yolo]\nmask=0,1\n{OPTIONS}")
    options = {"darknet_decode": True}
    loaded = load_source(
        source(tmp_path, cfg, floats, input_size_list=((2, 3, 40, 48),), **options)
    )
    x = RANDOM.uniform(size=(2, 3, 40, 48)).astype(np.float32)
    (tables,) = run(loaded, x)
    single = load_source(source(tmp_path, cfg, floats, **options))
    for picture, table in zip(x, tables, strict=True):
        np.testing.assert_allclose(run(single, picture[None])[0], table, rtol=1e-5, atol=1e-5)


def test_the_outputs_are_the_heads_and_a_last_layer_that_is_none(tmp_path: Path) -> None:
    cfg, floats = network(16, f"yolo]\nmask=0,1\n{OPTIONS}")
    cfg += "[route]\nlayers=0\n"
    loaded = load_source(source(tmp_path, cfg, floats))
    assert [spec.name for spec in loaded.graph.outputs] == ["conv_1", "route_3"]


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("yolo]\nmask=0\n" + OPTIONS, "gets 16 channels and needs 8"),
        ("yolo]\nmask=0,4\n" + OPTIONS, "beyond num=4"),
        ("region]\nclasses=3\nnum=2\n", "without softmax=1"),
        ("region]\nclasses=3\nnum=2\nsoftmax=1\ntree=9k.tree\n", "a tree"),
        ("detection]\n", "YOLOv1"),
    ],
)
def test_heads_that_cannot_be_decoded(tmp_path: Path, section: str, why: str) -> None:
    cfg, floats = network(16, section)
    with pytest.raises(UnsupportedOperatorError, match=why):
        load_source(source(tmp_path, cfg, floats, darknet_decode=True))
