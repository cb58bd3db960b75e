"""Reads within the bounds of a file: an offset outside means a damaged file."""

from __future__ import annotations

import mmap
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.base.errors import ContainerError
from engine.base.formats.flatbuffers import FlatBuffer, FlatTable
from engine.base.text import sanitize

# far above what the largest model needs, far below what hurts
_FLAT_BUDGET = 48 << 20


@lru_cache(256)
def _layout(form: str) -> struct.Struct:
    return struct.Struct(f"<{form}")


def damaged_error(name: str, what: str) -> ContainerError:
    """The error for a file that does not fit together; ``what`` ends the first sentence."""
    return ContainerError(
        f"{name} is damaged: {what}.",
        cause="It was cut off or changed on its way, or a toolkit wrote it whose form is not "
        "known here.",
        remedy="Compare its size and checksum with the original, copy it again, or export it "
        "again with the vendor's toolkit.",
    )


@dataclass(frozen=True)
class BoundedReader:
    """A part of a file, read within its bounds.

    Attributes:
        data: the whole file.
        start, size: where the part lies in it.
        name: of the file, for messages.
        part: what this part is, for messages.
    """

    data: bytes | mmap.mmap
    start: int
    size: int
    name: str
    part: str

    def damaged_error(self, what: str) -> ContainerError:
        """The error for this part."""
        return damaged_error(self.name, f"in {self.part}, {what}")

    def check(self, offset: int, size: int, what: str) -> int:
        """The place in ``data`` of ``size`` bytes at ``offset`` of this part.

        Raises:
            ContainerError: they lie outside.
        """
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self.damaged_error(
                f"{what} would lie at {offset} with {size} bytes, but there are {self.size}"
            )
        return self.start + offset

    def inner(self, offset: int, size: int, part: str) -> BoundedReader:
        """A part of this part.

        Raises:
            ContainerError: it lies outside.
        """
        return BoundedReader(self.data, self.check(offset, size, part), size, self.name, part)

    def read(self, offset: int = 0, size: int | None = None, what: str = "its content") -> bytes:
        """A copy of bytes, up to the end by default.

        Raises:
            ContainerError: they lie outside.
        """
        size = self.size - offset if size is None else size
        place = self.check(offset, size, what)
        return self.data[place : place + size]

    def head(self, size: int) -> bytes:
        """The first bytes, fewer where there are no more."""
        return self.read(0, min(size, self.size))

    def find(self, pattern: bytes, offset: int) -> int:
        """Where ``pattern`` starts at or behind ``offset``; -1 where it does not."""
        position = self.data.find(pattern, self.start + offset, self.start + self.size)
        return position - self.start if position >= 0 else -1

    def unpack(self, form: str, offset: int, what: str) -> tuple[Any, ...]:
        """Numbers in the form of :mod:`struct`, little-endian.

        Raises:
            ContainerError: they lie outside.
        """
        layout = _layout(form)
        return layout.unpack_from(self.data, self.check(offset, layout.size, what))

    def text(self, offset: int, size: int, what: str) -> str:
        """ASCII up to the first NUL of a field of fixed size.

        Raises:
            ContainerError: it lies outside.
        """
        return self.read(offset, size, what).split(b"\0", 1)[0].decode("ascii", "replace")


def flat_root(span: BoundedReader, identifier: bytes = b"") -> FlatTable:
    """The root table of a FlatBuffer.

    Raises:
        ContainerError: the identifier at byte 4 is another one, or an offset leaves the buffer.
            Every method of a table raises it too.
    """
    if identifier and span.read(4, len(identifier), "its identifier") != identifier:
        raise span.damaged_error(f"the identifier {identifier.decode()} is missing")
    buffer = FlatBuffer(
        span.data, _FLAT_BUDGET, start=span.start, size=span.size, fault=span.damaged_error
    )
    return buffer.root()


@contextmanager
def open_bounded(path: Path) -> Iterator[BoundedReader]:
    """A file of any size, mapped: only what is looked at takes memory.

    Raises:
        ContainerError: it is missing, empty, unreadable or no file.
    """
    name = sanitize(str(path), 300)
    with _mapped(path, name) as data:
        yield BoundedReader(data, 0, len(data), name, "the file")


def _mapped(path: Path, name: str) -> mmap.mmap:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block
            raise ContainerError(f"{name} is not a file.", remedy="Give the path of a file.")
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            if size == 0:
                raise ContainerError(
                    f"{name} is an empty file.",
                    cause="Writing or copying it was stopped before the first byte.",
                    remedy="Copy or export it again.",
                )
            return mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise ContainerError(
            f"{name} does not exist.",
            cause="The path is misspelled, or the file was moved or deleted.",
            remedy="Check the path; relative paths start at the current folder.",
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ContainerError(
            f"{name} could not be read: {reason}.",
            remedy="Check that you have permission to read it.",
        ) from error
