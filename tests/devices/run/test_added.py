"""Boards that are added and removed by a query, as the workbench does it."""

from __future__ import annotations

import pytest

from engine.base.errors import DeviceError, UsageError
from engine.devices import emulated as door
from engine.devices.listing import poll
from engine.services import board as service
from engine.wire.codec import encode, read_answer
from engine.wire.devices import AddBoardParams, NamedBoard
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import adb_server

__all__ = ["adb_server"]
pytestmark = [pytest.mark.adb, pytest.mark.cc]


def add(params: AddBoardParams) -> NamedBoard:
    return read_answer(NamedBoard, service.add(encode(params)))


def remove(board: NamedBoard) -> None:
    service.remove(encode(board))


def listed() -> list[str]:
    return [device.id for device in poll().devices if device.state == "ready"]


def test_an_emulated_board_is_in_the_list_until_it_is_removed(adb_server: AdbServer) -> None:
    board = add(AddBoardParams(chip="RK3566"))
    try:
        assert board.chip == "rk3566"
        assert listed() == [board.device]
        again = add(AddBoardParams("adb", board.device))
        assert again == NamedBoard(board.device)
        remove(board)
        assert not listed()
    finally:
        door.close()
    with pytest.raises(DeviceError, match="No board answers"):
        add(AddBoardParams("adb", board.device))


def test_an_address_is_looked_at_before_it_is_used() -> None:
    assert add(AddBoardParams("ssh", "pi@board")).device == "ssh:pi@board"
    assert add(AddBoardParams("ssh", "ssh:pi")).device == "ssh:pi"
    for params in (AddBoardParams("ssh", "a b"), AddBoardParams("ssh"), AddBoardParams("adb")):
        with pytest.raises(UsageError):
            add(params)
