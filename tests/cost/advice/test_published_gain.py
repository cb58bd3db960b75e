"""yolov5s was published with SiLU and with ReLU: the one gain that can be checked."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from engine.cost.estimate import CostSettings, advice
from engine.frontends.find import find_source
from engine.frontends.load import load_source

CHIPS = ("rk1808", "rv1109", "rv1126", "rk3562", "rk3566", "rk3588")


def test_the_gain_of_relu(zoo: Path) -> None:
    rates = zoo.parent / "facts" / "published_rates.csv"
    if not rates.is_file():
        pytest.skip(f"there are no published rates at {rates}")
    with rates.open(encoding="utf-8", newline="") as file:
        ms = {
            (row["model"], row["chip"]): 1000 / float(row["fps"])
            for row in csv.DictReader(file)
            if row["model"] in ("yolov5s", "yolov5s_relu")
        }
    graph = load_source(find_source(zoo / "shapes" / "published" / "yolov5s.onnx")).graph
    for chip in CHIPS:
        published = ms["yolov5s", chip] - ms["yolov5s_relu", chip]
        _, told = advice(graph, chip, CostSettings())
        (one,) = [each for each in told if "ReLU" in each.title]
        assert one.gain_ms == pytest.approx(published, rel=0.35), chip
