"""A program of the board, started over an exec channel.

The command line is made of a script of ours, which tells its process id first, and of checked words
(:mod:`engine.devices.transports.shared`). What the user's login files print before it is dropped. A
server that runs as root refuses to send signals (sshd of OpenSSH, session.c), hence the process id.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import asyncssh

from engine.devices.transport import Completed
from engine.devices.transports.shared import check_words

_MARK = re.compile(rb"rknntui-pid ([0-9]{1,10})\n")
_MARK_SIZE = 23
_CHUNK = 1 << 16
_KILL_SECONDS = 3.0


@dataclass
class Program:
    """A program that runs.

    Attributes:
        connection: to its board.
        process: its channel, with streams of bytes.
        pid: its process id there; 0 where it was not told.
        head: what it wrote in place of that.
    """

    connection: asyncssh.SSHClientConnection
    process: asyncssh.SSHClientProcess[bytes]
    pid: int
    head: bytes = b""

    @property
    def code(self) -> int | None:
        """Its exit code, 128 and the signal where one ended it; None where it runs or is lost."""
        code = self.process.returncode
        return code if code is None or code >= 0 else 128 - code

    async def kill(self) -> None:
        """End it and its children at once, and close the channel."""
        with contextlib.suppress(asyncssh.Error, OSError, TimeoutError):
            if self.pid > 1 and self.process.exit_status is None:
                await send_signal(self.connection, self.pid, "KILL")
        self.process.channel.abort()


async def start(
    connection: asyncssh.SSHClientConnection, words: Sequence[str], script: str = 'exec "$@"'
) -> Program:
    """Start a program with arguments; its messages are in English (``LC_ALL`` is ``C``).

    Args:
        connection: to the board.
        words: the program and its arguments, or those of ``script``.
        script: of ours, a constant of this program.

    Raises:
        UsageError: a word has characters that are not allowed.
        asyncssh.Error, OSError: the connection is lost, or the server refused.
    """
    check_words(words)
    told = f'echo "rknntui-pid $$"; export LC_ALL=C; {script}'
    # sh by its name: Android has none in /bin
    command = shlex.join(["exec", "sh", "-c", told, "sh", *words])
    process = cast(
        "asyncssh.SSHClientProcess[bytes]",
        await connection.create_process(command, encoding=None),
    )
    try:
        seen = await process.stdout.readuntil(_MARK, _MARK_SIZE)
    except asyncio.IncompleteReadError as error:
        return Program(connection, process, 0, error.partial)
    except BaseException:
        process.channel.abort()
        raise
    return Program(connection, process, int(seen.rpartition(b" ")[2]))


async def finish(program: Program, limit: int) -> Completed:
    """Send no more to a program and wait for its end; it is killed where the caller is cancelled.

    Args:
        program: that runs.
        limit: bytes of each stream that are kept.

    Raises:
        asyncssh.ConnectionLost: the channel was closed without a word on how it ended.
    """
    process = program.process
    try:
        with contextlib.suppress(OSError):
            process.stdin.write_eof()
        out, err = await asyncio.gather(
            _head(process.stdout, limit, program.head), _head(process.stderr, limit, b"")
        )
        await process.wait_closed()
    except BaseException:
        # a cancelled task may still wait for what it cleans up
        await program.kill()
        raise
    if program.code is None:
        raise asyncssh.ConnectionLost("The channel was closed")
    return Completed(program.code, out, err)


async def _head(stream: asyncssh.SSHReader[bytes], limit: int, seen: bytes) -> bytes:
    """The first bytes of a stream; all of it is read, so that its program can end."""
    kept = bytearray(seen[:limit])
    while data := await stream.read(_CHUNK):
        kept += data[: limit - len(kept)]
    return bytes(kept)


async def send_signal(connection: Any, pid: int, name: str) -> None:
    """Send a signal to a process group of the board, or to the process alone, within seconds."""
    script = f'kill -{name} "-$1" 2>/dev/null || kill -{name} "$1"'
    async with asyncio.timeout(_KILL_SECONDS):
        process = await connection.create_process(
            shlex.join(["exec", "sh", "-c", script, "sh", str(pid)]), encoding=None
        )
        await process.wait_closed()
