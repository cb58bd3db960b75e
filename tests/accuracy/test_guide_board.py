"""Step C1 of the guide: what it says of a board that agrees, diverges, or cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from engine.accuracy.three_way import LayerOnBoard, board_rows, compare_sides
from engine.base.errors import DeviceError, JobCancelledError
from engine.base.events import NullReporter
from engine.pipeline.board import BoardChoice, OnBoard
from engine.services.guide import guide
from engine.wire.devices import BoardAnswer
from rknntui.demo import demo_recipe
from tests.accuracy.build import built, feeds
from tests.accuracy.test_three_way import Board, Given, spoilt_tensors


def step(device: str | None = "adb:one") -> Any:
    asked = {"recipe": demo_recipe(), "step": "C1", "device": device}
    return guide(asked, NullReporter())["step"]


def on_board(layers: tuple[LayerOnBoard, ...], **more: Any) -> OnBoard:
    head = BoardAnswer(
        label="measured", device="adb:one", chip="rk3588", runtime="2.3.2", driver="0.9.8"
    )
    return OnBoard(layers, head, "0" * 64, **more)


def answers(monkeypatch: pytest.MonkeyPatch, result: OnBoard | Exception) -> list[BoardChoice]:
    asked: list[BoardChoice] = []

    def compare(_pipeline: object, _feeds: object, chosen: BoardChoice) -> OnBoard:
        asked.append(chosen)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr("engine.services.guide.compare_on_board", compare)
    return asked


def test_without_a_board_it_says_how_to_name_one() -> None:
    found = step(None)
    assert found["verdict"] == "told"
    assert "--device" in found["advice"]


def test_a_board_that_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    _, build = built()
    layers = compare_sides(build, feeds(1, 5)[0], [board_rows(build)], Board(build, {}))
    asked = answers(monkeypatch, on_board(layers, missing=("one",)))
    found = step()
    assert asked == [BoardChoice("adb:one")]
    assert found["verdict"] == "pass"
    assert "measured" in found["did"]
    labels = [each["label"] for each in found["found"]]
    assert labels == ["runtime, driver", "not given by the board", "layers"]


def test_a_board_that_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    _, build = built()
    rows = board_rows(build)
    wrong = spoilt_tensors(build, rows[2])
    layers = compare_sides(build, feeds(1, 5)[0], [rows], Given(wrong))
    answers(monkeypatch, on_board(layers))
    found = step()
    assert found["verdict"] in ("warning", "fail")
    assert [each["label"] for each in found["found"]] == ["runtime, driver", "add"]
    assert found["advice"].startswith("add is the first layer")
    assert "CPU" in found["advice"]


def test_a_board_that_cannot_be_used_ends_no_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, DeviceError("It went away.", cause="A cable.", remedy="Look."))
    found = step()
    assert found["verdict"] == "warning"
    assert found["found"] == [{"label": "board", "value": "It went away.", "verdict": "warning"}]
    assert found["advice"] == "A cable. Look."
    answers(monkeypatch, JobCancelledError("Cancelled."))
    with pytest.raises(JobCancelledError):
        step()
