"""A board that is this machine, with a stand-in of the runtime library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.devices.address import Address
from engine.devices.probe.libraries import LIBRARIES
from rknntui_emulator.runtime.answers import Answers
from tests.devices.conftest import Libraries
from tests.devices.fake_board import FakeBoard
from tests.devices.known_model import answers
from tests.safety import patience

__all__ = ["patience"]

MakeBoard = Callable[..., FakeBoard]


@pytest.fixture
def here(
    tmp_path: Path,
    libraries: Libraries,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeBoard]:
    """Makes the board that every address leads to; its library knows a model."""
    boards: list[FakeBoard] = []

    def make(
        known: Answers | None = None,
        *,
        chip: str = "rk3588",
        generation: int = 2,
        file: Path = model,
        emulated: bool = True,
    ) -> FakeBoard:
        board = FakeBoard(tmp_path / "board")
        boards.append(board)
        board.files["/proc/device-tree/compatible"] = f"rockchip,{chip}\0".encode()
        board.files["/etc/rknntui-emulated"] = b"" if emulated else None
        name = "librknnrt.so" if generation == 2 else "librknn_runtime.so"
        library = board.root / "lib" / name
        library.parent.mkdir(parents=True)
        library.write_bytes(libraries(generation).read_bytes())
        (known or answers()).into(library.parent / "answers", file)
        monkeypatch.setitem(LIBRARIES, generation, (str(library),))
        return board

    def reach(_address: Address) -> FakeBoard:
        return boards[-1]

    monkeypatch.setattr("engine.devices.connected.reach", reach)
    yield make
    for board in boards:
        board.close()
