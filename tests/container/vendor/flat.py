"""A small writer of FlatBuffers by slot number, written from the format's description."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any


class Num:
    """An inline value in a form of ``struct``."""

    def __init__(self, form: str, value: float) -> None:
        self.data = struct.pack(f"<{form}", value)


def i8(value: int) -> Num:
    return Num("b", value)


def i32(value: int) -> Num:
    return Num("i", value)


def u64(value: int) -> Num:
    return Num("Q", value)


def f32(value: float) -> Num:
    return Num("f", value)


class Vec:
    """A vector of numbers in a form of ``struct``."""

    def __init__(self, form: str, values: Sequence[float]) -> None:
        self.data = struct.pack(f"<I{len(values)}{form}", len(values), *values)


def ints(*values: int) -> Vec:
    return Vec("i", values)


def floats(*values: float) -> Vec:
    return Vec("f", values)


Table = Mapping[int, Any]
"""Slot -> Num, Vec, str, bytes, a table, or a list of tables."""


def flat(root: Table, identifier: bytes = b"RKNN") -> bytes:
    """The buffer of a root table: children lie behind their parents."""
    out = bytearray(8)
    out[4:8] = identifier
    struct.pack_into("<I", out, 0, _table(out, root))
    return bytes(out)


def _align(out: bytearray, size: int = 4) -> None:
    out += bytes(-len(out) % size)


def _table(out: bytearray, table: Table) -> int:
    slots = max(table, default=-1) + 1
    offsets, inline, references = [0] * slots, bytearray(4), []
    for slot, value in sorted(table.items()):
        data = value.data if isinstance(value, Num) else bytes(4)
        inline += bytes(-len(inline) % len(data))
        offsets[slot] = len(inline)
        if not isinstance(value, Num):
            references.append((len(inline), value))
        inline += data
    _align(out)
    vtable = len(out)
    out += struct.pack(f"<HH{slots}H", 4 + 2 * slots, len(inline), *offsets)
    _align(out)
    place = len(out)
    struct.pack_into("<i", inline, 0, place - vtable)
    out += inline
    for offset, value in references:
        field = place + offset
        struct.pack_into("<I", out, field, _reference(out, value) - field)
    return place


def _reference(out: bytearray, value: Any) -> int:
    if isinstance(value, Mapping):
        return _table(out, value)
    _align(out)
    place = len(out)
    if isinstance(value, Vec):
        out += value.data
    elif isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        out += struct.pack("<I", len(raw)) + raw + b"\0"
    else:
        out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for number, entry in enumerate(value):
            field = place + 4 + 4 * number
            struct.pack_into("<I", out, field, _table(out, entry) - field)
    return place
