"""The real agent and a stand-in of the runtime library on this machine; boards: faults/."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import (
    RuntimeLibraryError,
)
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from tests.devices.conftest import Machine
from tests.devices.fake_board import FakeBoard
from tests.devices.known_model import IMAGE, answers, check_results
from tests.safety import patience

__all__ = ["patience"]


@pytest.fixture
def local(machine: Machine, model: Path) -> FakeBoard:
    """This machine as a board whose library knows the model."""
    board = machine()
    answers().into(board.root / "lib" / "answers", model)
    return board


@pytest.mark.cc
def test_the_real_agent_runs_a_model(local: FakeBoard, model: Path) -> None:
    with BoardRuntime(local) as runtime:
        found = runtime.open(model, perf=True)
        assert found.library == str(local.root / "lib" / "librknnrt.so")
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
        runtime.open(model)
        with pytest.raises(RuntimeLibraryError, match="INPUT_INVALID"):
            runtime.run([BoardInput(IMAGE + 1)])
        check_results(runtime)
