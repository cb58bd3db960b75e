"""Reads within the bounds of a vendor's file (an offset outside means a damaged one), and values in
it: JSON, a Python dict as text, BSON; bounded before they are read.

Nothing here runs code: the dict is taken apart by :func:`ast.literal_eval`, and only after a look
at its words has found literals and brackets alone.
"""

from __future__ import annotations

import ast
import json
import math
import mmap
import re
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
from engine.base.plain import JsonObject, JsonValue
from engine.base.text import sanitize
from engine.container.magic import unreadable_error

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
        raise unreadable_error(name, error) from error


JSON_LIMIT = 8 << 20
"""Bytes of JSON that are read; a generation 1 layer takes about 1 KB."""

LITERAL_LIMIT = 512 << 10
_MOST_TOKENS = 100_000
_DEPTH = 64
_MOST_DIMS = 32
_BSON_DEPTH = 8
_BSON_ITEMS = 10_000

# a string that does not end takes the rest: each byte is looked at once
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_MOST_MARKS = 2_500_000

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
    |(?P<value>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"
      |-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])
      |(?:True|False|None)(?!\w))
    |(?P<special>-?(?:inf|nan)(?!\w))
    |(?P<open>[{\[(])|(?P<close>[}\])])|(?P<mark>[,:])""",
    re.VERBOSE | re.DOTALL,
)
_SPECIAL = {"inf": "1e999", "-inf": "-1e999", "nan": "None", "-nan": "None"}


def read_json(span: BoundedReader) -> Any:
    """A JSON text.

    Raises:
        ContainerError: it is no JSON, too large or too deep.
    """
    if span.size > JSON_LIMIT:
        raise span.damaged_error(f"there are {span.size} bytes of JSON; {JSON_LIMIT} are read")
    raw = span.read()
    marks = sum(raw.count(mark) for mark in (b",", b":", b'"', b"[", b"{"))
    if marks > _MOST_MARKS:
        raise span.damaged_error("there are more values in its JSON than a model can have")
    if _deepest(_STRING.sub(b"", raw).translate(None, _NO_BRACKETS)) > _DEPTH:
        raise span.damaged_error(f"its brackets are nested more than {_DEPTH} deep")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise span.damaged_error("there is no valid JSON") from error


def _deepest(brackets: bytes) -> int:
    depth = deepest = 0
    for bracket in brackets:
        depth += 1 if bracket in b"{[" else -1
        deepest = max(deepest, depth)
    return deepest


def read_literal(text: str, span: BoundedReader) -> JsonObject | None:
    """A Python dict written by ``repr``; None where it holds more than literals.

    ``nan`` becomes None, as literals have no such number.

    Raises:
        ContainerError: it is larger or deeper than any model's.
    """
    if len(text) > LITERAL_LIMIT:
        raise span.damaged_error(f"the table of inputs and outputs has {len(text)} characters")
    words: list[str] = []
    depth = place = 0
    after_value = False
    while place < len(text):
        if len(words) == _MOST_TOKENS:
            raise span.damaged_error("the table of inputs and outputs has too many values")
        token = _TOKEN.match(text, place)
        if token is None:
            return None
        place, group, word = token.end(), token.lastgroup, token.group()
        is_value = group in ("value", "special")
        if is_value and after_value:
            return None  # "1 -1" would be a sum
        if group != "blank":
            after_value = is_value
        depth += (group == "open") - (group == "close")
        if depth > _DEPTH:
            raise span.damaged_error("the table of inputs and outputs is nested too deep")
        words.append(_SPECIAL[word] if group == "special" else word)
    try:
        value = ast.literal_eval("".join(words).strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_bson(raw: bytes) -> JsonObject | None:
    """A BSON document (https://bsonspec.org/spec.html); None where the bytes are none.

    Only the types that were seen in files and their nearest kin: double, string, document, array,
    boolean, null, int32, int64.
    """
    if len(raw) < 5 or struct.unpack_from("<i", raw)[0] != len(raw):
        return None
    try:
        return _Bson(raw).document(0, len(raw), 0)
    except (ValueError, struct.error):
        return None


_BSON_NUMBERS = {0x01: "<d", 0x10: "<i", 0x12: "<q"}


class _Bson:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._items = 0

    def document(self, start: int, end: int, depth: int) -> JsonObject:
        """The document in ``start:end``; its first four bytes are its size."""
        (size,) = struct.unpack_from("<i", self._raw, start)
        if depth > _BSON_DEPTH or size < 5 or start + size > end or self._raw[start + size - 1]:
            raise ValueError("no document")
        end, place = start + size - 1, start + 4
        values: dict[str, JsonValue] = {}
        while place < end:
            stop = self._raw.index(0, place + 1, end)
            name = self._raw[place + 1 : stop].decode("utf-8", "replace")
            self._items += 1
            if self._items > _BSON_ITEMS:
                raise ValueError("too many")
            values[name], place = self._value(self._raw[place], stop + 1, end, depth)
        return values

    def _value(self, kind: int, place: int, end: int, depth: int) -> tuple[Any, int]:
        if kind in _BSON_NUMBERS:
            form = _BSON_NUMBERS[kind]
            after = place + struct.calcsize(form)
            if after > end:
                raise ValueError("cut off")
            return struct.unpack_from(form, self._raw, place)[0], after
        if kind == 0x0A:
            return None, place
        if kind == 0x08 and place < end:
            return bool(self._raw[place]), place + 1
        if kind not in (0x02, 0x03, 0x04):
            raise ValueError("another type")
        (size,) = struct.unpack_from("<i", self._raw, place)
        if kind == 0x02:
            after = place + 4 + size
            if size < 1 or after > end:
                raise ValueError("cut off")
            return self._raw[place + 4 : after - 1].decode("utf-8", "replace"), after
        inner = self.document(place, end, depth + 1)
        return (list(inner.values()) if kind == 0x04 else inner), place + size


def as_mapping(value: JsonValue) -> JsonObject:
    """``value`` where it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """``value`` where it is a list or tuple, else an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


def as_text(value: JsonValue) -> str:
    """``value`` where it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def as_ints(value: JsonValue) -> tuple[int, ...]:
    """Whole numbers of a list; -1 for whatever else stands in it (names of dynamic sizes)."""
    return tuple(
        item if type(item) is int and abs(item) < 1 << 63 else -1 for item in as_list(value)
    )


def checked_shape(dims: tuple[int, ...], span: BoundedReader) -> tuple[int, ...]:
    """``dims``, where they are a shape.

    Raises:
        ContainerError: there are more of them than any tensor has.
    """
    if len(dims) > _MOST_DIMS:
        raise span.damaged_error(f"a tensor has {len(dims)} dimensions")
    return dims


def as_floats(value: JsonValue) -> tuple[float, ...]:
    """Finite numbers of a list, or of a single number; others are left out."""
    items = as_list(value) if isinstance(value, list | tuple) else [value]
    return tuple(
        float(item)
        for item in items
        if isinstance(item, int | float)
        and type(item) is not bool
        and abs(item) < 1e300
        and math.isfinite(item)
    )
