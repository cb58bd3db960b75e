"""The fitted model against every published rate of the three chips."""

from __future__ import annotations

import csv
import math
import statistics
from pathlib import Path

import pytest

from engine.cost.generation1.timing import DESIGNS, parameters
from tests.cost.generation1.networks import figures
from tests.cost.support import read_file


@pytest.mark.long
def test_published_rates(zoo: Path) -> None:
    rates = zoo.parent / "facts" / "published_rates.csv"
    if not rates.is_file():
        pytest.skip(f"there are no published rates at {rates}")
    graphs, errors, held = {}, [], []
    with rates.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["chip"] in DESIGNS and row["graph"]]
    assert len(rows) == 75
    for row in rows:
        name, chip = row["graph"], row["chip"]
        if name not in graphs:
            graphs[name] = read_file(zoo / "shapes" / "published" / name)
        dtype = "int8" if row["dtype"] == "int8" else "float16"
        found = figures(graphs[name], chip, dtype=dtype)
        rate = float(row["fps"])
        errors.append(abs(found.fps.value / rate - 1))
        held.append(found.fps.low <= rate <= found.fps.high)
    assert statistics.median(errors) <= 0.08
    assert sum(held) >= 0.95 * len(held)  # these rows are in the fit; left out, 71 of 75


def test_parameters_are_few_and_physical() -> None:
    for design in ("rk1808", "rv1126"):
        found = parameters(design)
        assert len(found) == 16
        assert all(math.isfinite(each) and each > 0 for each in found.values())
        assert found["use_1x1"] < found["use"] < 1  # shares of the peak; 3x3 uses it best
        assert found["bandwidth"] < 12.7  # the NPU's bus
        assert found["slow"] < 4


def test_the_manuals_mobilenet(zoo: Path) -> None:
    """User Guide 1.3.2, eval_perf: 4694 us on an RK1808 at 800 MHz; not in the fit."""
    found = figures(read_file(zoo / "shapes" / "mbv1.onnx"), "rk1808", npu_mhz=800.0)
    assert found.time_ms.low < 4.694 < found.time_ms.high
    assert found.time_ms.value == pytest.approx(4.694, rel=0.1)
