"""A program of this machine as the far end: how it is started, how it ended and how it is ended.

Standard library only.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import RawIOBase
from typing import cast

from engine.base.errors import WorkerError
from engine.base.peers.far import LINE_LIMIT, Message
from engine.base.peers.near import Call, Peer
from engine.base.process import ProcessId, exit_reason

GOODBYE_SECONDS = 1.0
"""How long a process that was let go, or whose output has ended, may take to end."""

LADDER_SECONDS = 2.0
"""How long it may take after each step of what ends a job: asked, terminated, killed."""


class Child:
    """A process and the peer in it.

    It has a session of its own. ``asyncio.create_subprocess_exec`` is not used because its
    transport kills the child when the loop ends, and a worker with a running job has to outlive the
    interface.

    Args:
        command: the program and its arguments.
        environment: all its variables.
        name: what it is, for errors: ``The worker``.
        keep: descriptors that it gets under the same numbers.
        heard, notice, limit: see :class:`~engine.base.peers.near.Peer`.

    Attributes:
        process: the process.
        id: its identity.
        peer: what it says and is told.

    Raises:
        WorkerError: it could not be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        name: str,
        *,
        keep: Sequence[int] = (),
        heard: Callable[[bytes], object] | None = None,
        notice: Callable[[Message], object] | None = None,
        limit: int = LINE_LIMIT,
    ) -> None:
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=environment,
                pass_fds=keep,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise WorkerError(
                f"{name} could not be started: {error.strerror or error}.",
                cause="There is no memory or no process left for it.",
                remedy="End other programs and try again.",
            ) from error
        self.id = ProcessId.of(self.process.pid)
        # without a buffer the three streams are raw ones
        reads, writes = (
            cast("RawIOBase", self.process.stdout),
            cast("RawIOBase", self.process.stdin),
        )
        errors = cast("RawIOBase", self.process.stderr)
        self.peer = Peer(reads, writes, errors=errors, heard=heard, notice=notice, limit=limit)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def returncode(self) -> int | None:
        """The exit code of a process whose output has ended; None where it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(GOODBYE_SECONDS)
        return None

    def lost(self, name: str, returncode: int | None, remedy: str) -> WorkerError:
        """The error of a call that it ended instead of answering."""
        how, cause = exit_reason(returncode)
        if said := self.peer.last_words:
            cause = f"{cause} It said last: {said}"
        return WorkerError(f"{name} {how}.", cause=cause, remedy=remedy)

    def stop(self, call: Call, patience: float | None = None) -> bool:
        """End a call: it is cancelled, then the process is terminated, then killed.

        Args:
            call: what is waited for.
            patience: seconds after each step; :data:`LADDER_SECONDS` where none are given.

        Returns:
            Whether the process is still there to be asked.
        """
        steps = [partial(self.id.send, number) for number in (signal.SIGTERM, signal.SIGKILL)]
        return self.peer.stop(call, steps, patience or LADDER_SECONDS)

    def end(self, *, kill: bool) -> None:
        """Let it go (it ends when its input is closed) or kill it; it is gone afterwards."""
        if kill and self.alive:
            self.process.kill()
        self.peer.hang_up()
        self.returncode()
        if self.alive:
            self.process.kill()
            self.process.wait()
        self.peer.close()
