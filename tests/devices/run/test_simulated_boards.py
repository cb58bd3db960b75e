"""Recipes and pictures on emulated boards; containers: end_to_end/test_cli.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from engine.base.errors import EngineError
from engine.base.events import CallbackReporter, Event, NullReporter, StageStarted
from engine.devices.measure.history import load_run
from engine.services.board import examine, memory, perf, run
from engine.services.build import simulate
from rknntui.demo import demo_recipe
from tests.devices.conftest import Boards, Equip
from tests.devices.demo_container import demo_container, digits

pytestmark = [pytest.mark.adb, pytest.mark.cc, pytest.mark.long]


@pytest.fixture
def digit(tmp_path: Path) -> str:
    """A picture of the demo's size."""
    path = tmp_path / "digit.png"
    Image.fromarray(digits(1)[0][0, :, :, 0]).save(path)
    return str(path)


def test_a_recipe_is_built_and_run(board: Boards, equip: Equip, digit: str) -> None:
    made = equip(board("rk3588"))
    recipe = {**demo_recipe(), "target_platform": "rk3588"}
    expected = simulate({"recipe": recipe, "inputs": [digit]}, NullReporter())
    events: list[Event] = []
    asked = {"recipe": recipe, "inputs": [digit], "device": made.address, "layers": True}
    found = run(asked, CallbackReporter(events.append))
    assert [o["top"] for o in found["outputs"]] == [o["top"] for o in expected["outputs"]]
    assert all(row["layer"] for row in found["layers"] if row["target"] == "NPU")
    numbered = [event.title for event in events if isinstance(event, StageStarted) and event.count]
    assert numbered == ["Connect", "Send the model", "Run", "Time the layers"]
    timed = {"device": made.address, "build": {"recipe": recipe}, "loops": 5, "layers": True}
    measured = perf(timed, NullReporter())
    assert load_run(measured["kept"]).title == "digits_demo.onnx"
    assert [row["layer"] for row in measured["layers"]] == [row["layer"] for row in found["layers"]]


def test_the_doctor_runs_a_container(board: Boards, equip: Equip, tmp_path: Path) -> None:
    made = equip(board("rk3588"))
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
