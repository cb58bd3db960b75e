"""A grid of cores, batches and threads on a board, its layers, and what is kept of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import DeviceLostError, RuntimeLibraryError, UsageError
from engine.base.events import CallbackReporter, Event, LogLine, NullReporter, Progress
from engine.devices.measure.history import list_runs, load_run
from engine.services.board import perf
from engine.wire.codec import encode
from rknntui_emulator.runtime.answers import ANY_INPUT, TensorFacts
from tests.devices.known_model import SCALE, SCORES, ZERO, answers
from tests.devices.run.conftest import MakeBoard


@pytest.fixture
def batched(here: MakeBoard, model: Path, tmp_path: Path) -> Path:
    """The model for four frames at once, on a board that knows both."""
    path = tmp_path / "four.rknn"
    path.write_bytes(model.read_bytes() + b"\0" * 4)
    board = here(answers(results={ANY_INPUT: (SCORES.tobytes(),)}, run_us=(500,)))
    several = answers(
        inputs=(TensorFacts("image", (4, 4, 4, 3), "INT8", "NHWC", "AFFINE", 0, -128, 0.5),),
        outputs=(TensorFacts("y", (4, 5), "INT8", "UNDEFINED", "AFFINE", 0, ZERO, SCALE),),
        results={ANY_INPUT: (np.repeat(SCORES, 4, axis=0).tobytes(),)},
        run_us=(1500,),
    )
    several.into(board.root / "lib" / "answers", path)
    return path


@pytest.mark.cc
def test_a_grid_with_batches(batched: Path, model: Path) -> None:
    asked = {
        "device": "local",
        "path": str(model),
        "threads": [1, 2],
        "loops": 5,
        "layers": True,
        "batches": [{"batch": 4, "model": str(batched)}],
    }
    found = perf(asked, NullReporter())
    points = [(point["batch"], point["threads"], point["count"]) for point in found["points"]]
    assert points == [(1, 1, 5), (1, 2, 10), (4, 1, 5), (4, 2, 10)]
    assert all(point["frames_per_second"] > 0 for point in found["points"])
    assert [row["name"] for row in found["layers"]] == ["Conv:conv1"]
    kept = load_run(found["kept"])
    assert kept.memory is not None
    assert found["memory"] == encode(kept.memory)
    assert found["memory_reason"] == ""
    assert [cell.cell.batch for cell in kept.cells] == [1, 1, 4, 4]
    assert kept.table is not None
    assert [figure.name for figure in kept.table.figures] == ["Conv:conv1"]
    assert kept.conditions.device == "local"


@pytest.mark.cc
def test_what_was_measured_is_kept_where_the_board_goes(here: MakeBoard, model: Path) -> None:
    board = here(answers(results={ANY_INPUT: (SCORES.tobytes(),)}))
    events: list[Event] = []

    def heard(event: Event) -> None:
        events.append(event)
        if isinstance(event, Progress) and event.note.startswith("cores 0,"):
            board.pull_cable()

    asked = {"device": "local", "path": str(model), "cores": ["0", "1", "2"], "loops": 5}
    with pytest.raises(DeviceLostError):
        perf(asked, CallbackReporter(heard))
    (kept,) = list_runs()
    run = load_run(kept.id)
    assert [cell.cell.cores for cell in run.cells] == ["0"]
    assert any(note.startswith("It ended early") for note in run.notes)
    said = [event.text for event in events if isinstance(event, LogLine)]
    assert said == ["1 of 3 points were measured and are kept: see perf history."]


@pytest.mark.cc
def test_a_model_of_another_batch_is_refused(batched: Path, model: Path) -> None:
    wrong = {"batch": 2, "model": str(batched)}
    with pytest.raises(UsageError, match="is for 4 frames at once, not for 2"):
        perf({"device": "local", "path": str(model), "batches": [wrong]}, NullReporter())


@pytest.mark.cc
def test_the_table_of_a_large_model_is_no_line_too_long(here: MakeBoard, model: Path) -> None:
    rows = tuple(
        replace(row, id=number, name=f"Conv:block.{number}.a_layer_with_a_name_of_usual_length")
        for number, row in enumerate(answers().layers * 2500)
    )
    here(answers(results={ANY_INPUT: (SCORES.tobytes(),)}, layers=rows))
    asked = {"device": "local", "path": str(model), "loops": 2, "layers": True}
    found = perf(asked, NullReporter())
    assert len(found["text"]) > 400_000
    assert len(found["layers"]) == len(rows)


@pytest.mark.cc
def test_a_run_without_a_single_time_is_an_error_and_is_not_kept(
    here: MakeBoard, model: Path
) -> None:
    here(answers(results={}))
    with pytest.raises(RuntimeLibraryError, match="Nothing was measured") as caught:
        perf({"device": "local", "path": str(model), "threads": [1, 2]}, NullReporter())
    assert "RKNN_ERR_INPUT_INVALID" in caught.value.cause
    assert list(list_runs()) == []
