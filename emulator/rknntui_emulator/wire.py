"""Packets of the adb protocol, and one stream of bytes over them, as a board sees them.

Format: ``protocol.txt`` of AOSP's ``packages/modules/adb``. A packet is six 32-bit numbers, little
endian (command, two arguments, size, sum and inverted command), and its payload. In each direction
a stream has at most one WRTE that is not acknowledged by an OKAY.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "AUTH",
    "AUTH_PUBLIC_KEY",
    "AUTH_SIGNATURE",
    "AUTH_TOKEN",
    "CLSE",
    "CNXN",
    "HEADER",
    "OKAY",
    "OPEN",
    "WRTE",
    "OpenSide",
    "Packet",
    "Stream",
    "StreamClosedError",
    "checksum",
    "unpack",
]

CNXN, OPEN, OKAY, CLSE, WRTE, AUTH = (
    int.from_bytes(name, "little")
    for name in (b"CNXN", b"OPEN", b"OKAY", b"CLSE", b"WRTE", b"AUTH")
)

AUTH_TOKEN, AUTH_SIGNATURE, AUTH_PUBLIC_KEY = 1, 2, 3
"""First argument of AUTH."""

HEADER = struct.Struct("<6I")

LARGEST = 1 << 20
"""Bytes of payload that any version of the protocol allows."""


class StreamClosedError(ConnectionError):
    """The host closed the stream, or the connection is gone."""


@dataclass(frozen=True)
class Packet:
    """One packet; the meaning of both arguments depends on the command."""

    command: int
    first: int = 0
    second: int = 0
    payload: bytes = b""

    def pack(self) -> bytes:
        """The bytes that travel; the sum is there for hosts that still check it."""
        head = HEADER.pack(
            self.command,
            self.first,
            self.second,
            len(self.payload),
            checksum(self.payload),
            self.command ^ 0xFFFFFFFF,
        )
        return head + self.payload


def checksum(payload: bytes) -> int:
    """The sum of the bytes; a host from version 0x01000001 on does not look at it."""
    return sum(payload) & 0xFFFFFFFF


def unpack(head: bytes) -> tuple[Packet, int, int]:
    """The packet of a header without its payload, with the payload's size and sum.

    Raises:
        ValueError: it is no header of this protocol.
    """
    command, first, second, size, total, magic = HEADER.unpack(head)
    if magic != command ^ 0xFFFFFFFF or size > LARGEST:
        raise ValueError("not a packet of adb")
    return Packet(command, first, second), size, total


class OpenSide(Protocol):
    """The connection that a stream belongs to."""

    largest: int
    """Bytes of payload that the host accepts."""

    async def send(self, packet: Packet) -> None:
        """Send a packet to the host."""

    def acknowledges(self) -> bool:
        """Whether the host hears that its bytes have arrived."""

    def forget(self, local: int) -> None:
        """The stream of this number is over."""


class Stream:
    """One stream, at the board's end.

    Args:
        side: the connection.
        local: the number of the stream here.
        remote: its number at the host.
    """

    def __init__(self, side: OpenSide, local: int, remote: int) -> None:
        self._side = side
        self.local, self.remote = local, remote
        self._received: asyncio.Queue[bytes] = asyncio.Queue()
        self._buffer = bytearray()
        self._ended = False
        self._ready = asyncio.Event()
        self._ready.set()
        self.closed = False

    async def write(self, data: bytes) -> None:
        """Send bytes to the host, one packet after the other as it takes them.

        Raises:
            StreamClosedError: the host does not want more.
        """
        rest = memoryview(data)
        while rest and not self.closed:
            piece, rest = rest[: self._side.largest], rest[self._side.largest :]
            await self._ready.wait()
            if not self.closed:
                self._ready.clear()
                await self._side.send(Packet(WRTE, self.local, self.remote, bytes(piece)))
        if self.closed:
            raise StreamClosedError("the host closed the stream")

    async def read(self) -> bytes:
        """The next bytes of the host, empty at the end of the stream."""
        if self._buffer:
            data = bytes(self._buffer)
            self._buffer.clear()
            return data
        return await self._take()

    async def read_exactly(self, size: int) -> bytes:
        """``size`` bytes of the host.

        Raises:
            EOFError: the stream ended before.
        """
        while len(self._buffer) < size:
            data = await self._take()
            if not data:
                raise EOFError
            self._buffer += data
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _take(self) -> bytes:
        if self._ended:
            return b""
        data = await self._received.get()
        if not data:
            self._ended = True
        elif self._side.acknowledges() and not self.closed:
            await self._side.send(Packet(OKAY, self.local, self.remote))
        return data

    async def close(self) -> None:
        """End the stream, once the host has taken what was written."""
        if not self.closed:
            await self._ready.wait()
        if not self.closed:
            self.closed = True
            with contextlib.suppress(ConnectionError):
                await self._side.send(Packet(CLSE, self.local, self.remote))
        self._side.forget(self.local)

    def arrived(self, data: bytes) -> None:
        """The host wrote ``data``."""
        if data:
            self._received.put_nowait(data)

    def acknowledged(self) -> None:
        """The host took what was written last."""
        self._ready.set()

    def ended_by_host(self) -> None:
        """The host closed the stream, or the connection is gone."""
        self.closed = True
        self._ready.set()
        self._received.put_nowait(b"")
