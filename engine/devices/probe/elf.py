"""For which processor a program or library of a board is, by the first bytes of its file."""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["HEAD", "Elf", "read_elf"]

HEAD = 20
"""Bytes of a file that tell."""

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
