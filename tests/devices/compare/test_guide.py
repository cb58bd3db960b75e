"""Step C1 of the accuracy guide on an emulated board."""

from __future__ import annotations

from typing import Any

import pytest

from engine.accuracy.three_way import board_rows
from engine.base.events import NullReporter
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Pipeline
from engine.services.guide import guide
from rknntui.demo import demo_recipe
from tests.devices.conftest import Boards, Equip
from tests.devices.verbs import run

pytestmark = [pytest.mark.long, pytest.mark.adb, pytest.mark.cc]


def step(device: str) -> Any:
    asked = {"recipe": demo_recipe(), "done": ["A1", "B1"], "device": device}
    found: Any = guide(asked, NullReporter())["step"]
    assert found["id"] == "C1"
    assert found["changes"] == {}
    return found


def test_the_board_is_the_last_step(board: Boards, equip: Equip, build: Pipeline) -> None:
    made = board("rk3588")
    refused = step(made.address)  # it has no runtime library that runs here
    assert refused["verdict"] == "warning"
    assert refused["advice"]
    equip(made)
    found = step(made.address)
    assert found["verdict"] == "pass"
    assert "emulated" in found["did"]
    assert "your own program" in found["advice"]
    layer = board_rows(quantized_of(build))[0].layer
    made.bend(f"{layer}:60")
    found = step(made.address)
    assert found["verdict"] in ("warning", "fail")
    assert layer in found["advice"]
    assert "driver" in found["advice"]
    assert layer in [each["label"] for each in found["found"]]


def test_the_command(board: Boards, equip: Equip) -> None:
    made = equip(board("rk3588"))
    recipe = demo_recipe()
    words = ["accuracy", str(recipe["model"]), "--dataset", str(recipe["dataset"])]
    words += ["--mean-values", "127.5", "--std-values", "127.5", "--device", made.address]
    assert run(*words).returncode == 2
    done = run(*words, "--guide")
    assert done.returncode == 0, done.stderr
    assert "ok   C1" in done.stdout
    assert "agree up to rounding" in done.stdout
