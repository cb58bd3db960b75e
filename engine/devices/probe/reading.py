"""Short texts of a board, read within bounds: whatever comes, it is untrusted.

What may be missing on a board is missing here as None or an empty text. That the board itself has
gone, or does not answer, is an error of its transport, which passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from engine.base.errors import DeviceError
from engine.base.text import sanitize
from engine.devices.probe.elf import Elf, read_elf
from engine.devices.transport import UNREACHABLE, Completed, Transport

ATTRIBUTE_LIMIT = 1 << 16
"""Bytes of a file of ``/proc`` or ``/sys`` that are read; a page of 4 KiB holds most of them."""

OUTPUT_LIMIT = 1 << 20
"""Bytes of a program's output that are read: the log of a kernel has half of it at most."""

LINE_LIMIT = 200
"""Characters of a line that is shown."""

T = TypeVar("T")


def _optional(ask: Callable[[], T]) -> T | None:
    """What a transport answers; None where the board has not got it or keeps it to root."""
    try:
        return ask()
    except UNREACHABLE:
        raise
    except DeviceError:
        return None


def read_bytes(transport: Transport, path: str, limit: int = ATTRIBUTE_LIMIT) -> bytes | None:
    """The beginning of a file, ``limit`` bytes at most; None where it cannot be read."""
    content = _optional(lambda: transport.read(path, limit=limit))
    return None if content is None else content[:limit]


def read_text(transport: Transport, path: str, limit: int = ATTRIBUTE_LIMIT) -> str | None:
    """The beginning of a file as text; None where it cannot be read."""
    content = read_bytes(transport, path, limit)
    return None if content is None else content.decode("utf-8", "replace")


def output(transport: Transport, words: Sequence[str], limit: int = OUTPUT_LIMIT) -> str:
    """What a program of the board prints; empty where it failed or is not there."""
    done = _optional(lambda: transport.run(words, limit=limit))
    return "" if done is None or done.code else done.text[:limit]


def ran(transport: Transport, words: Sequence[str], limit: int = OUTPUT_LIMIT) -> Completed | None:
    """A program that may fail; None where the transport could not even start it."""
    return _optional(lambda: transport.run(words, limit=limit))


def first_line(text: str | None) -> str:
    """The first line that says something, fit to be shown; empty where there is none.

    Texts of a device tree end in NUL.
    """
    lines = (text or "")[: 20 * LINE_LIMIT].replace("\0", "\n").splitlines()
    shown = (sanitize(line, LINE_LIMIT).strip() for line in lines)
    return next((line for line in shown if line), "")


def elf_of(transport: Transport, path: str) -> Elf | None:
    """For which processor a program or library of the board is; None where it is none."""
    return read_elf(read_bytes(transport, path, 20) or b"")
