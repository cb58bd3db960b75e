"""A program of a board that is asked over adb's ``shell,v2,raw`` stream.

The packets of that stream are taken apart and made here, in two raw streams over the one socket,
so that :class:`~engine.base.peers.near.Peer` serves them as it serves pipes: it never blocks, and
no thread is needed.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable
from io import RawIOBase

from engine.base.errors import DeviceError, DeviceLostError
from engine.base.peers.child import GOODBYE_SECONDS
from engine.base.peers.near import Call, Peer
from engine.devices.transport import LINE_LIMIT
from engine.devices.transports.adb.link import Deadline, Link
from engine.devices.transports.adb.shell import (
    CLOSE_INPUT,
    EXIT,
    INPUT,
    STDERR,
    STDOUT,
    Packets,
    packet,
)
from engine.devices.transports.shared import STOP_SECONDS, ending, last_line

_PIECE = 1 << 15
_TAIL = 1 << 16


class _Said(RawIOBase):
    """What the program writes to its output.

    Attributes:
        tail: the end of what it wrote to stderr.
        code: its exit code, once it came.
    """

    def __init__(self, handle: socket.socket) -> None:
        self._socket = handle
        self._packets = Packets()
        self.tail = bytearray()
        self.code: int | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self, size: int = -1, /) -> bytes | None:
        """What came; None where that was nothing, or was not output; empty at the end.

        It takes no more from the socket than it gives: what stayed here would wake nobody.
        """
        try:
            data = self._socket.recv(size if size > 0 else _PIECE)
        except BlockingIOError:
            return None
        out = b"".join(self._sorted(data))
        return out if out or not data else None

    def _sorted(self, data: bytes) -> list[bytes]:
        pieces = []
        for stream, piece in self._packets.feed(data):
            if stream == STDOUT:
                pieces.append(piece)
            elif stream == STDERR:
                self.tail += piece
                del self.tail[:-_TAIL]
            elif stream == EXIT:
                self.code = piece[0]
                # the end, also where the board leaves the stream open
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RD)
        return pieces

    def close(self) -> None:
        super().close()
        self._socket.close()


class _Told(RawIOBase):
    """What the program reads as its input."""

    def __init__(self, handle: socket.socket) -> None:
        self._socket = handle
        self._head = b""  # what is left of a packet's head
        self._left = 0  # bytes of its data that are to follow

    def fileno(self) -> int:
        return self._socket.fileno()

    def write(self, data: bytes | bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        """Send the beginning of ``data``, as much as goes without waiting.

        A packet that was begun promised bytes: the next call brings them, as a caller keeps what
        was not taken.
        """
        if self.closed:
            raise ValueError("the stream is closed")
        view = memoryview(data)
        if not self._left and view:
            self._left = min(len(view), _PIECE)
            self._head = packet(INPUT, bytes(self._left))[: -self._left]
        try:
            sent = self._socket.send(self._head + bytes(view[: self._left]))
        except BlockingIOError:
            return None
        taken = max(0, sent - len(self._head))
        self._head = self._head[sent:]
        self._left -= taken
        return taken

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(OSError):
                if self._left:  # half a packet: only the end of the whole stream ends it
                    self._socket.shutdown(socket.SHUT_WR)
                else:
                    self._socket.send(packet(CLOSE_INPUT))
            super().close()
            self._socket.close()


class AdbConversation:
    """As :class:`~engine.devices.transport.Conversation`.

    Args:
        board: the board's name, for errors.
        link: on which the program was started; it belongs to this object.
        gone: why the board cannot be reached, asked where the stream ended without an exit code.

    Attributes:
        peer: who is asked.
    """

    def __init__(self, board: str, link: Link, gone: Callable[[], DeviceError]) -> None:
        self._board, self._link = board, link
        self._gone = gone
        self._stopped = False
        self._said = _Said(link.socket)
        # a descriptor of its own: who waits for both streams registers each
        self._told = _Told(link.socket.dup())
        self.peer = Peer(self._said, self._told, limit=LINE_LIMIT)

    def lost(self) -> DeviceError:
        """Why no answer will come: how the program ended, and what it said last."""
        said = last_line(self._said.tail)
        tail = f" It said last: {said}" if said else ""
        code = self._said.code
        if self.peer.fault:
            return DeviceError(
                f"The program on the board {self._board} does not keep to the protocol: "
                f"{self.peer.fault}.",
                cause=f"Another program answers, or a library printed to its output.{tail}",
                remedy="Try again; if it stays so, report it.",
            )
        if code is None and self._stopped:
            return DeviceLostError(
                f"The program on the board {self._board} was ended from here.",
                cause=f"It did not end what it was asked to.{tail}",
                remedy="Start it again. If the NPU hangs, restart the board.",
            )
        if code is None:
            error = self._gone()
            return type(error)(error.what, cause=error.cause + tail, remedy=error.remedy)
        how, cause = ending(code)
        return DeviceError(
            f"The program on the board {self._board} {how}.",
            cause=cause + tail,
            remedy="Try again. If it happens again, restart the board.",
        )

    def stop(self, call: Call) -> bool:
        """End a call: cancelled first, then by ending the program; whether that still runs.

        adbd sends SIGHUP to the program whose stream is closed.
        """
        return self.peer.stop(call, [self._drop], STOP_SECONDS)

    def _drop(self) -> None:
        self._stopped = self.peer.open
        self.peer.close()

    def end(self) -> None:
        """Let the program go: its input ends, and what then still runs gets SIGHUP."""
        if not self._said.closed:
            self.peer.hang_up()
            deadline = Deadline(GOODBYE_SECONDS)
            with contextlib.suppress(OSError):
                while self._said.read(_PIECE) != b"":
                    self._link.wait(select.POLLIN, deadline)
        self.peer.close()
