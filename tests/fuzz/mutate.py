"""Damaged copies of a file: what disks, downloads and ill will make of it."""

from __future__ import annotations

import io
import random
import re
import struct
import zipfile

__all__ = ["inner_mutant", "mutant"]

_SIZES = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_WIDE = (*_SIZES, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")
_WORDS = (
    *(b"-1", b"0", b"1", b"3.5", b"nan", b"1e999", b"65536", b"2147483647", b"4294967296"),
    *(b"99999999999999999999", b"", b"null", b"true", b"[]", b"{}", b"'", b'"', b"\\", b"\x00"),
    *(b"{" * 3000, b"[" * 3000, b"- " * 500, b"&a [*a]", b"../../etc/passwd", "é".encode() * 200),
)


def mutant(seed: bytes, number: int, *, text: bool = False) -> bytes:
    """The ``number``-th damaged copy of ``seed``: the same for the same arguments.

    Args:
        seed: a valid file.
        number: decides kind and place of the damage.
        text: the file is text: numbers and words are replaced more often than bytes.
    """
    chance = random.Random(f"{number}:{len(seed)}")
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if not data:
            break
        change = chance.choice(_TEXT_CHANGES if text else _CHANGES)
        change(data, chance)
    return bytes(data)


def inner_mutant(seed: bytes, number: int) -> bytes:
    """A copy whose form is whole and whose content is damaged: lengths and checksums fit.

    Letters become other letters, digits other digits, other bytes differ in one bit; of a zip
    archive one member is damaged so and the archive written anew.
    """
    chance = random.Random(f"inner:{number}:{len(seed)}")
    if not seed.startswith(b"PK"):
        return _reworded(seed, chance)
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(seed)) as old, zipfile.ZipFile(stream, "w") as new:
        chosen = chance.choice([name for name in old.namelist() if old.getinfo(name).file_size])
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, _reworded(content, chance) if name == chosen else content)
    return stream.getvalue()


def _reworded(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 2, 6))):
        at = chance.randrange(len(data))
        byte = bytes(data[at : at + 1])
        if byte.isdigit():
            data[at] = ord(chance.choice("0123456789"))
        elif byte.isalpha():
            data[at] = ord(chance.choice("abcdefghijklmnopqrstuvwxyz"))
        elif byte >= b" ":
            data[at] ^= 1 << chance.randrange(8)
    return bytes(data)


def _flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 2, 8))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _byte(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))


def _early(data: bytearray, chance: random.Random) -> None:
    """Heads and tables of contents stand in front: damage there is worse."""
    data[chance.randrange(min(len(data), 96))] = chance.randrange(256)


def _size(data: bytearray, chance: random.Random) -> None:
    form = chance.choice(("<I", "<Q", "<H", ">I"))
    width = struct.calcsize(form)
    if len(data) >= width:
        at = chance.randrange(0, len(data) - width + 1)
        value = chance.choice(_WIDE) & ((1 << 8 * width) - 1)
        data[at : at + width] = struct.pack(form, value)


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def _drop(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.choice((1, 4, 64))]


def _double(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at:at] = data[at : at + chance.choice((1, 4, 64, 4096))]


def _noise(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at:at] = chance.randbytes(chance.choice((1, 8, 64)))


def _number(data: bytearray, chance: random.Random) -> None:
    found = list(_NUMBER.finditer(bytes(data[:200_000])))
    if found:
        start, end = chance.choice(found).span()
        data[start:end] = chance.choice(_WORDS)


def _word(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at : at + chance.choice((0, 1, 5))] = chance.choice(_WORDS)


def _swap(data: bytearray, chance: random.Random) -> None:
    """Two lines change places, or one is dropped or doubled."""
    lines = bytes(data).split(b"\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    kind = chance.randrange(3)
    if kind == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 1:
        del lines[one]
    else:
        lines.insert(other, lines[one])
    data[:] = b"\n".join(lines)


_CHANGES = (_flip, _byte, _early, _size, _size, _cut, _drop, _double, _noise)
_TEXT_CHANGES = (_number, _number, _number, _word, _swap, _swap, _flip, _cut, _drop, _noise)
