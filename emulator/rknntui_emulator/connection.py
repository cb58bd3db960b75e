"""One connection of an adb server to the emulated board: its packets, its greeting, its streams.

Format: ``protocol.txt`` of AOSP's ``packages/modules/adb``. A packet is six 32-bit numbers, little
endian (command, two arguments, size, sum and inverted command), and its payload. In each direction
a stream has at most one WRTE that is not acknowledged by an OKAY.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

CNXN, OPEN, OKAY, CLSE, WRTE = (
    int.from_bytes(name, "little") for name in (b"CNXN", b"OPEN", b"OKAY", b"CLSE", b"WRTE")
)

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
        size, total, magic = len(self.payload), checksum(self.payload), self.command ^ 0xFFFFFFFF
        return HEADER.pack(self.command, self.first, self.second, size, total, magic) + self.payload


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


class Stream:
    """One stream, at the board's end.

    Args:
        side: the connection.
        local: the number of the stream here.
        remote: its number at the host.
    """

    def __init__(self, side: Connection, local: int, remote: int) -> None:
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
        elif not self.closed:
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
        self._side.streams.pop(self.local, None)

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


_PIECES_A_SECOND = 10
_LONGEST = 4096
"""Bytes of a service's name that are told: no command for a board is longer."""

Service = Callable[[Stream], Awaitable[None]]
"""Serves one stream to its end."""


@dataclass(frozen=True)
class Greeting:
    """What a board says of itself.

    Attributes:
        banner: the text of CNXN: ``device::`` and the properties.
        version: of the protocol; below 0x01000001 both sides check the sum of each payload.
        largest: bytes of payload that the board accepts.
    """

    banner: bytes
    version: int
    largest: int


class Connection:
    """One connection, from its first byte to its last.

    Args:
        streams: to the host and back.
        greeting: what the board says of itself.
        find: gives the service of a name, None where the board has none of it.
        log: takes a line on what happened.
        rate: of the link in each direction, in bytes a second; None is as fast as it goes.

    Attributes:
        largest: bytes of payload that the host accepts.
        streams: those that are open, by their number here.
        over: set once the connection and all that it served have ended.
    """

    def __init__(
        self,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        greeting: Greeting,
        find: Callable[[str], Service | None],
        log: Callable[[str], object],
        rate: float | None = None,
    ) -> None:
        self._reader, self._writer = streams
        self._greeting, self._rate = greeting, rate
        self._find, self._log = find, log
        self.streams: dict[int, Stream] = {}
        self._next = 1
        self._online = False
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.largest = 4096
        self.over = asyncio.Event()
        self._gone = asyncio.Event()

    def abort(self) -> None:
        """Cut the connection as a pulled cable does."""
        self._gone.set()
        self._writer.transport.abort()

    async def send(self, packet: Packet) -> None:
        """Send a packet, as fast as the link is.

        Raises:
            ConnectionError: the connection is gone.
        """
        data = memoryview(packet.pack())
        async with self._sending:
            for size in self._pieces(len(data)):
                await self._pass(size)
                piece, data = data[:size], data[size:]
                self._writer.write(piece)
                await self._writer.drain()

    async def run(self) -> None:
        """Serve the host until the connection ends."""
        try:
            while True:
                await self._next_packet()
        except (asyncio.IncompleteReadError, OSError, ValueError) as error:
            self._log(f"connection ended: {type(error).__name__}")
        finally:
            for stream in list(self.streams.values()):
                stream.ended_by_host()
            self.abort()
            await asyncio.sleep(0)  # services see the end of their stream before they are ended
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.over.set()

    async def _next_packet(self) -> None:
        packet, size, total = unpack(await self._reader.readexactly(HEADER.size))
        payload = b""
        for piece in self._pieces(size):
            payload += await self._reader.readexactly(piece)
            await self._pass(piece)
        if size > self._greeting.largest and packet.command != CNXN:
            raise ValueError("the host sent more at once than the board accepts")
        checks = self._greeting.version < 0x01000001
        if checks and packet.command != CNXN and total != checksum(payload):
            raise ValueError("the sum of a payload is wrong")
        await self._dispatch(packet, payload)

    def _pieces(self, size: int) -> list[int]:
        """How many bytes pass at once: all of them, or little by little where the link is slow."""
        if self._rate is None:
            return [size]
        piece = max(1, int(self._rate / _PIECES_A_SECOND))
        whole, rest = divmod(size, piece)
        return [piece] * whole + [rest] * bool(rest)

    async def _pass(self, size: int) -> None:
        """Wait for as long as bytes need on the link."""
        if self._rate and size:
            await self._pause(size / self._rate)

    async def _pause(self, seconds: float) -> None:
        """Wait, but for no connection that is gone."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), seconds)

    async def _dispatch(self, packet: Packet, payload: bytes) -> None:
        if packet.command == CNXN:
            await self._greet(packet, payload)
        elif not self._online:
            return
        elif packet.command == OPEN:
            await self._open(packet, payload)
        elif packet.command == OKAY:
            if stream := self.streams.get(packet.second):
                stream.acknowledged()
        elif packet.command == WRTE:
            if stream := self.streams.get(packet.second):
                stream.arrived(payload)
            else:
                await self.send(Packet(CLSE, 0, packet.first))
        elif packet.command == CLSE and (stream := self.streams.pop(packet.second, None)):
            stream.ended_by_host()

    async def _greet(self, packet: Packet, payload: bytes) -> None:
        self.largest = max(4096, min(packet.second, self._greeting.largest))
        self._log(f"CNXN version={packet.first:#x} maxdata={packet.second} {payload[:80]!r}")
        await self._welcome()

    async def _welcome(self) -> None:
        self._online = True
        greeting = self._greeting
        await self.send(Packet(CNXN, greeting.version, greeting.largest, greeting.banner))

    async def _open(self, packet: Packet, payload: bytes) -> None:
        name = payload.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
        self._log(f"OPEN {name[:_LONGEST]!r}")
        service = self._find(name)
        if service is None:
            await self.send(Packet(CLSE, 0, packet.first))
            return
        stream = Stream(self, self._next, packet.first)
        self._next += 1
        self.streams[stream.local] = stream
        await self.send(Packet(OKAY, stream.local, stream.remote))
        self._spawn(self._serve(stream, service))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, stream: Stream, service: Service) -> None:
        try:
            await service(stream)
        except (OSError, EOFError) as error:
            self._log(f"service ended: {type(error).__name__}: {error}")
        finally:
            with contextlib.suppress(ConnectionError):
                await stream.close()
