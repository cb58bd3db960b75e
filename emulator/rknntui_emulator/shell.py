"""Programs of the emulated board: the services ``shell:``, ``shell,v2`` and ``exec:`` of adb.

``shell,v2`` wraps each piece in a number of what it is (0 input, 1 output, 2 errors, 3 exit code,
4 end of the input, 5 size of the window) and its 32-bit size. Old boards know only ``shell:`` on a
terminal: output and errors are one stream, lines end in CR LF, the input comes back as an echo,
and nobody says the exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
from asyncio.subprocess import Process
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rknntui_emulator.connection import Stream
from rknntui_emulator.sandbox import Sandbox

Framing = Literal["packets", "terminal packets", "raw", "terminal"]
"""How a program's streams travel: framed or not, over pipes or a terminal."""

_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_PIECE = struct.Struct("<BI")
_READ = 32 << 10

# Who leads a session and opens a terminal has it as its own: its end is the end of the programs.
_TAKE_TERMINAL = 'exec 0<>"$1" 1>&0 2>&0; shift; exec sh "$@"'


@dataclass
class _Ends:
    """Our ends of a program's streams; ``err`` is None where it is mixed into ``out``."""

    into: asyncio.StreamWriter
    out: asyncio.StreamReader
    err: asyncio.StreamReader | None
    transports: list[asyncio.BaseTransport]

    def close(self) -> None:
        for transport in (self.into.transport, *self.transports):
            transport.close()


class ShellService:
    """Starts the programs of one board and keeps an eye on them.

    Args:
        sandbox: what they see.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._processes: set[Process] = set()

    async def serve(self, stream: Stream, command: str, framing: Framing) -> None:
        """Run a command line, an empty one is the shell itself, until it or the stream ends."""
        process, ends = await self._start(command, framing)
        framed = framing.endswith("packets")
        feeding = asyncio.ensure_future(_give_input(stream, ends.into, framed))
        taken = asyncio.gather(
            *(
                _take_output(source, stream, number if framed else None)
                for number, source in ((_STDOUT, ends.out), (_STDERR, ends.err))
                if source is not None
            )
        )
        try:
            either: set[asyncio.Future[Any]] = {feeding, taken}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if stream.closed:
                return
            await taken
            code = await process.wait()
            if framed:
                code = code if code >= 0 else 128 - code
                await stream.write(_PIECE.pack(_EXIT, 1) + bytes((code & 0xFF,)))
        finally:
            for work in (feeding, taken):
                work.cancel()
            await asyncio.gather(feeding, taken, return_exceptions=True)
            ends.close()
            if process.returncode is None:  # adbd tells what it started, nothing that this started
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGHUP)

    async def _start(self, command: str, framing: Framing) -> tuple[Process, _Ends]:
        """The command in a session of its own, as adbd starts it."""
        words = ["-c", self._sandbox.rewrite(command)] if command else []
        if framing.startswith("terminal"):
            ours, theirs = os.openpty()
            words = ["-c", _TAKE_TERMINAL, "sh", os.ttyname(theirs), *words]
            streams = [theirs] * 3
            kept = [os.dup(ours), ours]
        else:
            pairs = [os.pipe() for _ in range(3 if framing == "packets" else 2)]
            (stdin, into), *outputs = pairs
            streams = [stdin, *(write for _, write in outputs)]
            streams += streams[1:] if len(streams) == 2 else []
            kept = [into, *(read for read, _ in outputs)]
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh" if framing.startswith("terminal") else self._sandbox.programs / "sh",
                *words,
                cwd=self._sandbox.root,
                env=self._sandbox.environment(),
                start_new_session=True,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
            )
        except BaseException:
            for number in kept:
                os.close(number)
            raise
        finally:
            for number in set(streams):
                os.close(number)
        self._processes = {other for other in self._processes if other.returncode is None}
        self._processes.add(process)
        return process, await _ends(kept)

    def alive(self) -> list[int]:
        """Every process of the board: those that have its environment."""
        mark = f"BOARD_ROOT={self._sandbox.root}".encode()
        processes = []
        for folder in Path("/proc").glob("[0-9]*"):
            # a process that ends meanwhile, or that of another user
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    processes.append(int(folder.name))
        return sorted(processes)

    async def end_all(self) -> None:
        """End every process of the board, as a power cut does."""
        while alive := self.alive():
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.01)
        for process in self._processes:  # one that threw its environment away
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        await asyncio.gather(*(process.wait() for process in self._processes))
        self._processes.clear()


class _ToItsEnd(asyncio.StreamReaderProtocol):
    """A terminal whose programs have all ended gives an error and no end: what it said is read."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream is over, one way or the other."""
        super().connection_lost(None if isinstance(exc, OSError) else exc)


async def _ends(numbers: list[int]) -> _Ends:
    """Our ends over file descriptors that are ours from now on: input, output, errors."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
        os.fdopen(numbers[0], "wb", buffering=0),
    )
    into = asyncio.StreamWriter(transport, protocol, None, loop)
    readers: list[asyncio.StreamReader] = []
    transports: list[asyncio.BaseTransport] = []
    for number in numbers[1:]:
        reader = asyncio.StreamReader()
        source, _ = await loop.connect_read_pipe(
            partial(_ToItsEnd, reader),
            os.fdopen(number, "rb", buffering=0),
        )
        readers.append(reader)
        transports.append(source)
    return _Ends(into, readers[0], readers[1] if len(readers) > 1 else None, transports)


async def _take_output(source: asyncio.StreamReader, stream: Stream, number: int | None) -> None:
    """What a program writes, until its end or that of the stream."""
    with contextlib.suppress(ConnectionError):
        while data := await source.read(_READ):
            await stream.write(data if number is None else _PIECE.pack(number, len(data)) + data)


async def _give_input(stream: Stream, into: asyncio.StreamWriter, framed: bool) -> None:
    """What the host types, until the stream ends."""
    while True:
        if not framed:
            if not (data := await stream.read()):
                return
        else:
            try:
                number, size = _PIECE.unpack(await stream.read_exactly(_PIECE.size))
                data = await stream.read_exactly(size)
            except EOFError:
                return
            if number == _CLOSE_STDIN:
                into.close()
            if number != _STDIN:
                continue
        with contextlib.suppress(ConnectionError, RuntimeError):  # the program reads no more
            into.write(data)
            await into.drain()
