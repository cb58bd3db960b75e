"""A board that is this machine, with a stand-in of the runtime library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rknntui_emulator.runtime.answers import Answers
from tests.devices.conftest import Machine
from tests.devices.fake_board import FakeBoard
from tests.devices.known_model import answers
from tests.safety import patience

__all__ = ["patience"]

MakeBoard = Callable[..., FakeBoard]


@pytest.fixture
def here(machine: Machine, model: Path, monkeypatch: pytest.MonkeyPatch) -> MakeBoard:
    """Makes the board that every address leads to; its library knows a model."""

    def make(known: Answers | None = None, *, emulated: bool = True) -> FakeBoard:
        board = machine()
        board.files["/proc/device-tree/compatible"] = b"rockchip,rk3588\0"
        board.files["/etc/rknntui-emulated"] = b"" if emulated else None
        (known or answers()).into(board.root / "lib" / "answers", model)
        monkeypatch.setattr("engine.devices.connected.reach", lambda _address: board)
        return board

    return make
