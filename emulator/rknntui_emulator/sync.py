"""The file service of adb (``sync:``), as a board serves it.

Format: ``SYNC.TXT`` of AOSP's ``packages/modules/adb``: requests of four letters, a 32-bit size
and a path. Sizes are 32 bits, little endian; ``STA2``, ``LST2`` and ``LIS2`` have wide ones.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from rknntui_emulator.connection import Stream
from rknntui_emulator.sandbox import Sandbox

_PIECE = 64 << 10
_LONGEST_PATH = 1024
_WIDE = struct.Struct("<IQQIIIIQqqq")
_WORD = struct.Struct("<I")


class SyncService:
    """Serves the files of a board.

    Args:
        sandbox: the files.
        log: takes a line for each request.
    """

    def __init__(self, sandbox: Sandbox, log: Callable[[str], object]) -> None:
        self._sandbox, self._log = sandbox, log

    async def serve(self, stream: Stream) -> None:
        """Answer requests until the host says that it has no more."""
        while True:
            name, size = await _head(stream)
            if name == b"QUIT" or size > _LONGEST_PATH:
                return
            argument = (await stream.read_exactly(size)).decode("utf-8", "surrogateescape")
            self._log(f"sync {name.decode('latin-1')} {argument!r}")
            path = self._sandbox.path(argument)
            if name == b"STAT":
                await stream.write(b"STAT" + struct.pack("<III", *_narrow(path)))
            elif name in (b"STA2", b"LST2"):
                await stream.write(name + _wide(path, follow=name == b"STA2"))
            elif name in (b"LIST", b"LIS2"):
                await _list(stream, path, wide=name == b"LIS2")
            elif name == b"SEND":
                await self._take(stream, argument)
            elif name == b"RECV":
                await _give(stream, path)
            else:
                await _fail(stream, f"unknown command {name!r}")
                return

    async def _take(self, stream: Stream, argument: str) -> None:
        """A file that the host pushes; a refusal is said at once, then the rest is skipped."""
        remote, _, mode = argument.rpartition(",")
        path = self._sandbox.path(remote)
        file: BinaryIO | None = None
        problem, whole = "", False
        try:
            try:
                file = self._sandbox.create(remote)
            except OSError as error:
                problem = f"couldn't create file: {error.strerror}"
                await _fail(stream, problem)
            while True:
                name, size = await _head(stream)
                if name == b"DONE":
                    if file is not None and not problem:
                        file.close()
                        path.chmod(stat.S_IMODE(int(mode or "420")) & 0o777)
                        os.utime(path, (size, size))
                        whole = True
                        await stream.write(b"OKAY" + _WORD.pack(0))
                    return
                if name != b"DATA" or size > _PIECE:
                    await _fail(stream, "invalid data message")
                    return
                data = await stream.read_exactly(size)
                if file is None or problem:
                    continue
                try:
                    file.write(data)
                except OSError as error:
                    problem = f"write failed: {error.strerror}"
                    await _fail(stream, problem)
        finally:
            if file is not None:
                file.close()
                if not whole:
                    self._sandbox.discard(path)


async def _head(stream: Stream) -> tuple[bytes, int]:
    name = await stream.read_exactly(4)
    (size,) = _WORD.unpack(await stream.read_exactly(4))
    return name, size


async def _fail(stream: Stream, text: str) -> None:
    message = text.encode()
    await stream.write(b"FAIL" + _WORD.pack(len(message)) + message)


async def _give(stream: Stream, path: Path) -> None:
    """A file that the host pulls."""
    try:
        with path.open("rb") as file:
            while data := file.read(_PIECE):
                await stream.write(b"DATA" + _WORD.pack(len(data)) + data)
    except ConnectionError:
        raise
    except OSError as error:
        await _fail(stream, f"open failed: {error.strerror}")
    else:
        await stream.write(b"DONE" + _WORD.pack(0))


async def _list(stream: Stream, folder: Path, *, wide: bool) -> None:
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = [".", "..", *sorted(entry.name for entry in folder.iterdir())]
    for name in names:
        encoded = os.fsencode(name)
        size = _WORD.pack(len(encoded))
        if wide:
            await stream.write(b"DNT2" + _wide(folder / name, follow=False) + size + encoded)
        else:
            facts = struct.pack("<III", *_narrow(folder / name))
            await stream.write(b"DENT" + facts + size + encoded)
    await stream.write(b"DONE" + bytes(72 if wide else 16))


def _narrow(path: Path) -> tuple[int, int, int]:
    """Mode, size and time, cut to 32 bits; all zero where there is no such file."""
    try:
        facts = path.lstat()
    except (OSError, ValueError):
        return 0, 0, 0
    return facts.st_mode, facts.st_size & 0xFFFFFFFF, int(facts.st_mtime) & 0xFFFFFFFF


def _wide(path: Path, *, follow: bool) -> bytes:
    try:
        facts = path.stat() if follow else path.lstat()
    except OSError as error:
        return _WIDE.pack(error.errno or 5, *([0] * 10))
    return _WIDE.pack(
        0,
        facts.st_dev,
        facts.st_ino,
        facts.st_mode,
        facts.st_nlink,
        facts.st_uid,
        facts.st_gid,
        facts.st_size,
        int(facts.st_atime),
        int(facts.st_mtime),
        int(facts.st_ctime),
    )
