"""Boards and agents that fail, and runs that are cancelled."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    JobCancelledError,
    RuntimeLibraryError,
    UsageError,
)
from engine.devices.board.layout import find_folder
from engine.devices.board.results import RunProgress
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.probe.versions import LIBRARIES
from engine.devices.transport import Completed
from tests.devices.board.running import IMAGE, TOTAL, opened
from tests.devices.fake_agent import fake_agent
from tests.devices.fake_board import FakeBoard

# -- faults of the board


def test_a_board_without_a_library_is_told(board: FakeBoard, model: Path) -> None:
    board.files.update(dict.fromkeys(LIBRARIES[1] + LIBRARIES[2]))
    with (
        BoardRuntime(board, fake_agent()) as runtime,
        pytest.raises(RuntimeLibraryError, match="no runtime library"),
    ):
        runtime.open(model)
    assert not any(name.startswith("model-") for name in board.pushed)


def test_what_the_runtime_refuses_is_told_as_it_says(board: FakeBoard, model: Path) -> None:
    said = {
        "kind": "runtime library",
        "what": "rknn_init failed: RKNN_ERR_MODEL_INVALID (-6).\x1b[31m",
        "cause": "Invalid RKNN model version 6",
    }
    with BoardRuntime(board, fake_agent(refuse={"open": said})) as runtime:
        with pytest.raises(RuntimeLibraryError, match="MODEL_INVALID") as caught:
            runtime.open(model)
        assert caught.value.cause == "Invalid RKNN model version 6"
        assert "\x1b" not in str(caught.value)
        assert runtime.opened is None


@pytest.mark.parametrize("kind", ["worker", "device lost", "strange"])
def test_another_kind_of_refusal_is_still_about_the_board(
    talking: FakeBoard, model: Path, kind: str
) -> None:
    refuse = {"open": {"kind": kind, "what": "no"}}
    with (
        BoardRuntime(talking, fake_agent(refuse=refuse)) as runtime,
        pytest.raises(DeviceError, match="no") as caught,
    ):
        runtime.open(model)
    assert type(caught.value) is DeviceError


def test_an_agent_that_dies_says_how(board: FakeBoard, model: Path) -> None:
    with opened(board, model, die=["run"]) as runtime:
        with pytest.raises(DeviceError) as caught:
            runtime.run([BoardInput(IMAGE)])
        assert "Segmentation fault" in caught.value.cause
        assert not isinstance(caught.value, DeviceLostError)


def test_after_its_death_a_model_can_be_opened_again(talking: FakeBoard, model: Path) -> None:
    with opened(talking, model, die=["run"]) as runtime:
        with pytest.raises(DeviceError):
            runtime.run([BoardInput(IMAGE)])
        with pytest.raises(UsageError, match="No model is open"):
            runtime.run([BoardInput(IMAGE)])
        assert runtime.open(model).generation == 2
    assert len(talking.talks) == 2


def test_a_hang_ends_by_its_time_and_the_agent_with_it(talking: FakeBoard, model: Path) -> None:
    with opened(talking, model, hang={"run": 600}) as runtime:
        with pytest.raises(DeviceTimeoutError, match="did not answer `run`"):
            runtime.run([BoardInput(IMAGE)], seconds=0.3)
        assert not talking.talks[0].peer.open
        assert runtime.opened is None


def test_a_hang_of_one_request_ends_by_its_time(tmp_path: Path, model: Path) -> None:
    board = FakeBoard(tmp_path, converses=False)
    original, runtime = board.run, opened(board, model)

    def run(words: Any, **more: Any) -> Completed:
        if "--request" in words:
            raise DeviceTimeoutError("It did not end.")
        return original(words, **more)

    board.run = run  # type: ignore[method-assign]
    with runtime, pytest.raises(DeviceTimeoutError, match="did not answer `run`"):
        runtime.run([BoardInput(IMAGE)], seconds=0.3)


@pytest.mark.long
def test_a_runtime_that_hangs_twice_needs_a_restart(talking: FakeBoard, model: Path) -> None:
    with BoardRuntime(talking, fake_agent(hang={"open": 600})) as runtime:
        with pytest.raises(DeviceTimeoutError, match="did not load the model") as first:
            runtime.open(model, seconds=0.3)
        assert first.value.remedy.startswith("Try again")
        with pytest.raises(DeviceTimeoutError) as second:
            runtime.open(model, seconds=0.3)
        assert second.value.remedy == "Restart the board."


def test_what_reports_is_not_hanging(talking: FakeBoard, model: Path) -> None:
    with opened(talking, model, slow=0.4) as runtime:
        # each inference is in time, all together are not
        result = runtime.run([BoardInput(IMAGE)], loops=5, seconds=1.5)
    assert len(result.wall_us) == 5


def test_a_board_that_goes_while_it_runs_is_lost(talking: FakeBoard, model: Path) -> None:

    def pull(_progress: RunProgress) -> None:
        talking.pull_cable()

    with opened(talking, model, slow=0.05) as runtime, pytest.raises(DeviceLostError):
        runtime.run([BoardInput(IMAGE)], loops=10_000, progress=pull)
    assert len(talking.talks) == 1, "a run is never repeated"


def run_once(board: FakeBoard, model: Path) -> None:
    with BoardRuntime(board, fake_agent()) as runtime:
        runtime.open(model)
        runtime.run([BoardInput(IMAGE)])


@pytest.mark.parametrize("what", ["agent-", "model-", "in0", "session"])
def test_a_board_that_goes_while_a_file_is_pushed_is_lost(
    board: FakeBoard, model: Path, what: str
) -> None:
    def before(target: str) -> None:
        if what in Path(target).name:
            board.pull_cable()

    board.before_push = before
    with pytest.raises(DeviceLostError):
        run_once(board, model)
    # it comes back: what was left there is removed, and everything works
    board.gone, board.before_push = False, lambda _target: None
    for run in find_folder(board).runs():
        os.utime(find_folder(board).at(run), (0, 0))
    with opened(board, model) as runtime:
        assert runtime.run([BoardInput(IMAGE)]).outputs[0].array[0, 0] == TOTAL


@pytest.mark.usefixtures("no_agent")
def test_a_board_without_an_agent_is_told_before_anything_is_pushed(board: FakeBoard) -> None:
    with pytest.raises(DeviceError, match="There is no agent for fake-board") as caught:
        BoardRuntime(board)
    assert "devices agent build --target" in caught.value.remedy
    assert board.pushed == []


def test_two_users_of_this_machine_are_told_apart(board: FakeBoard, model: Path) -> None:
    with opened(board, model) as runtime:
        with pytest.raises(DeviceError, match="is in use"):
            BoardRuntime(board, fake_agent())
        assert runtime.run([BoardInput(IMAGE)]).outputs
    BoardRuntime(board, fake_agent()).close()


# -- cancelled


class Cancel:
    """What a caller gives as ``check``."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def __call__(self) -> None:
        if self.cancelled:
            raise JobCancelledError("It was cancelled.")


def test_a_run_is_cancelled_and_the_agent_stays(talking: FakeBoard, model: Path) -> None:
    cancel = Cancel()
    runtime = BoardRuntime(talking, fake_agent(slow=0.02), check=cancel)

    def stop(_progress: RunProgress) -> None:
        cancel.cancelled = True

    with closing(runtime):
        runtime.open(model)
        with pytest.raises(JobCancelledError):
            runtime.run([BoardInput(IMAGE)], loops=100_000, progress=stop)
        cancel.cancelled = False
        assert runtime.run([BoardInput(IMAGE)]).outputs[0].array[0, 0] == TOTAL
    assert len(talking.talks) == 1


def test_a_push_is_cancelled(board: FakeBoard, model: Path) -> None:
    cancel = Cancel()

    def stop(target: str) -> None:
        cancel.cancelled = "model-" in target

    with BoardRuntime(board, fake_agent(), check=cancel) as runtime:
        board.before_push = stop
        with pytest.raises(JobCancelledError):
            runtime.open(model)
        cancel.cancelled = False
    assert not [name for name in find_folder(board).names() if "model" in name]


def test_one_request_is_cancelled(tmp_path: Path, model: Path) -> None:
    board, cancel = FakeBoard(tmp_path, converses=False), Cancel()
    runtime = BoardRuntime(board, fake_agent(hang={"run": 1000}), check=cancel)
    runtime.open(model)
    with closing(runtime):
        Timer(0.3, cancel.cancel).start()
        with pytest.raises(JobCancelledError):
            runtime.run([BoardInput(IMAGE)])  # the program on the board is ended
        cancel.cancelled = False
        assert runtime.memory().weight == 10


def test_what_was_cancelled_is_put_back(board: FakeBoard, model: Path) -> None:
    cancel = Cancel()
    keep = Path(find_folder(board).at("clocks.json"))
    with BoardRuntime(board, fake_agent(slow=0.02), check=cancel) as runtime:
        runtime.open(model)
        runtime.fix_clocks([("/sys/governor", "userspace")])
        assert keep.exists()
        Timer(0.3, cancel.cancel).start()
        with pytest.raises(JobCancelledError):
            runtime.run([BoardInput(IMAGE)], loops=100_000)
        # who cancelled asks for nothing but the end, as a job of the worker does
    assert not keep.exists()
    with BoardRuntime(board, fake_agent()) as runtime:  # nobody has it any more
        assert runtime.open(model)
