"""The doctor step by step: the model, the steps as they are done, the run with zeros."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import DeviceLostError, JobCancelledError
from engine.base.events import CallbackReporter, Event, NullReporter
from engine.devices.address import Address
from engine.devices.doctor.diagnose import STEPS
from engine.devices.doctor.examine import examine_board
from engine.services.board import examine
from engine.wire.devices import EXAMINED, ExamineParams
from engine.wire.doctor import Check
from rknntui_emulator.runtime.answers import TensorFacts, input_digest
from tests.devices.known_model import IMAGE, SCORES, answers
from tests.devices.run.conftest import MakeBoard

ZEROS = {input_digest([np.zeros_like(IMAGE).tobytes()]): (SCORES.tobytes(),)}


@pytest.fixture(autouse=True)
def reached(here: MakeBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor comes to the same board."""

    def reach(address: Address) -> object:
        from engine.devices import connected

        board = connected.reach(address)
        board.files["/usr/lib/librknnrt.so"] = b"\x7fELF librknnrt version: 2.3.2 (4@2025)\n"
        return board

    monkeypatch.setattr("engine.devices.doctor.examine.reach", reach)


def by_name(checks: Iterable[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.mark.cc
@pytest.mark.parametrize(("emulated", "label"), [(True, "emulated"), (False, "measured")])
def test_steps_are_told_as_they_are_done(
    here: MakeBoard, model: Path, emulated: bool, label: str
) -> None:
    here(answers(results=ZEROS), emulated=emulated)
    events: list[Event] = []
    asked = {"device": "local", "model": str(model), "test": True}
    found = examine(asked, CallbackReporter(events.append))
    told = [check for check in map(EXAMINED.of, events) if check is not None]
    assert [check.name for check in told][:2] == ["transport", "model"]
    assert {check.name for check in told} == {"model", *STEPS}
    assert [name for name in dict.fromkeys(c.name for c in told) if name != "model"] == [*STEPS]
    assert len(found["checks"]) == len(told)
    last = told[-1]
    assert (last.name, last.state) == ("test tensor", "ok")
    assert "scores 1x5 from -25 to 38.75" in last.found
    assert f"0.700 ms ({label})" in last.found


@pytest.mark.cc
def test_outputs_that_are_not_finite_are_a_note(here: MakeBoard, model: Path) -> None:
    values = np.array([1.0, np.nan, np.inf, 2.0, -3.0], np.float32)
    facts = TensorFacts("y", (1, 5), "FLOAT32", "UNDEFINED", "NONE")
    results = {digest: (values.tobytes(),) for digest in ZEROS}
    here(answers(outputs=(facts,), results=results))
    checks = by_name(examine_board(ExamineParams("local", str(model), True)))
    last = checks["test tensor"]
    assert last.state == "note"
    assert "y 1x5 from -3 to 2, 2 not finite" in last.found
    assert "float16" in last.remedy


@pytest.mark.cc
def test_a_model_that_does_not_run_or_cannot_be_read(here: MakeBoard, model: Path) -> None:
    here(answers(results={}))
    checks = by_name(examine_board(ExamineParams("local", str(model), True)))
    assert checks["test tensor"].state == "bad"
    assert checks["test tensor"].remedy
    other = by_name(examine_board(ExamineParams("local", __file__, True)))
    assert (other["model"].state, other["test tensor"].state) == ("bad", "skipped")
    none = by_name(examine_board(ExamineParams("local", str(model))))
    assert none["test tensor"].found == "it was not asked for"


def test_a_board_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_address: Address) -> object:
        raise DeviceLostError("It has gone.", remedy="Plug it in.")

    monkeypatch.setattr("engine.devices.doctor.examine.reach", lost)
    assert tuple(examine_board(ExamineParams("local"))) == (
        Check("transport", "bad", "It has gone.", "Plug it in."),
    )


@pytest.mark.cc
def test_an_examination_is_cancelled(here: MakeBoard, model: Path) -> None:
    here(answers(results=ZEROS))
    events: list[Event] = []
    reporter = CallbackReporter(events.append, cancelled=lambda: len(events) > 3)
    with pytest.raises(JobCancelledError):
        examine({"device": "local", "model": str(model), "test": True}, reporter)
    assert len(events) == 4
    assert examine({"device": "local"}, NullReporter())["checks"]


@pytest.mark.cc
def test_a_model_that_cannot_be_read_is_not_called_missing(here: MakeBoard, tmp_path: Path) -> None:
    here()
    path = tmp_path / "broken.rknn"
    path.write_bytes(b"RKNN" + bytes(100))
    opened = by_name(examine_board(ExamineParams("local", chip="rv1106")))
    assert opened["recipe"].state == "note"
    assert "the open recipe has no compiled model" in opened["versions"].found
    found = by_name(examine_board(ExamineParams("local", str(path), test=True, chip="rv1106")))
    assert "recipe" not in found
    assert found["model"].state == "bad"
    assert "cannot be read" in found["versions"].found
    assert found["test tensor"].found == "the model cannot be read"
    assert not any("no model" in check.found for check in found.values())
