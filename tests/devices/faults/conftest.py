"""A board that is reached over adb, by an old adbd, or over SSH, and what can happen to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.devices.address import Address
from engine.devices.board.runtime import BoardRuntime
from engine.devices.transport import Transport
from engine.devices.transports.adb.transport import AdbTransport
from engine.devices.transports.ssh import SshTransport
from rknntui_emulator.runtime.answers import Answers
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Libraries
from tests.devices.faulty_board import FaultyBoard
from tests.devices.known_model import OLD_IMAGE, OLD_SCORES, answers, check_results, first_answers
from tests.devices.ssh.server import Sshd
from tests.devices.waiting import processes, until
from tests.safety import patience

__all__ = ["patience"]


@dataclass
class Way:
    """A board and the way to it.

    Attributes:
        kind: ``adb``, ``old adb`` or ``ssh``.
        made: the board.
        model: one that it runs.
        server, sshd: that lead to it; None where it is reached otherwise.
    """

    kind: str
    made: FaultyBoard
    model: Path
    server: AdbServer | None
    sshd: Sshd | None
    _opened: list[Transport] = field(default_factory=list)

    @property
    def old(self) -> bool:
        return self.kind == "old adb"

    def open(self) -> Transport:
        """A new connection; it is closed at the end of the test."""
        transport: Transport
        if self.sshd is not None:
            transport = SshTransport(Address("ssh", "127.0.0.1", "", self.sshd.port))
        else:
            transport = AdbTransport.open(self.made.address)
        self._opened.append(transport)
        return transport

    def close(self) -> None:
        for transport in self._opened:
            transport.close()

    def cut(self) -> None:
        """Pull the cable."""
        if self.sshd is None:
            self.made.unplug()
        else:
            self.sshd.refused.set()
            self.sshd.cut()

    def reboot(self) -> None:
        """Restart the board, as a power cut does: the network goes before the programs end."""
        if self.sshd is not None:
            self.sshd.cut()
        self.made.reboot(0.1)

    def wait(self) -> None:
        """Put the cable back, and wait until the board can be reached."""
        if self.sshd is not None:
            self.sshd.refused.clear()
            return
        assert self.server is not None
        self.made.replug()
        self.server.reconnect(self.made.address)

    def library(self, library: Path, known: Answers | None = None) -> None:
        """Give the board a runtime library that knows the model."""
        self.made.knows(library, known or (first_answers() if self.old else answers()), self.model)

    def settings(self, text: str) -> None:
        """What the runtime library does wrong."""
        (self.made.library_folder / "emulated.conf").write_text(f"{text}\n")

    def check(self) -> None:
        """The board runs the model as if nothing had been, and nothing of before is left there."""
        with BoardRuntime(self.open()) as runtime:
            runtime.open(self.model)
            self.check_results(runtime)
        assert [name.partition("-")[0] for name in self.names()] == ["agent", "model"]
        until(lambda: not self.alive(), "the programs on the board have ended")

    def check_results(self, runtime: BoardRuntime) -> None:
        """The model that is open gives what it should."""
        if self.old:
            check_results(runtime, OLD_IMAGE, OLD_SCORES, 28)
        else:
            check_results(runtime)

    def names(self) -> list[str]:
        """What is in our folder on the board."""
        place = self.made.root / "userdata" / "rknntui"
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []

    def alive(self) -> list[int]:
        """The agents that run on the board, whoever started them."""
        return processes(f"BOARD_ROOT={self.made.root}", "/agent-")


@pytest.fixture(
    params=[
        pytest.param("adb", marks=pytest.mark.adb),
        pytest.param("old adb", marks=pytest.mark.adb),
        pytest.param("ssh", marks=pytest.mark.sshd),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    """How the board is reached."""
    return str(request.param)


@pytest.fixture
def ways(
    request: pytest.FixtureRequest, kind: str, model: Path, first_model: Path
) -> Iterator[Callable[..., Way]]:
    """Makes a board, one in a test; options as of :class:`FaultyBoard`."""
    with ExitStack() as held:

        def make(**options: Any) -> Way:
            chip = "rk1808" if kind == "old adb" else "rk3588"
            if kind == "ssh":
                made, server = request.getfixturevalue("ssh_board")(chip, **options)[0], None
            else:
                made = request.getfixturevalue("board")(chip, **options)
                server = request.getfixturevalue("adb_server")
            compiled = first_model if kind == "old adb" else model
            way = Way(kind, made, compiled, server, made.sshd)
            held.callback(way.close)
            return way

        yield make


@pytest.fixture
def way(ways: Callable[..., Way], kind: str, libraries: Libraries) -> Way:
    """A board that runs the model."""
    found = ways()
    found.library(libraries(1 if kind == "old adb" else 2))
    return found
