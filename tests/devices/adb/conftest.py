"""Boards as the transport reaches them, and a program on them that can be asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base.peers import far
from engine.devices.transports.adb.conversation import AdbConversation
from engine.devices.transports.adb.transport import AdbTransport
from tests.devices.faulty_board import FaultyBoard

FOLDER = "/userdata/t"
TOY = Path(__file__).parents[2] / "base" / "peers" / "toy_far.py"

Opened = Callable[[FaultyBoard], AdbTransport]
Talks = Callable[[AdbTransport], AdbConversation]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens boards; they are let go at the end of the test."""
    made: list[AdbTransport] = []

    def open_board(board: FaultyBoard) -> AdbTransport:
        made.append(AdbTransport.open(board.address))
        return made[-1]

    yield open_board
    for transport in made:
        transport.close()


@pytest.fixture
def talks(tmp_path: Path) -> Talks:
    """Starts the toy on a board."""

    def start(transport: AdbTransport) -> AdbConversation:
        toy = tmp_path / TOY.name  # a program of this machine, as all of an emulated board
        toy.write_text(f"#!{sys.executable} -u\n{TOY.read_text('utf-8')}")
        for source in (Path(far.__file__), toy):
            transport.push(source, f"{FOLDER}/{source.name}", executable=True)
        words = [f"{FOLDER}/{name}" for name in (TOY.name, "far.py")]
        return transport.converse(words, environment={"RKNNTUI_TEST": "a-b"})

    return start
