"""Files of a board and heads of its programs, read within bounds: whatever comes is untrusted.

What may be missing on a board is missing here as None or an empty text. That the board itself has
gone, or does not answer, is an error of its transport, which passes through.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.base.errors import DeviceError
from engine.base.text import sanitize
from engine.devices.transport import UNREACHABLE, Completed, Transport

# For which processor a program or library of a board is, by the first bytes of its file.

HEAD = 20
"""Bytes of a file that tell."""

_PT_INTERP = 3

_MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 183: "ARM64", 243: "RISC-V"}


@dataclass(frozen=True)
class Elf:
    """For which processor a program or library is: ``ARM64``, and its width of 32 or 64 bits."""

    machine: str
    bits: int

    def __str__(self) -> str:
        return f"{self.machine} ({self.bits} bits)"


def read_elf(head: bytes) -> Elf | None:
    """The processor of a file by its first 20 bytes; None where it is no ELF file.

    Format: the System V ABI, ``e_ident`` and ``e_machine``.
    """
    if len(head) < HEAD or head[:4] != b"\x7fELF" or head[4] not in (1, 2) or head[5] != 1:
        return None
    (machine,) = struct.unpack_from("<H", head, 18)
    return Elf(_MACHINES.get(machine, f"machine {machine}"), 32 * head[4])


def program_interpreter(content: bytes) -> str:
    """The loader that a program asks for, such as ``/lib/ld-linux-aarch64.so.1``.

    It tells the C library that the program was built for. Empty where it asks for none (it is
    linked statically), or where the file is damaged.

    Args:
        content: of the whole file. Format: the System V ABI, ``Elf32_Phdr``, ``Elf64_Phdr``.
    """
    elf = read_elf(content[:HEAD])
    if elf is None:
        return ""
    wide = elf.bits == 64
    try:
        (table,) = struct.unpack_from("<Q" if wide else "<I", content, 32 if wide else 28)
        size, count = struct.unpack_from("<HH", content, 54 if wide else 42)
        for index in range(count):
            at = table + index * size
            (kind,) = struct.unpack_from("<I", content, at)
            if kind == _PT_INTERP:
                (start,) = struct.unpack_from(
                    "<Q" if wide else "<I", content, at + (8 if wide else 4)
                )
                name = content[start : start + 256].partition(b"\0")[0]
                return name.decode("ascii", "replace")
    except (struct.error, OverflowError):  # it ends before what it says it has
        pass
    return ""


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


# Many short files of a board by one program: for boards where no agent can run all the time.
#
# ``head`` writes ``==> PATH <==`` before each of several files (POSIX; so do busybox and toybox).

_LINES = "100"
_OUTPUT_LIMIT = 1 << 18
_MOST_LETTERS = 2500
_HEADING = re.compile(r"(?m)^==> (\S{1,300}) <==\n")


def read_together(
    transport: Transport, paths: Sequence[str]
) -> tuple[dict[str, str | None], dict[str, str]] | None:
    """The first 100 lines of files, which end in a line feed of their own or not.

    Whatever a file holds, it is never taken for another one that was asked for before it.

    Args:
        transport: the board.
        paths: absolute; two at least.

    Returns:
        Path -> text, None where there is none; and path -> what the system said where it may not be
        read. None where the board has no such ``head``.

    Raises:
        DeviceLostError: the board has gone.
        DeviceTimeoutError: it does not answer.
    """
    values: dict[str, str | None] = dict.fromkeys(paths)
    reasons: dict[str, str] = {}
    for some in _portions(paths):
        done = ran(transport, ["head", "-n", _LINES, *some], limit=_OUTPUT_LIMIT)
        if done is None:
            return None
        text = done.text
        said = text + done.err.decode("utf-8", "replace")
        for line in said.splitlines()[:1000]:
            if line.startswith("head: ") and "denied" in line.lower():
                reasons |= {path: line[:300] for path in some if path in line}
        headings = list(_HEADING.finditer(text))
        waiting = list(some)
        for at, heading in enumerate(headings):
            # they come in the order in which they were asked for; an emulated board has a folder
            # before the path
            heard = next((p for p in waiting if heading[1].endswith(p)), None)
            if heard is None:
                continue
            del waiting[: waiting.index(heard) + 1]
            end = headings[at + 1].start() if at + 1 < len(headings) else len(text)
            values[heard] = text[heading.end() : end]
    return (values, reasons) if any(text is not None for text in values.values()) else None


def _portions(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many as a command may have; of a single file there would be no heading."""
    some: list[str] = []
    for path in paths:
        if len(some) > 1 and sum(map(len, some)) + len(path) > _MOST_LETTERS:
            yield some
            some = some[-1:]
        some.append(path)
    yield some
