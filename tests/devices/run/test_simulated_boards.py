"""Containers and recipes on emulated boards: what the simulator gives, under the board's label."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.base.errors import EngineError
from engine.base.events import CallbackReporter, Event, NullReporter, StageStarted
from engine.container import read_container
from engine.devices.address import Address
from engine.devices.measure.history import load_run
from engine.recipe import Recipe
from engine.services.board import about, memory, run
from engine.services.build import simulate
from engine.services.devices import examine, perf
from rknntui.demo import demo_folder
from tests.devices.conftest import Boards, Equip
from tests.devices.demo_container import demo_container, digits
from tests.devices.faulty_board import FaultyBoard

pytestmark = [pytest.mark.adb, pytest.mark.cc, pytest.mark.long]

CHIPS = [("rk3588", 2), ("rk3566", 2), ("rv1106", 2), ("rk1808", 1)]


@pytest.fixture
def ready(board: Boards, equip: Equip) -> Callable[..., FaultyBoard]:
    """Makes such boards behind adb."""

    def make(chip: str, **options: Any) -> FaultyBoard:
        return equip(board(chip, **options))

    return make


@pytest.fixture
def digit(tmp_path: Path) -> str:
    """A picture of the demo's size."""
    path = tmp_path / "digit.png"
    Image.fromarray(digits(1)[0][0, :, :, 0]).save(path)
    return str(path)


@pytest.mark.parametrize(("chip", "generation"), CHIPS)
def test_a_container_gives_what_the_simulator_gives(
    ready: Callable[..., FaultyBoard], tmp_path: Path, digit: str, chip: str, generation: int
) -> None:
    made = ready(chip)
    container = demo_container(tmp_path / "demo.rknn", chip, generation=generation)
    asked = {"path": str(container), "inputs": [digit]}
    expected = simulate(asked, NullReporter())
    found = run(
        {**asked, "device": made.address, "layers": True, "save": str(tmp_path / "out")},
        NullReporter(),
    )
    told = [{**output, "label": "emulated"} for output in expected["outputs"]]
    assert found["outputs"] == told
    assert found["label"] == "emulated"
    layers = read_container(container).layers
    assert layers is not None
    ids = [row["layer"] for row in found["layers"] if row["layer"]]
    if chip == "rv1106":  # its small runtime tells no times
        assert found["layers"] == []
        assert "The runtime printed no table of layers." in found["notes"]
        assert any("the board's clock" in note for note in found["notes"])
    else:
        assert ids == [layer.id for layer in layers.layers]
    assert found["milliseconds"] > 0
    report = memory({"path": str(container), "device": made.address}, NullReporter())
    if generation == 1:
        assert report["memory"] is None
        assert report["reason"].startswith("not available on this runtime")
    else:
        assert report["memory"] == found["memory"]
        assert "Memory Profile Info Dump (emulated)" in report["text"]
    assert report["system"]["total"] > 0
    told_of = about({"device": made.address, "model": str(container)})
    assert (told_of["facts"]["chip"], told_of["facts"]["label"]) == (chip, "emulated")
    assert told_of["fit"][0]["state"] == "ok"
    assert made.alive_orphans() == []


def test_a_recipe_is_built_and_run(
    ready: Callable[..., FaultyBoard], digit: str, tmp_path: Path
) -> None:
    made = ready("rk3588")
    recipe = {
        "model": str(demo_folder() / "digits_demo.onnx"),
        "dataset": str(demo_folder() / "dataset.txt"),
        "target_platform": "rk3588",
        "mean_values": [[0]],
        "std_values": [[16]],
    }
    assert Recipe.from_values(recipe)
    expected = simulate({"recipe": recipe, "inputs": [digit]}, NullReporter())
    events: list[Event] = []
    asked = {"recipe": recipe, "inputs": [digit], "device": made.address, "layers": True}
    found = run(asked, CallbackReporter(events.append))
    assert [o["top"] for o in found["outputs"]] == [o["top"] for o in expected["outputs"]]
    assert all(row["layer"] for row in found["layers"] if row["target"] == "NPU")
    numbered = [event.title for event in events if isinstance(event, StageStarted) and event.count]
    assert numbered == ["Connect", "Send the model", "Run", "Time the layers"]
    measured = perf(
        {
            "device": made.address,
            "model": None,
            "build": {"recipe": recipe},
            "loops": 5,
            "layers": True,
        },
        NullReporter(),
    )
    assert load_run(measured["kept"]).title == "digits_demo.onnx"
    assert [row["layer"] for row in measured["layers"]] == [row["layer"] for row in found["layers"]]


def test_the_doctor_runs_a_container(ready: Callable[..., FaultyBoard], tmp_path: Path) -> None:
    made = ready("rk3588")
    container = demo_container(tmp_path / "demo.rknn", "rk3588")
    asked = {"device": made.address, "model": str(container), "test": True}
    checks = {each["name"]: each for each in examine(asked, NullReporter())["checks"]}
    assert checks["test tensor"]["state"] == "ok", checks
    assert "logits 1x10" in checks["test tensor"]["found"]
    (made.root / "etc/rknntui-emulated").unlink()
    checks = {each["name"]: each for each in examine(asked, NullReporter())["checks"]}
    assert checks["versions"]["state"] == "bad"
    assert "no NPU runs" in checks["versions"]["found"]
    assert checks["test tensor"]["state"] == "bad"
    with pytest.raises(EngineError, match="runs on no NPU"):
        memory({"path": str(container), "device": made.address}, NullReporter())


@pytest.mark.sshd
def test_the_same_over_ssh(
    ssh_board: Callable[..., tuple[FaultyBoard, Address]],
    equip: Equip,
    tmp_path: Path,
    digit: str,
) -> None:
    made, address = ssh_board("rk3588")
    equip(made)
    container = demo_container(tmp_path / "demo.rknn", "rk3588")
    device = str(address)
    asked = {"path": str(container), "inputs": [digit]}
    expected = simulate(asked, NullReporter())
    found = run({**asked, "device": device, "layers": True}, NullReporter())
    assert found["outputs"][0]["top"] == expected["outputs"][0]["top"]
    assert (found["device"], found["label"]) == (device, "emulated")
    report = memory({"path": str(container), "device": device}, NullReporter())
    assert report["memory"] == found["memory"]
    examined = {"device": device, "model": str(container), "test": True}
    checks = examine(examined, NullReporter())["checks"]
    assert checks[-1]["name"] == "test tensor"
    assert checks[-1]["state"] == "ok", checks
    measured = perf({"device": device, "path": str(container), "loops": 5}, NullReporter())
    assert load_run(measured["kept"]).conditions.device == device
    assert about({"device": device})["facts"]["device"] == device


def test_pictures_of_another_size_and_order(
    ready: Callable[..., FaultyBoard], tmp_path: Path
) -> None:
    made = ready("rk3588")
    container = demo_container(tmp_path / "demo.rknn", "rk3588")
    large = np.kron(digits(2)[1][0, :, :, 0], np.ones((3, 5), np.uint8))
    Image.fromarray(large).save(tmp_path / "large.png")
    asked = {"path": str(container), "inputs": [str(tmp_path / "large.png")]}
    found = run({**asked, "device": made.address}, NullReporter())
    expected = simulate(asked, NullReporter())
    assert found["outputs"][0]["top"] == expected["outputs"][0]["top"]
    assert any("scaled to the input" in note for note in found["notes"])
