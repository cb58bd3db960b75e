"""A sample that runs again and again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import JobCancelledError, UsageError
from engine.base.events import CallbackReporter, Event, NullReporter
from engine.devices.board.layout import find_folder
from engine.devices.model_source import ModelSource
from engine.devices.run.on_board import run_live
from engine.wire.board import LIVE_LOOK, LiveLook, LiveParams
from tests.devices.known_model import IMAGE
from tests.devices.run.conftest import MakeBoard


def params(model: Path, folder: Path, **more: Any) -> LiveParams:
    path = folder / "input.npy"
    np.save(path, IMAGE)
    return LiveParams(str(model), device="local", inputs=(str(path),), hertz=10, **more)


@pytest.mark.cc
@pytest.mark.parametrize("cancelled", [pytest.param(False, marks=pytest.mark.long), True])
def test_each_run_is_told_until_the_end(
    here: MakeBoard, model: Path, tmp_path: Path, cancelled: bool
) -> None:
    board = here()
    looks: list[LiveLook] = []
    asked = 0

    def layers() -> None:
        nonlocal asked
        asked += 1

    def take(event: Event) -> None:
        if (look := LIVE_LOOK.of(event)) is not None:
            looks.append(look)

    def enough() -> bool:
        return len(looks) >= 3

    never = CallbackReporter(take, cancelled=enough)
    reporter = never if cancelled else CallbackReporter(take, finish=enough)
    source = ModelSource(model, layers=layers)
    if cancelled:
        with pytest.raises(JobCancelledError):
            run_live(params(model, tmp_path), source, reporter)
    else:
        assert run_live(params(model, tmp_path), source, reporter).runs == 3
    assert len(looks) == 3
    assert [look.at for look in looks] == sorted({look.at for look in looks})
    last = looks[-1]
    assert (last.label, last.device, last.chip) == ("emulated", "local", "rk3588")
    assert [row.name for row in last.layers] == ["Conv:conv1"]
    assert last.layers[0].microseconds is not None
    assert last.memory is not None
    assert last.memory.total == 5939200
    assert asked == 1, "the build is looked at once"
    assert find_folder(board).runs() == ()


@pytest.mark.cc
@pytest.mark.parametrize("hertz", [0.1, 10.0])
def test_runs_that_nobody_ends_end_by_themselves(
    here: MakeBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hertz: float
) -> None:
    here()
    monkeypatch.setattr("engine.devices.run.on_board._LONGEST_SECONDS", 0.05)
    asked = replace(params(model, tmp_path), hertz=hertz)
    source = ModelSource(model, layers=lambda: None)
    assert run_live(asked, source, NullReporter()).runs <= 1


@pytest.mark.parametrize("hertz", [float("nan"), 0.09, 10.1])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, model: Path, hertz: float) -> None:
    asked = replace(params(model, tmp_path), hertz=hertz)
    with pytest.raises(UsageError, match="times a second"):
        run_live(asked, ModelSource(model), NullReporter())
