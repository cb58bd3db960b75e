"""The ways to a board: by either adbd, by SSH with and without SFTP, and as this machine."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.base.peers import far
from engine.base.peers.near import Call
from engine.devices.address import Address
from engine.devices.transport import Conversation, Transport
from engine.devices.transports.adb.transport import AdbTransport
from engine.devices.transports.local import LocalTransport
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import serving
from tests.safety import PATIENCE, ends

WAYS = {
    kind: pytest.param(kind, marks=marks)
    for kind, marks in (
        ("adb", pytest.mark.adb),
        ("old adb", pytest.mark.adb),
        ("sftp", pytest.mark.sshd),
        ("cat", pytest.mark.sshd),  # as dropbear of a Buildroot image
        ("local", ()),
    )
}
TOY = Path(__file__).parents[1] / "base" / "peers" / "toy_far.py"


@dataclass
class Way:
    """A board that is reached.

    Attributes:
        kind: how.
        transport: to it.
        remote, here: a folder of it, there and on this machine.
        cut, mend: take the cable away and put it back.
        fill: let a file grow no larger than half a megabyte.
        asked: whether anybody was asked for anything.
    """

    kind: str
    transport: Transport
    remote: str
    here: Path
    cut: Callable[[], object]
    mend: Callable[[], object]
    fill: Callable[[], object]
    asked: Callable[[], bool]

    def names(self) -> list[str]:
        """What is in the folder."""
        return sorted(path.name for path in self.here.iterdir())

    def run(self, *words: str, **options: Any) -> Any:
        return self.transport.run(words, seconds=PATIENCE, **options)

    def talk(self, folder: Path) -> Conversation:
        """Start the program with bad habits there."""
        return start_toy(self.transport, self.remote, folder)


def start_toy(transport: Transport, remote: str, folder: Path) -> Conversation:
    """Start the program with bad habits on a board.

    Args:
        transport: to the board.
        remote: where it is put there.
        folder: of this machine, where it may be written.
    """
    toy = folder / TOY.name  # a program of this machine, as all of an emulated board
    toy.write_text(f"#!{sys.executable} -u\n{TOY.read_text('utf-8')}")
    for source in (Path(far.__file__), toy):
        transport.push(source, f"{remote}/{source.name}", executable=True)
    words = [f"{remote}/{name}" for name in (TOY.name, "far.py")]
    return transport.converse(words)


@contextmanager
def way_to(kind: str, request: pytest.FixtureRequest, home: Path, folder: Path) -> Iterator[Way]:
    """A board that is reached so."""
    if kind.endswith("adb"):
        server = request.getfixturevalue("adb_server")
        board = request.getfixturevalue("board")("rk3588" if kind == "adb" else "rk1808")
        transport: Transport = AdbTransport.open(board.address)
        here = board.root / "userdata" / "t"
        here.mkdir()
        asked = len(board.events)

        def mend() -> None:
            board.replug()
            server.reconnect(board.address)

        yield Way(
            *(kind, transport, "/userdata/t", here, board.unplug, mend),
            lambda: setattr(board.faults, "disk_free", 500_000),
            lambda: any("OPEN" in event for event in board.events[asked:]),
        )
    elif kind == "local":
        here = folder / "root" / "t"
        here.mkdir(parents=True)
        transport = LocalTransport(here.parent)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        nothing = lambda: None  # noqa: E731
        try:
            yield Way(
                *(kind, transport, "/t", here, nothing, nothing),
                lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1])),
                lambda: False,
            )
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
    else:
        here = folder / "board"
        here.mkdir()
        with serving(folder / "sshd", home) as sshd:
            if kind == "cat":
                sshd.configure(Subsystem="")
            transport = SshTransport(Address("ssh", "127.0.0.1", "", sshd.port))
            yield Way(
                *(kind, transport, str(here), here, sshd.cut, lambda: None),
                partial(sshd.limit_files, sftp=kind == "sftp"),
                lambda: bool(sshd.served),
            )
            transport.close()
    transport.close()


def ask(conversation: Conversation, method: str, **params: Any) -> Any:
    """The result of a request."""
    return conversation.peer.wait(conversation.peer.request(method, params))["result"]


def heard(conversation: Conversation, true: Callable[[], object]) -> None:
    """Take what comes until something holds."""
    with ends():
        while not true():
            assert conversation.peer.open
            conversation.peer.pump(0.05)


def pid_of(conversation: Conversation) -> int:
    """Number of the program's process."""
    heard(conversation, lambda: conversation.peer.greeting)
    return int(conversation.peer.greeting["pid"])


def hanging(conversation: Conversation) -> Call:
    """A call that is under way and does not end."""
    begun: list[object] = []
    call = conversation.peer.request("deaf", {}, begun.append)
    heard(conversation, lambda: begun)
    return call
