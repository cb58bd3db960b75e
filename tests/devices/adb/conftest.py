"""Boards as the transport reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from engine.devices.transports.adb.transport import AdbTransport
from tests.devices.faulty_board import FaultyBoard

FOLDER = "/userdata/t"

Opened = Callable[[FaultyBoard], AdbTransport]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens boards; they are let go at the end of the test."""
    with ExitStack() as ends:
        yield lambda board: ends.enter_context(closing(AdbTransport.open(board.address)))
