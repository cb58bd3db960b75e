"""Step C1 of the accuracy guide on an emulated board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.accuracy.three_way import board_rows
from engine.base.events import NullReporter
from engine.devices.emulator.emulator import BoardEmulator
from engine.pipeline.layers import quantized_of
from engine.recipe import Recipe
from engine.services.guide import guide
from engine.services.state import get_pipeline
from rknntui.demo import demo_recipe
from tests.devices.compare.prepared import prepare
from tests.devices.conftest import Boards

pytestmark = [pytest.mark.long, pytest.mark.adb, pytest.mark.cc]


def step(device: str) -> Any:
    asked = {"recipe": demo_recipe(), "done": ["A1", "B1"], "device": device}
    found: Any = guide(asked, NullReporter())["step"]
    assert found["id"] == "C1"
    assert found["changes"] == {}
    return found


def ready(made: BoardEmulator, library: Path, folder: Path, place: int | None) -> str:
    build = get_pipeline(Recipe.from_values(demo_recipe(), Path.cwd()))
    sample = next(iter(build.feeds(build.dataset.first(1))))
    row = board_rows(quantized_of(build))[place or 0]
    bend = "" if place is None else row.simulated or ""
    prepare(made, library, build, sample, folder, bend=bend)
    return row.layer


def test_the_board_is_the_last_step(
    board: Boards, libraries: Callable[..., Path], tmp_path: Path
) -> None:
    made = board("rk3588")
    refused = step(made.address)  # a runtime library is there, and no answers
    assert refused["verdict"] == "warning"
    assert refused["advice"]
    ready(made, libraries(), tmp_path, None)
    found = step(made.address)
    assert found["verdict"] == "pass"
    assert "emulated" in found["did"]
    assert "your own program" in found["advice"]
    layer = ready(made, libraries(), tmp_path, 0)
    found = step(made.address)
    assert found["verdict"] in ("warning", "fail")
    assert layer in found["advice"]
    assert "driver" in found["advice"]
    assert layer in [each["label"] for each in found["found"]]
