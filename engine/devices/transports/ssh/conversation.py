"""A program of the board that is asked over its own streams.

Between the channel and :class:`~engine.base.peers.near.Peer` are three pipes of the kernel, which
bound what waits on this machine; the window of the channel bounds it on the way. asyncssh carries
the bytes between.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from functools import partial
from io import FileIO
from typing import Any

import asyncssh

from engine.base.errors import DeviceError, DeviceLostError
from engine.base.peers.near import Call, Peer
from engine.devices.transport import LINE_LIMIT
from engine.devices.transports.shared import STOP_SECONDS, ending
from engine.devices.transports.ssh.loop import LoopThread
from engine.devices.transports.ssh.program import Program, send_signal

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
        (reads, out), (into, writes), (errors, err) = (os.pipe() for _ in range(3))
        self.peer = Peer(
            FileIO(reads, "r"), FileIO(writes, "w"), errors=FileIO(errors, "r"), limit=LINE_LIMIT
        )
        self._ended = loop.call(self._begin(into, out, err), _SIGNAL_SECONDS)

    def lost(self) -> DeviceError:
        """Why no answer will come: how the program ended, and what it said last."""
        self._try(self._wait_ended(), _TELL_SECONDS)
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
        steps = [partial(self._signal, name) for name in ("TERM", "KILL")]
        return self.peer.stop(call, steps, STOP_SECONDS)

    def end(self) -> None:
        """Let the program go (it ends when its input does) or kill it; it is gone afterwards."""
        if not self._over:
            self._words = self.peer.last_words  # its stream is closed below
        self._over = True
        self.peer.hang_up()
        if not self._ended.done():
            # what it still writes is dropped, so that it cannot wait for a reader
            drop = self._program.process.redirect(stdout=asyncssh.DEVNULL, stderr=asyncssh.DEVNULL)
            self._try(drop, _SIGNAL_SECONDS)
        self.peer.close()
        self._try(self._wait_ended(), _GOODBYE_SECONDS)
        self._try(self._program.kill(), _SIGNAL_SECONDS)
        self._try(self._wait_ended(), _SIGNAL_SECONDS)

    def _try(self, work: Coroutine[Any, Any, None], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            self._loop.call(work, seconds)

    def _signal(self, name: str) -> None:
        program = self._program
        if program.pid > 1 and program.code is None:
            with contextlib.suppress(asyncssh.Error, OSError, TimeoutError):
                self._loop.call(send_signal(program.connection, program.pid, name), _SIGNAL_SECONDS)
        # a pump waits for the end of the output, which comes at once
        self.peer.pump(0.0)

    async def _begin(self, into: int, out: int, err: int) -> asyncio.Task[None]:
        process = self._program.process
        await process.redirect(into, out, err)
        return asyncio.create_task(process.wait_closed())

    async def _wait_ended(self) -> None:
        await asyncio.wait([self._ended])
