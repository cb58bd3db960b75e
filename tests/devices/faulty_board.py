"""An emulated board that a test breaks: its cable, its disk, its programs, what is installed on it.

It is the board that the extra ``emulator`` ships, in a process of the test, with other parts where
something shall go wrong. Every test of a board that is reached over adb or SSH has this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import os
import shlex
import sys
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rknntui_emulator.boards import BOARDS
from rknntui_emulator.connection import OKAY, Connection, Packet, Stream
from rknntui_emulator.emulator import BoardEmulator
from rknntui_emulator.sandbox import Sandbox
from rknntui_emulator.shell import Framing, ShellService

if TYPE_CHECKING:
    from rknntui_emulator.runtime.answers import Answers
    from tests.devices.ssh.server import Sshd

__all__ = ["Faults", "FaultyBoard"]

AUTH = int.from_bytes(b"AUTH", "little")
AUTH_TOKEN, AUTH_SIGNATURE, AUTH_PUBLIC_KEY = 1, 2, 3
"""First argument of AUTH."""

_SESSION = "BOARD_SESSION"
"""In the environment of what adb started, and of all that this starts."""
_session: ContextVar[str] = ContextVar("session", default="")


@dataclass(slots=True)
class Faults:
    """Every fault of a board; by default there is none.

    Programs of the board do not see that its disk is full or read-only: files that are pushed do.

    Attributes:
        rate: bytes a second in each direction; None is as fast as it goes.
        refuse_connection: the host is not answered: its list says ``offline``.
        stall: what the host writes to a stream is taken and never acknowledged.
        hang_shell: a program is accepted and never answers.
        push_error: the text with which every push ends.
        disk_free: bytes that are free on the board; None is plenty.
        keep_partial: the half of a file that was pushed stays.
        read_only: folders of the board whose file system is read-only; ``/`` is all of it.
    """

    rate: float | None = None
    refuse_connection: bool = False
    stall: bool = False
    hang_shell: bool = False
    push_error: str | None = None
    disk_free: int | None = None
    keep_partial: bool = False
    read_only: tuple[str, ...] = ()


class _Sandbox(Sandbox):
    """Files on a disk that may be full or read-only."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def environment(self) -> dict[str, str]:
        own = {_SESSION: _session.get()} if _session.get() else {}
        return super().environment() | own

    def create(self, remote: str) -> BinaryIO:
        if self._faults.push_error is not None:
            raise OSError(errno.EIO, self._faults.push_error)
        plain = "/" + str(self.path(remote).relative_to(self.root))
        if any(plain.startswith(f.rstrip("/") + "/") for f in self._faults.read_only):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), remote)
        return _Counted(super().create(remote), self._faults)

    def discard(self, path: Path) -> None:
        if not self._faults.keep_partial:
            super().discard(path)

    def login(self) -> Path:
        """A program for the ``ForceCommand`` of an SSH server: it runs commands on this board."""
        facts = {
            "root": str(self.root),
            "paths": self._paths.pattern,
            "environment": self.environment(),
        }
        stored, script = self.root.parent / "login.json", self.root.parent / "login"
        stored.write_text(json.dumps(facts))
        program = Path(__file__).with_name("board_login.py")
        words = [sys.executable, "-I", "-S", str(program), str(stored)]
        script.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
        script.chmod(0o755)
        return script


class _Counted:
    """A file that takes the room that is left on the disk."""

    def __init__(self, file: BinaryIO, faults: Faults) -> None:
        self._file, self._faults, self.close = file, faults, file.close

    def write(self, data: bytes) -> None:
        free = self._faults.disk_free
        if free is not None:
            if len(data) > free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._faults.disk_free = free - len(data)
        self._file.write(data)


class _Shell(ShellService):
    """Programs, with the knowledge of who still listens to them."""

    def __init__(self, sandbox: Sandbox, faults: Faults) -> None:
        super().__init__(sandbox)
        self._faults = faults
        self._numbers = itertools.count(1)
        self._serving: set[str] = set()

    async def serve(self, stream: Stream, command: str, framing: Framing) -> None:
        if self._faults.hang_shell:
            while await stream.read():
                pass
            return
        number = str(next(self._numbers))
        _session.set(number)  # a stream is served by a task of its own
        self._serving.add(number)
        try:
            await super().serve(stream, command, framing)
        finally:
            self._serving.discard(number)

    def orphans(self) -> list[int]:
        found = []
        for pid in self.alive():
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
                session = variables.partition(f"\0{_SESSION}=")[2].partition("\0")[0]
                found += [pid] if session and session not in self._serving else []
        return found


class _Connection(Connection):
    """A connection over a bad cable, and to a board that asks its user first."""

    def __init__(self, board: FaultyBoard, *arguments: Any) -> None:
        self._board, self._faults = board, board.faults
        self._opened: set[int] = set()
        super().__init__(*arguments)

    @property
    def _rate(self) -> float | None:
        return self._faults.rate

    @_rate.setter
    def _rate(self, _rate: float | None) -> None:
        pass

    async def send(self, packet: Packet) -> None:
        if packet.command == OKAY:
            if self._faults.stall and packet.first in self._opened:
                return
            self._opened.add(packet.first)
        await super().send(packet)

    async def _dispatch(self, packet: Packet, payload: bytes) -> None:
        if packet.command != AUTH:
            await super()._dispatch(packet, payload)
        elif packet.first == AUTH_SIGNATURE:  # no key is known here: the host offers its next one
            await self.send(Packet(AUTH, AUTH_TOKEN, 0, os.urandom(20)))
        elif packet.first == AUTH_PUBLIC_KEY:
            self._log(f"AUTH public key of {payload[-32:]!r}")

    async def _welcome(self) -> None:
        if self._faults.refuse_connection:
            return
        if self._board.asks:
            await self.send(Packet(AUTH, AUTH_TOKEN, 0, os.urandom(20)))
        else:
            await super()._welcome()


class FaultyBoard(BoardEmulator):
    """An emulated board that a test breaks.

    Args:
        chip, port, android: as of :class:`BoardEmulator`.
        auth: the host has to be allowed first, and is not.
        serial, model, product: what it says of itself, sent as they are; None are its own.

    Attributes:
        faults: what goes wrong, to be changed at any time.
        events: what happened, oldest first.
        sshd: the SSH server that leads to it, where there is one.
    """

    sshd: Sshd | None = None

    def __init__(
        self,
        chip: str = "rk3588",
        port: int = 0,
        *,
        android: bool = False,
        auth: bool = False,
        serial: str | None = None,
        model: str | None = None,
        product: str | None = None,
    ) -> None:
        self.faults = Faults()
        self.events: list[str] = []
        self.asks = auth
        own = {"serial": serial, "model": model, "listed": model, "product": product}
        board = replace(BOARDS[chip], **{name: text for name, text in own.items() if text})
        super().__init__(board, port, android=android, heard=self.events.append)

    def _make_sandbox(self) -> _Sandbox:
        return _Sandbox(self.faults)

    def _make_shell(self) -> _Shell:
        return _Shell(self._sandbox, self.faults)

    def _make_connection(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> Connection:
        return _Connection(self, streams, self._greeting, self._services.find, self._log)

    def login(self) -> Path:
        """A program for the ``ForceCommand`` of an SSH server of the same user.

        It runs what is asked for on this board, in place of the machine; there is no SFTP.
        """
        return self._sandbox.login()

    @property
    def library_folder(self) -> Path:
        """Of the runtime library, on this machine."""
        return (self.root / self.image.library.lstrip("/")).parent

    def knows(self, library: Path, known: Answers, model: Path) -> None:
        """Give it a runtime library that answers for a model."""
        self.image.install_runtime(library)
        known.into(self.library_folder / "answers", model)

    def alive_orphans(self) -> list[int]:
        """Processes that adb started and that run on although nobody at the host listens."""
        return self._shell.orphans()

    def unplug(self) -> None:
        """Pull the cable: nothing listens any more, connections are cut. Programs run on."""
        self._call(self._unplug())

    def replug(self) -> None:
        """Put the cable back: the board is at the same address again."""
        self._call(self._listen())

    def drop(self) -> None:
        """Cut the connections; new ones are taken at once."""
        self._call(self._cut())

    def reboot(self, seconds: float = 1.0) -> None:
        """Restart: every program ends, ``/tmp`` is empty, the board is back after ``seconds``.

        It returns once the board has gone.
        """

        async def come_back() -> None:
            await asyncio.sleep(seconds)
            await self._listen()

        self._call(self._go_down())
        self._loop.call_soon_threadsafe(lambda: self._keep(come_back()))

    def set_frequency(self, hertz: int) -> None:
        """Let the NPU run at this frequency."""
        with self.image._changing:
            self.image.clocks.set_npu(hertz)
