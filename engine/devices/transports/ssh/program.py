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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import asyncssh

from engine.devices.transport import Completed
from engine.devices.transports.shared import check_environment, check_words

_MARK = re.compile(rb"rknntui-pid ([0-9]{1,10})\n")
_NOISE = 1 << 16
_CHUNK = 1 << 16
_KILL_SECONDS = 3.0


@dataclass
class Program:
    """A program that runs.

    Attributes:
        connection: to its board.
        process: its channel, with streams of bytes.
        pid: its process id there; 0 where it was not told.
        head: what it had written when that was read.
    """

    connection: asyncssh.SSHClientConnection
    process: asyncssh.SSHClientProcess[bytes]
    pid: int
    head: bytes

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


def _command(script: str, words: Sequence[str], environment: Mapping[str, str] | None) -> str:
    check_words(words)
    check_environment(environment)
    variables = "".join(f"export {key}={value}; " for key, value in (environment or {}).items())
    # sh by its name: Android has none in /bin
    return shlex.join(
        ["exec", "sh", "-c", f'echo "rknntui-pid $$"; {variables}{script}', "sh", *words]
    )


async def start_program(
    connection: asyncssh.SSHClientConnection,
    words: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> Program:
    """Start a program with arguments.

    Raises:
        UsageError: a word or a variable has characters that are not allowed.
        asyncssh.Error, OSError: the connection is lost, or the server refused.
    """
    return await _start(connection, _command('exec "$@"', words, environment))


async def start_script(
    connection: asyncssh.SSHClientConnection, script: str, words: Sequence[str]
) -> Program:
    """Start a script of ours, a constant of this program, that reads ``words`` as its arguments.

    Raises:
        UsageError: a word has characters that are not allowed.
        asyncssh.Error, OSError: the connection is lost, or the server refused.
    """
    return await _start(connection, _command(script, words, {"LC_ALL": "C"}))


async def _start(connection: asyncssh.SSHClientConnection, command: str) -> Program:
    process = cast(
        "asyncssh.SSHClientProcess[bytes]",
        await connection.create_process(command, encoding=None),
    )
    seen = b""
    try:
        while (match := _MARK.search(seen)) is None and len(seen) < _NOISE:
            data = await process.stdout.read(_CHUNK)
            if not data:
                return Program(connection, process, 0, seen)
            seen += data
    except BaseException:
        process.channel.abort()
        raise
    if match is None:
        return Program(connection, process, 0, seen)
    return Program(connection, process, int(match[1]), seen[match.end() :])


async def run_program(
    connection: asyncssh.SSHClientConnection, words: Sequence[str], limit: int
) -> Completed | None:
    """Run a program until it ends; it is killed where the caller is cancelled.

    Its messages are in English: ``LC_ALL`` is ``C``.

    Args:
        connection: to the board.
        words: program and arguments.
        limit: bytes of each stream that are kept.

    Returns:
        None where the channel was closed without a word on how it ended.
    """
    program = await start_program(connection, words, {"LC_ALL": "C"})
    return await finish(program, limit)


async def finish(program: Program, limit: int) -> Completed | None:
    """Send no more to a program and wait for its end, as :func:`run_program`."""
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
    return None if program.code is None else Completed(program.code, out, err)


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
