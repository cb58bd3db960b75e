"""A sample on a board: prepared, run, timed, told and saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.base.errors import (
    DatasetError,
    JobCancelledError,
    OutputExistsError,
    UsageError,
)
from engine.base.events import CallbackReporter, Event, NullReporter, Progress, StageStarted
from engine.container.vendor import inspect_vendor
from engine.devices.address import Address
from engine.devices.board.layout import find_folder
from engine.devices.board.model_file import ModelFile
from engine.devices.board.results import OpenModel
from engine.devices.connected import Connected
from engine.devices.model_source import ModelSource
from engine.devices.probe.identify import BoardIdentity
from engine.devices.run.on_board import run_on_board
from engine.devices.transports.local import LocalTransport
from engine.wire.board import RunParams
from engine.wire.codec import read_request
from engine.wire.devices import BoardAnswer
from rknntui_emulator.runtime.answers import input_digest
from tests.container.vendor import build as vendor
from tests.devices.demo_container import demo_container
from tests.devices.known_model import IMAGE, SCALE, SCORES, ZERO, answers, stored
from tests.devices.run.conftest import MakeBoard

EXPECTED = (SCORES.astype(np.float32) - ZERO) * SCALE


def saved(folder: Path, array: np.ndarray) -> str:
    return str(stored(folder / "input.npy", array))


def params(model: Path, *inputs: str, **more: Any) -> RunParams:
    return RunParams(str(model), device="local", inputs=inputs, **more)


@pytest.mark.parametrize("emulated", [False, True])
def test_the_head_of_an_answer(emulated: bool) -> None:
    identity = BoardIdentity(chip="rk3588", emulated=emulated)
    board = Connected(Address("local", ""), LocalTransport(), identity)
    file = ModelFile(path=Path("m.rknn"), size=1, sha256="")
    opened = OpenModel(file, "/l.so", 2, "2.3.2", "0.9.8", (), (), None, ("the board's",))
    assert board.head(opened, "one", "two") == BoardAnswer(
        label="emulated" if emulated else "measured",
        device="local",
        chip="rk3588",
        runtime="2.3.2",
        driver="0.9.8",
        notes=("the board's", "one", "two"),
    )


@pytest.mark.cc
def test_a_sample_runs_and_is_told(here: MakeBoard, model: Path, tmp_path: Path) -> None:
    board = here()
    events: list[Event] = []
    asked = params(
        model, saved(tmp_path, IMAGE), loops=3, layers=True, top=2, save=str(tmp_path / "out")
    )
    found = run_on_board(asked, ModelSource(model), CallbackReporter(events.append))
    assert (found.label, found.chip, found.device) == ("emulated", "rk3588", "local")
    (output,) = found.outputs
    assert (output.name, output.shape, output.label) == ("scores", (1, 5), "emulated")
    assert [(top.index, top.value) for top in output.top] == [(4, 38.75), (3, 32.0)]
    assert found.milliseconds == 0.7
    assert [(row.name, row.id) for row in found.layers] == [("Conv:conv1", "")]
    assert found.memory is not None
    assert (found.memory.total, found.memory_reason) == (5939200, "")
    np.testing.assert_array_equal(np.load(found.saved[0]), EXPECTED)
    titles = [event.title for event in events if isinstance(event, StageStarted)]
    assert titles == ["Connect", "Send the model", "Run", "Time the layers"]
    told = [event for event in events if isinstance(event, Progress)]
    assert ("bytes", model.stat().st_size) in [(each.note, each.total) for each in told]
    assert ("inferences", 3) in [(each.note, each.total) for each in told]
    with pytest.raises(OutputExistsError):
        run_on_board(asked, ModelSource(model), NullReporter())
    assert find_folder(board).runs() == ()


@pytest.mark.cc
@pytest.mark.parametrize("stage", ["Send the model", "Run", "Time the layers"])
def test_a_run_is_cancelled_at_any_stage_and_leaves_nothing(
    here: MakeBoard, model: Path, tmp_path: Path, stage: str
) -> None:
    board = here()
    titles: list[str] = []

    def note(event: Event) -> None:
        titles.extend([event.title] if isinstance(event, StageStarted) else [])

    reporter = CallbackReporter(note, cancelled=lambda: stage in titles)
    asked = params(model, saved(tmp_path, IMAGE), loops=50_000, layers=True)
    asked = replace(asked, loops=1) if stage == "Time the layers" else asked
    asked = replace(asked, save=str(tmp_path / "out"))
    with pytest.raises(JobCancelledError):
        run_on_board(asked, ModelSource(model), reporter)
    assert titles[-1] == stage
    assert find_folder(board).runs() == ()
    files = [path.name for path in (tmp_path / "out").glob("*")]
    assert files == (["scores.npy"] if stage == "Time the layers" else [])


@pytest.mark.cc
@pytest.mark.parametrize("batch", [True, False])
def test_arrays_are_taken_as_they_are(
    here: MakeBoard, model: Path, tmp_path: Path, batch: bool
) -> None:
    here()
    array = IMAGE.transpose(0, 3, 1, 2)
    path = saved(tmp_path, array if batch else array[0])
    found = run_on_board(params(model, path), ModelSource(model), NullReporter())
    assert found.outputs[0].maximum == EXPECTED.max()


@pytest.mark.cc
def test_a_picture_becomes_pixels_of_the_inputs_size(
    here: MakeBoard, model: Path, tmp_path: Path
) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5
    large = np.full((8, 8, 3), 7, np.uint8)
    known = [input_digest([taken.tobytes()]) for taken in (pixels, large[:4, :4])]
    here(answers(results=dict.fromkeys(known, (SCORES.tobytes(),))))
    for picture, scaled in ((pixels, []), (large, [True])):
        Image.fromarray(picture).save(tmp_path / "a.png")
        asked = params(model, str(tmp_path / "a.png"))
        found = run_on_board(asked, ModelSource(model), NullReporter())
        assert found.outputs[0].maximum == EXPECTED.max()
        assert ["scaled to the input" in note for note in found.notes] == scaled


def test_files_are_looked_at_before_the_board(tmp_path: Path, model: Path) -> None:
    with pytest.raises(DatasetError, match="does not exist"):
        run_on_board(params(model, str(tmp_path / "no.npy")), ModelSource(model), NullReporter())


@pytest.mark.cc
def test_what_does_not_fit_is_refused(here: MakeBoard, model: Path, tmp_path: Path) -> None:
    here()
    path = saved(tmp_path, IMAGE)
    with pytest.raises(UsageError, match="2 files were given for 1 inputs"):
        run_on_board(params(model, path, path), ModelSource(model), NullReporter())
    with pytest.raises(UsageError, match="cores"):
        read_request(RunParams, {"path": str(model), "inputs": [str(path)], "cores": "7"})
    wrong = saved(tmp_path, IMAGE[:, :3])
    with pytest.raises(DatasetError, match="has the shape"):
        run_on_board(params(model, wrong), ModelSource(model), NullReporter())


@pytest.mark.cc
def test_a_real_board_runs_no_recipe(here: MakeBoard, tmp_path: Path, model: Path) -> None:
    here(emulated=False)
    source = ModelSource(content=lambda: b"")
    with pytest.raises(UsageError, match="A recipe cannot run") as caught:
        run_on_board(params(model, saved(tmp_path, IMAGE)), source, NullReporter())
    assert "rk3588" in caught.value.remedy


@pytest.mark.cc
@pytest.mark.parametrize("ours", [True, False])
def test_what_does_not_fit_is_found_before_the_model_is_sent(
    here: MakeBoard, tmp_path: Path, ours: bool
) -> None:
    here()
    model, name = tmp_path / "model.rknn", "logits"
    if ours:
        demo_container(model, "rk3588", quantized=False)
        shape: tuple[int, ...] = (1, 1, 8, 8)
    else:
        model.write_bytes(vendor.npu())
        told = inspect_vendor(model)
        shape, name = told.inputs[0].tensor.shape, told.outputs[0].tensor.name
        assert len(told.inputs) == 1
    good = saved(tmp_path, np.zeros(shape, np.uint8))
    (tmp_path / "wrong").mkdir()
    wrong = saved(tmp_path / "wrong", np.zeros((1, 2, 3), np.uint8))
    out = tmp_path / "out"
    out.mkdir()
    (out / f"{name}.npy").write_bytes(b"kept")
    for asked, error, words in (
        (params(model, good, good), UsageError, "2 files were given for 1 inputs"),
        (params(model, wrong), DatasetError, r"has the shape \[1, 2, 3\]|has the shape 1x2x3"),
        (params(model, good, save=str(out)), OutputExistsError, "exists already"),
    ):
        events: list[Event] = []
        with pytest.raises(error, match=words):
            run_on_board(asked, ModelSource(model), CallbackReporter(events.append))
        assert [e.title for e in events if isinstance(e, StageStarted)] == ["Connect"]
    assert (out / f"{name}.npy").read_bytes() == b"kept"
