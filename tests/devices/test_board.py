"""The real agent and a stand-in of the runtime library on this machine; boards: faults/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import (
    JobCancelledError,
    RuntimeLibraryError,
)
from engine.devices.board.results import RunProgress
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from tests.devices.conftest import Libraries
from tests.devices.fake_board import FakeBoard
from tests.devices.known_model import IMAGE, answers, check_results
from tests.safety import patience

__all__ = ["patience"]


@pytest.fixture
def local(tmp_path: Path, libraries: Libraries, model: Path) -> Iterator[FakeBoard]:
    """A transport to this machine; the library and its settings are in ``root / "lib"``."""
    board = FakeBoard(tmp_path)
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "librknnrt.so").write_bytes(libraries().read_bytes())
    answers().into(folder / "answers", model)
    yield board
    board.close()


def library_of(board: FakeBoard) -> str:
    return str(board.root / "lib" / "librknnrt.so")


@pytest.mark.cc
def test_the_real_agent_runs_a_model(local: FakeBoard, model: Path) -> None:
    with BoardRuntime(local) as runtime:
        found = runtime.open(model, perf=True, library=library_of(local))
        assert found.library == library_of(local)
        assert found.api_version.startswith("2.3.2")
        assert found.inputs[0].shape == (1, 4, 4, 3)
        assert found.memory == runtime.memory()
        assert found.memory is not None
        assert found.memory.dma == 5939200
        check_results(runtime)
        assert "Conv:conv1" in str(runtime.run([BoardInput(IMAGE)]).perf)


@pytest.mark.cc
def test_an_input_that_the_library_does_not_take_is_told(local: FakeBoard, model: Path) -> None:
    with BoardRuntime(local) as runtime:
        runtime.open(model, library=library_of(local))
        with pytest.raises(RuntimeLibraryError, match="INPUT_INVALID"):
            runtime.run([BoardInput(IMAGE + 1)])
        check_results(runtime)


@pytest.mark.cc
@pytest.mark.parametrize("threads", [1, 3])
def test_a_run_of_the_real_agent_is_cancelled(local: FakeBoard, model: Path, threads: int) -> None:
    cancelled = False

    def check() -> None:
        if cancelled:
            raise JobCancelledError("It was cancelled.")

    def stop(_progress: RunProgress) -> None:
        nonlocal cancelled
        cancelled = True

    with BoardRuntime(local, check=check) as runtime:
        runtime.open(model, library=library_of(local))
        with pytest.raises(JobCancelledError):
            runtime.run([BoardInput(IMAGE)], loops=100_000, threads=threads, progress=stop)
        cancelled = False
        check_results(runtime)
