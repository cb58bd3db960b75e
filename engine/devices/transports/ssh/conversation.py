"""A program of the board that is asked over its own streams.

Between the channel and :class:`~engine.base.peers.near.Peer` are three pipes of the kernel, which
bound what waits on this machine; the window of the channel bounds it on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from functools import partial
from io import FileIO

import asyncssh

from engine.base.errors import DeviceError, DeviceLostError
from engine.base.peers.near import Call, Peer, ladder
from engine.devices.transport import LINE_LIMIT
from engine.devices.transports.shared import STOP_SECONDS, ending
from engine.devices.transports.ssh.loop import LoopThread
from engine.devices.transports.ssh.program import Program, send_signal

_CHUNK = 1 << 16
_GOODBYE_SECONDS = 5.0
_SIGNAL_SECONDS = 5.0
_TELL_SECONDS = 2.0


class SshConversation:
    """The program and the peer in it.

    Args:
        loop: where its channel lives.
        program: it was started there.
        name: of the board.
        lost: why the connection is lost; None where it is not.

    Attributes:
        peer: who is asked.
    """

    def __init__(
        self,
        loop: LoopThread,
        program: Program,
        name: str,
        lost: Callable[[], DeviceLostError | None],
    ) -> None:
        self._loop, self._program, self._name, self._lost = loop, program, name, lost
        self._over, self._words = False, ""
        pipes = [os.pipe() for _ in range(3)]
        self._far = (pipes[0][1], pipes[1][0], pipes[2][1])
        for descriptor in self._far:
            os.set_blocking(descriptor, False)
        self.peer = Peer(
            FileIO(pipes[0][0], "r"),
            FileIO(pipes[1][1], "w"),
            errors=FileIO(pipes[2][0], "r"),
            limit=LINE_LIMIT,
        )
        self._ended = loop.call(self._begin(), _SIGNAL_SECONDS)

    def lost(self) -> DeviceError:
        """Why no answer will come: how the program ended, and what it said last."""
        with contextlib.suppress(TimeoutError):
            self._loop.call(self._wait_ended(), _TELL_SECONDS)
        if not self._over:
            self._words = self.peer.last_words
        said = f" It said last: {self._words}" if self._words else ""
        code = self._program.code
        if code is None:
            if (error := self._lost()) is not None:
                return error
            return DeviceLostError(
                f"The program on {self._name} says nothing more.",
                cause=f"{self.peer.fault or 'It closed its output, or its session was ended.'}"
                f"{said}",
                remedy="Try again.",
            )
        how, cause = ending(code)
        return DeviceError(
            f"The program on {self._name} {how}.",
            cause=f"{cause}{said}",
            remedy="Try again; run the board's doctor.",
        )

    def stop(self, call: Call) -> bool:
        """End a call: it is cancelled, then the program is terminated, then killed.

        Returns:
            Whether the program is still there to be asked.
        """
        self.peer.cancel(call)
        over = lambda: call.answer is not None or not self.peer.open  # noqa: E731
        steps = [partial(self._signal, name) for name in ("TERM", "KILL")]
        for seconds in ladder(over, steps, STOP_SECONDS):
            self.peer.pump(seconds)
        return call.answer is not None and self.peer.open

    def end(self) -> None:
        """Let the program go (it ends when its input does) or kill it; it is gone afterwards."""
        if not self._over:
            self._words = self.peer.last_words  # its stream is closed below
        self._over = True
        self.peer.hang_up()
        # what it still writes is dropped, so that it cannot wait for a reader
        self.peer.close()
        with contextlib.suppress(TimeoutError):
            self._loop.call(self._wait_ended(), _GOODBYE_SECONDS)
        with contextlib.suppress(TimeoutError):
            self._loop.call(self._end(), _SIGNAL_SECONDS)

    def _signal(self, name: str) -> None:
        program = self._program
        if program.pid > 1 and program.code is None:
            with contextlib.suppress(asyncssh.Error, OSError, TimeoutError):
                self._loop.call(send_signal(program.connection, program.pid, name), _SIGNAL_SECONDS)
        # a pump waits for the end of the output, which comes at once
        self.peer.pump(0.0)

    async def _begin(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._carry())

    async def _wait_ended(self) -> None:
        await asyncio.wait([self._ended])

    async def _end(self) -> None:
        if not self._ended.done():
            await self._program.kill()
        self._ended.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ended

    async def _carry(self) -> None:
        """Carry bytes both ways until the program has ended."""
        process, (out, into, err) = self._program.process, self._far
        sending = asyncio.create_task(_send(into, process))
        try:
            await asyncio.gather(
                _receive(process.stdout, out, self._program.head), _receive(process.stderr, err)
            )
            with contextlib.suppress(asyncssh.Error, OSError):
                await process.wait_closed()
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            process.channel.abort()


async def _receive(stream: asyncssh.SSHReader[bytes], descriptor: int, seen: bytes = b"") -> None:
    """Write what comes to a pipe, which is closed at the end; without a reader it is dropped."""
    accepting = True
    try:
        data = seen
        while True:
            if accepting and data:
                accepting = await _write(descriptor, data)
            data = await stream.read(_CHUNK)
            if not data:
                return
    except (asyncssh.Error, OSError):
        return
    finally:
        os.close(descriptor)


async def _write(descriptor: int, data: bytes) -> bool:
    """Write all; False where nobody reads."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await _ready(descriptor, writes=True)
        except OSError:
            return False
    return True


async def _send(descriptor: int, process: asyncssh.SSHClientProcess[bytes]) -> None:
    """Send what is read from a pipe, and its end."""
    try:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                await _ready(descriptor, writes=False)
                continue
            if not data:
                process.stdin.write_eof()
                return
            process.stdin.write(data)
            await process.stdin.drain()
    except (asyncssh.Error, OSError):
        return
    finally:
        os.close(descriptor)


async def _ready(descriptor: int, *, writes: bool) -> None:
    """Wait until a pipe can be written to or read, or its other end is closed."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = (
        (loop.add_writer, loop.remove_writer) if writes else (loop.add_reader, loop.remove_reader)
    )
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
