"""Files of the board: by SFTP, or by ``cat`` over an exec channel where the server has no SFTP.

Both kinds have the same coroutines (:class:`Files`); a transfer has a step, the last step, and
giving up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import asyncssh

from engine.devices.transport import Completed
from engine.devices.transports.shared import storage_error
from engine.devices.transports.ssh.program import Program, finish, start

CHUNK = 1 << 17
"""Bytes of a file that are sent or asked for at once."""

# small requests: each of them is answered, which tells a slow link from a dead one
_BLOCK = 1 << 15
_AHEAD = 8
_SAID = 1 << 12
_NO_FILE = 44


class Writing(Protocol):
    """A file of the board that is being written, under the name of a part."""

    async def write(self, data: bytes) -> int:
        """Add bytes, or none and wait; how many are there by now. What is on the way is bounded."""

    async def finish(self, size: int, target: str, mode: int) -> None:
        """Check that all is there, and give it its name."""

    async def give_up(self) -> None:
        """Remove the part."""


class Reading(Protocol):
    """A file of the board that is being read; ``size`` is what it had at the start."""

    size: int

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""

    async def close(self) -> None:
        """Read no more."""


class Files(Protocol):
    """The files of a board.

    Their errors are those of asyncssh, or :class:`~engine.base.errors.DeviceStorageError`.
    """

    async def read(self, path: str, limit: int) -> bytes | None:
        """The first bytes of a file; None where there is none."""

    async def writing(self, part: str) -> Writing:
        """Begin to write a part."""

    async def reading(self, path: str) -> Reading:
        """Begin to read a file."""


@dataclass
class _SftpWriting:
    sftp: asyncssh.SFTPClient
    file: asyncssh.SFTPClientFile
    part: str
    sent: int = 0
    there: int = 0
    under_way: deque[asyncio.Task[int]] = field(default_factory=deque)

    async def write(self, data: bytes) -> int:
        # some are always on the way: dropbear waits 40 ms wherever nothing follows
        if data:
            self.under_way.append(asyncio.create_task(self.file.write(data, self.sent)))
            self.sent += len(data)
        if self.under_way and (not data or len(self.under_way) >= _AHEAD):
            try:
                self.there += await self.under_way.popleft()
            except asyncssh.SFTPFailure as error:
                # version 3 of the protocol has one code for all that can fail
                if await self._is_full():
                    raise storage_error(self.part, "No space left on device") from error
                raise
        return self.there

    async def finish(self, size: int, target: str, mode: int) -> None:
        stored = (await self.file.stat()).size
        if stored != size:
            raise storage_error(target, f"{stored} of {size} bytes are there")
        await self.file.close()
        await self.sftp.chmod(self.part, mode)
        try:
            await self.sftp.posix_rename(self.part, target)
        except asyncssh.SFTPOpUnsupported:
            with contextlib.suppress(asyncssh.SFTPNoSuchFile):
                await self.sftp.remove(target)
            await self.sftp.rename(self.part, target)

    async def give_up(self) -> None:
        await _cancel(self.under_way)
        with contextlib.suppress(asyncssh.Error, OSError):
            await self.file.close()
        with contextlib.suppress(asyncssh.Error, OSError):
            await self.sftp.remove(self.part)

    async def _is_full(self) -> bool:
        with contextlib.suppress(asyncssh.Error, OSError):
            volume = await self.file.statvfs()
            return volume.bavail * volume.frsize < CHUNK
        return False


@dataclass
class _SftpReading:
    file: asyncssh.SFTPClientFile
    size: int
    asked: int = 0
    ended: bool = False
    under_way: deque[asyncio.Task[bytes | str]] = field(default_factory=deque)

    async def read(self) -> bytes:
        if self.ended:
            return b""
        # beyond its size nothing is asked for ahead: such a file grows, or is one of /proc
        while len(self.under_way) < (_AHEAD if self.asked < self.size else 1):
            self.under_way.append(asyncio.create_task(self.file.read(CHUNK, self.asked)))
            self.asked += CHUNK
        data = cast("bytes", await self.under_way.popleft())
        self.ended = len(data) < CHUNK
        return data

    async def close(self) -> None:
        await _cancel(self.under_way)
        with contextlib.suppress(asyncssh.Error, OSError):
            await self.file.close()


@dataclass
class _CatWriting:
    program: Program
    part: str
    sent: int = 0

    async def write(self, data: bytes) -> int:
        process = self.program.process
        self.sent += len(data)
        if process.exit_status is None:
            process.stdin.write(data)
            with contextlib.suppress(BrokenPipeError):
                # it has ended: its message is read at the end
                await process.stdin.drain()
        return self.sent

    async def finish(self, size: int, target: str, mode: int) -> None:
        _require(await finish(self.program, _SAID), self.part)
        script = 'test "$(wc -c < "$1")" -eq "$3" && chmod "$4" "$1" && mv -f "$1" "$2"'
        words = [self.part, target, str(size), f"{mode:o}"]
        named = await start(self.program.connection, words, script)
        _require(await finish(named, _SAID), target, "it is not whole")

    async def give_up(self) -> None:
        await self.program.kill()
        with contextlib.suppress(asyncssh.Error, OSError):
            await finish(await start(self.program.connection, ["rm", "-f", self.part]), _SAID)


@dataclass
class _CatReading:
    program: Program
    path: str
    size: int

    async def read(self) -> bytes:
        data = await self.program.process.stdout.read(CHUNK)
        if not data:
            _require(await finish(self.program, _SAID), self.path)
        return data

    async def close(self) -> None:
        await self.program.kill()


@dataclass
class _SftpFiles:
    """By SFTP."""

    sftp: asyncssh.SFTPClient

    async def read(self, path: str, limit: int) -> bytes | None:
        """What is asked for follows each other: files of /proc have no size."""
        try:
            file = await self.sftp.open(path, "rb", encoding=None, block_size=0)
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath, asyncssh.SFTPNotADirectory):
            return None
        content = bytearray()
        try:
            while len(content) < limit:
                asked = min(_BLOCK, limit - len(content))
                data = cast("bytes", await file.read(asked, len(content)))
                if not data:
                    break
                content += data
        finally:
            with contextlib.suppress(asyncssh.Error, OSError):
                await file.close()
        return bytes(content[:limit])

    async def writing(self, part: str) -> Writing:
        file = await self.sftp.open(part, "wb", encoding=None, block_size=_BLOCK)
        return _SftpWriting(self.sftp, file, part)

    async def reading(self, path: str) -> Reading:
        file = await self.sftp.open(path, "rb", encoding=None, block_size=_BLOCK)
        return _SftpReading(file, (await file.stat()).size or 0)


@dataclass
class _CatFiles:
    """By ``cat``."""

    connection: asyncssh.SSHClientConnection

    async def read(self, path: str, limit: int) -> bytes | None:
        script = f'test -e "$1" || exit {_NO_FILE}; exec cat "$1"'
        done = await finish(await start(self.connection, [path], script), limit)
        if done.code == _NO_FILE:
            return None
        _require(done, path)
        return done.out

    async def writing(self, part: str) -> Writing:
        return _CatWriting(await start(self.connection, [part], 'exec cat > "$1"'), part)

    async def reading(self, path: str) -> Reading:
        counted = await finish(await start(self.connection, [path], 'wc -c < "$1"'), _SAID)
        if counted.code or not counted.out.strip().isdigit():
            raise storage_error(path, counted.err.decode("utf-8", "replace"))
        return _CatReading(await start(self.connection, ["cat", path]), path, int(counted.out))


def files_of(connection: asyncssh.SSHClientConnection, sftp: asyncssh.SFTPClient | None) -> Files:
    """The files of a board, by SFTP where its server has it."""
    return _CatFiles(connection) if sftp is None else _SftpFiles(sftp)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _require(done: Completed, path: str, otherwise: str = "") -> None:
    """Refuse a program that failed; ``otherwise`` is why, where it did not say."""
    if done.code:
        raise storage_error(path, done.err.decode("utf-8", "replace") or otherwise)
