"""The verbs of the command line on boards of every kind, over a real adb server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import load_recipe
from engine.base.events import NullReporter
from engine.container import read_container
from engine.services.board import about
from engine.services.build import simulate
from engine.wire.flags import recipe_words
from tests.devices.end_to_end.conftest import NO_MEMORY, Stand
from tests.devices.verbs import told

pytestmark = [pytest.mark.long, pytest.mark.adb, pytest.mark.cc]


def check_layers(stand: Stand, found: Any) -> None:
    """The times of the layers, or why there are none."""
    if stand.kind == "rv1106":
        assert found["layers"] == []
        assert "tells neither its own time nor the layers" in " ".join(found["notes"])
        return
    assert sum(layer["microseconds"] or 0 for layer in found["layers"]) > 0
    layers = read_container(stand.container).layers
    assert layers is not None
    assert [row["layer"] for row in found["layers"] if row["layer"]] == [
        layer.id for layer in layers.layers
    ]


def test_list_and_versions(stand: Stand) -> None:
    named = ("--ssh", stand.device) if stand.kind == "ssh" else ()
    listed = {device["id"]: device for device in told("devices", "list", *named)["devices"]}
    device = listed[stand.id]
    assert device["state"] == "ready"
    assert stand.kind == "ssh" or "emulated" in " ".join(device["warnings"])
    words = ("doctor", "--device", stand.id, "--model", str(stand.container))
    checks = {check["name"]: check for check in told(*words)["checks"]}
    assert checks["chip"]["found"].startswith(stand.chip)
    for name in ("server", "runtime", "driver", "versions", "test tensor"):
        assert checks[name]["state"] == "ok", checks[name]
    assert (
        stand.board.board.library.rpartition("/")[2].removesuffix(".so")
        in checks["runtime"]["found"]
    )


def test_what_is_told_of_it(stand: Stand) -> None:
    of_it = about({"device": stand.device, "model": str(stand.container)})
    facts = of_it["facts"]
    assert (facts["device"], facts["chip"]) == (stand.id, stand.chip)
    assert facts["label"] == "emulated"
    assert of_it["fit"][0]["state"] == "ok"


def test_run(stand: Stand, digit: np.ndarray, digit_file: Path, tmp_path: Path) -> None:
    where = ("--device", stand.device, "--input", str(digit_file))
    found = told("run", str(stand.container), *where, "--layers", "--save", str(tmp_path / "out"))
    assert (found["label"], found["chip"]) == ("emulated", stand.chip)
    expected = stand.expected(digit)
    saved = [np.load(path) for path in found["saved"]]
    for output, values in zip(saved, expected.values(), strict=True):
        np.testing.assert_array_equal(output, values)
    asked = {"path": str(stand.container), "inputs": [str(digit_file)]}
    outputs = json.loads(json.dumps(simulate(asked, NullReporter())["outputs"]))
    assert found["outputs"] == [{**output, "label": "emulated"} for output in outputs]
    check_layers(stand, found)
    assert found["milliseconds"] > 0


@pytest.mark.parametrize("stand", ["rk3588", "rk1808"], indirect=True)
@pytest.mark.parametrize("saved", [True, False])
def test_a_recipe_is_built_and_runs(
    stand: Stand, digit: np.ndarray, digit_file: Path, saved: bool
) -> None:
    """By its file, or by the model with the options that are in it."""
    values = load_recipe(stand.recipe).to_values()
    target = [str(stand.recipe)] if saved else [str(values["model"]), *recipe_words(values)]
    found = told("run", *target, "--device", stand.device, "--input", str(digit_file))
    expected = stand.expected(digit)
    assert [output["name"] for output in found["outputs"]] == list(expected)
    (values,) = expected.values()
    assert found["outputs"][0]["maximum"] == float(values.max())


def test_perf_and_memory(stand: Stand) -> None:
    governor = next(stand.board.root.glob("sys/class/devfreq/*npu*/governor"), None)
    before = governor.read_text() if governor else ""
    words = ("perf", str(stand.container), "--device", stand.device, "--loops", "3", "--layers")
    found = told(*words, "--fix-clocks", "--fail-over", "0.001us", code=14)
    assert (found["label"], found["chip"]) == ("emulated", stand.chip)
    assert [(gate["label"], gate["ok"]) for gate in found["gates"]] == [("emulated", False)]
    (point,) = found["points"]
    assert point["count"] == 3
    assert 0 < point["minimum"] <= point["median"] <= point["maximum"]
    check_layers(stand, found)
    assert (governor.read_text() if governor else "") == before
    report = told("memory", str(stand.container), "--device", stand.device)
    assert report["system"]["total"] > 0
    if stand.generation == 1:
        assert report["memory"] is None
        assert NO_MEMORY in report["reason"]
        assert "librknn_runtime.so" in report["reason"]
    else:
        assert report["memory"]["weight"] > 10_000
        assert "(emulated)" in report["text"]


def test_a_comparison_names_the_bent_layer(stand: Stand, bent: str, digit_file: Path) -> None:
    words = ("compare", str(stand.recipe), "--device", stand.device, "--input", str(digit_file))
    found = told(*words, code=1)
    assert found["label"] == "emulated"
    assert found["first"] == bent
    rows = {row["name"]: row for row in found["layers"]}
    names = list(rows)
    assert not any(rows[name]["diverges"] for name in names[: names.index(bent)])
    assert bent in found["verdict"]
    assert found["rounding"]["outputs"]
    assert any("rounding" in text for text in found["judged"])
    stand.board.bend(None)
    found = told(*words)
    assert (found["first"], any(row["diverges"] for row in found["layers"])) == ("", False)
