"""What every way to a board can do: run a program, move files, hold a conversation.

No text of a user, a model or a board becomes a part of a command: paths on a board are made by
:mod:`engine.devices.board.layout`, and a user's names travel inside messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from engine.base.errors import (
    DeviceAccessError,
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
)
from engine.base.peers.near import Call, Peer

UNREACHABLE = (DeviceAccessError, DeviceLostError, DeviceTimeoutError)
"""Errors of the way to a board. They say nothing of what was asked for: whoever can do without that
lets them through."""

LINE_LIMIT = 1 << 20
"""The longest line that a program of a board may send, in bytes. Tensors travel as files; the
longest of the rest are the table of layers of a model, 300 bytes each, and the times of many
runs."""

TransportKind = Literal["adb", "ssh", "local", "ntb"]

Check = Callable[[], object] | None
"""Called ten times a second by who waits; what it raises ends the waiting. None: nothing is."""

Moved = Callable[[int, int], object]
"""Called with the bytes that are there by now and all of them; what it raises ends the transfer."""


@dataclass(frozen=True)
class Completed:
    """A program of the board that has ended.

    Attributes:
        code: its exit code.
        out, err: what it wrote, cut at the limit; a board that mixes both has all in ``out``.
    """

    code: int
    out: bytes
    err: bytes = b""

    @property
    def text(self) -> str:
        """``out`` as text, with the line ends of this machine."""
        return self.out.decode("utf-8", "replace").replace("\r\n", "\n")


class Conversation(Protocol):
    """A program of the board that is asked over its own streams, see :mod:`engine.base.peers`."""

    @property
    def peer(self) -> Peer:
        """Who is asked."""

    def lost(self) -> DeviceError:
        """Why no answer will come: how the program ended, and what it said last."""

    def stop(self, call: Call) -> bool:
        """End a call: cancelled first, then by ending the program; whether that still runs."""

    def end(self) -> None:
        """Let the program go and close the streams; nothing of it runs afterwards."""


class Transport(Protocol):
    """One board and the way to it.

    Every method raises :class:`~engine.base.errors.DeviceLostError` where the board has gone,
    :class:`~engine.base.errors.DeviceTimeoutError` where it does not answer in time,
    :class:`~engine.base.errors.DeviceAccessError` where it does not let us in, and
    :class:`~engine.base.errors.DeviceStorageError` where a file cannot be read or written there.
    None of them blocks for longer than it says.

    Attributes:
        kind: how the board is reached.
        name: its serial number or address, as the user gives it.
        converses: whether :meth:`converse` works; old boards run a program for one request only.
    """

    kind: TransportKind
    name: str
    converses: bool

    def run(
        self,
        words: Sequence[str],
        *,
        seconds: float = 10.0,
        limit: int = 1 << 20,
        check: Check = None,
    ) -> Completed:
        """Run a program of the board and wait for its end.

        Args:
            words: program and arguments; each is one argument there, whatever it contains.
            seconds: until it has to end.
            limit: bytes of its output that are kept.
            check: called ten times a second; what it raises ends the program.
        """

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """The content of a small file, as of ``/proc`` and ``/sys``; None where there is none."""

    def push(
        self, source: Path, target: str, *, executable: bool = False, moved: Moved | None = None
    ) -> None:
        """Copy a file to the board: whole under its name, or not there at all."""

    def pull(self, source: str, target: Path, *, limit: int, moved: Moved | None = None) -> None:
        """Copy a file of at most ``limit`` bytes from the board: whole, or not there at all."""

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files of ours that may be there."""

    def converse(self, words: Sequence[str]) -> Conversation:
        """Start a program, with its arguments, that speaks the protocol of
        :mod:`engine.base.peers.far`.
        """

    def close(self) -> None:
        """Let the board go; conversations end."""
