"""One connection of an adb server to the emulated board: greeting, authorisation, streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from rknntui_emulator.faults import Faults, pieces
from rknntui_emulator.wire import (
    AUTH,
    AUTH_PUBLIC_KEY,
    AUTH_SIGNATURE,
    AUTH_TOKEN,
    CLSE,
    CNXN,
    HEADER,
    OKAY,
    OPEN,
    WRTE,
    Packet,
    Stream,
    checksum,
    unpack,
)

__all__ = ["Connection", "Greeting", "Service"]

_LOOK_SECONDS = 0.02
_LONGEST = 4096
"""Bytes of a service's name that are told: no command for a board is longer."""

Service = Callable[[Stream], Awaitable[None]]
"""Serves one stream to its end."""


@dataclass
class Greeting:
    """What a board says of itself, and to whom.

    Attributes:
        banner: the text of CNXN: ``device::`` and the properties.
        version: of the protocol; below 0x01000001 both sides check the sum of each payload.
        largest: bytes of payload that the board accepts.
        asks: whether the user of the board has to allow the host first.
        allowed: whether that happened.
    """

    banner: bytes
    version: int
    largest: int
    asks: bool = False
    allowed: asyncio.Event = field(default_factory=asyncio.Event)


class Connection:
    """One connection, from its first byte to its last.

    Args:
        greeting: what the board says of itself.
        faults: what goes wrong.
        find: gives the service of a name, None where the board has none of it.
        log: takes a line on what happened.

    Attributes:
        largest: bytes of payload that the host accepts.
        over: set once the connection and all that it served have ended.
    """

    def __init__(
        self,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        greeting: Greeting,
        faults: Faults,
        find: Callable[[str], Service | None],
        log: Callable[[str], object],
    ) -> None:
        self._reader, self._writer = streams
        self._greeting, self._faults = greeting, faults
        self._find, self._log = find, log
        self._streams: dict[int, Stream] = {}
        self._next = 1
        self._online = False
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._received = self._sent = 0
        self.largest = 4096
        self.over = asyncio.Event()
        self._gone = asyncio.Event()

    def abort(self) -> None:
        """Cut the connection as a pulled cable does."""
        self._gone.set()
        self._writer.transport.abort()

    def acknowledges(self) -> bool:
        """Whether the host hears that its bytes have arrived."""
        return not self._faults.stall

    def forget(self, local: int) -> None:
        """The stream of this number is over."""
        self._streams.pop(local, None)

    async def send(self, packet: Packet) -> None:
        """Send a packet, as fast as the link is.

        Raises:
            ConnectionError: the connection is gone.
        """
        if self._faults.latency and packet.payload:
            await self._pause(self._faults.latency)
        data = memoryview(packet.pack())
        async with self._sending:
            self._sent += len(data)
            limit = self._faults.drop_after_tx
            if limit is not None and self._sent > limit:
                self.abort()
                raise ConnectionResetError("the cable was pulled")
            for size in pieces(len(data), self._faults):
                await self._pass(size)
                piece, data = data[:size], data[size:]
                self._writer.write(piece)
                await self._writer.drain()

    async def run(self) -> None:
        """Serve the host until the connection ends."""
        try:
            while await self._next_packet():
                pass
        except (asyncio.IncompleteReadError, OSError, ValueError) as error:
            self._log(f"connection ended: {type(error).__name__}")
        finally:
            for stream in list(self._streams.values()):
                stream.ended_by_host()
            self.abort()
            await asyncio.sleep(0)  # services see the end of their stream before they are ended
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.over.set()

    async def _next_packet(self) -> bool:
        packet, size, total = unpack(await self._reader.readexactly(HEADER.size))
        await self._pass(0)
        parts = []
        for piece in pieces(size, self._faults):
            parts.append(await self._reader.readexactly(piece))
            await self._pass(piece)
        payload = b"".join(parts)
        self._received += HEADER.size + size
        limit = self._faults.drop_after_rx
        if limit is not None and self._received > limit:
            self.abort()
            return False
        if size > self._greeting.largest and packet.command != CNXN:
            raise ValueError("the host sent more at once than the board accepts")
        checks = self._greeting.version < 0x01000001
        if checks and packet.command != CNXN and total != checksum(payload):
            raise ValueError("the sum of a payload is wrong")
        await self._dispatch(packet, payload)
        return True

    async def _pass(self, size: int) -> None:
        """Wait for as long as ``size`` bytes need on the link, or as long as nothing passes."""
        while self._faults.frozen and not self._gone.is_set():
            await self._pause(_LOOK_SECONDS)
        if self._faults.rate and size:
            await self._pause(size / self._faults.rate)

    async def _pause(self, seconds: float) -> None:
        """Wait, but for no connection that is gone."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), seconds)

    async def _dispatch(self, packet: Packet, payload: bytes) -> None:
        if packet.command == CNXN:
            await self._greet(packet, payload)
        elif packet.command == AUTH:
            await self._authorise(packet, payload)
        elif not self._online:
            return
        elif packet.command == OPEN:
            await self._open(packet, payload)
        elif packet.command == OKAY:
            if stream := self._streams.get(packet.second):
                stream.acknowledged()
        elif packet.command == WRTE:
            if stream := self._streams.get(packet.second):
                stream.arrived(payload)
            else:
                await self.send(Packet(CLSE, 0, packet.first))
        elif packet.command == CLSE and (stream := self._streams.pop(packet.second, None)):
            stream.ended_by_host()

    async def _greet(self, packet: Packet, payload: bytes) -> None:
        self.largest = max(4096, min(packet.second, self._greeting.largest))
        self._log(f"CNXN version={packet.first:#x} maxdata={packet.second} {payload[:80]!r}")
        if self._faults.refuse_connection:
            return
        if self._greeting.asks and not self._greeting.allowed.is_set():
            await self.send(Packet(AUTH, AUTH_TOKEN, 0, os.urandom(20)))
        else:
            await self._welcome()

    async def _welcome(self) -> None:
        self._online = True
        greeting = self._greeting
        await self.send(Packet(CNXN, greeting.version, greeting.largest, greeting.banner))

    async def _authorise(self, packet: Packet, payload: bytes) -> None:
        if packet.first == AUTH_SIGNATURE:  # no key is known here: the host offers its next one
            await self.send(Packet(AUTH, AUTH_TOKEN, 0, os.urandom(20)))
        elif packet.first == AUTH_PUBLIC_KEY:
            self._log(f"AUTH public key of {payload[-32:]!r}")
            self._spawn(self._await_permission())

    async def _await_permission(self) -> None:
        await self._greeting.allowed.wait()
        with contextlib.suppress(ConnectionError):
            await self._welcome()

    async def _open(self, packet: Packet, payload: bytes) -> None:
        name = payload.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
        self._log(f"OPEN {name[:_LONGEST]!r}")
        service = self._find(name)
        if service is None:
            await self.send(Packet(CLSE, 0, packet.first))
            return
        stream = Stream(self, self._next, packet.first)
        self._next += 1
        self._streams[stream.local] = stream
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
