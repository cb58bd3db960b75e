"""For which processor a program or library of a board is, by the first bytes of its file."""

from __future__ import annotations

import struct
from dataclasses import dataclass

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
