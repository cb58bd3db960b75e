"""Values inside a vendor's file: JSON, a Python dict as text, BSON; bounded before they are read.

Nothing here runs code: the dict is taken apart by :func:`ast.literal_eval`, and only after a look
at its words has found literals and brackets alone.
"""

from __future__ import annotations

import ast
import json
import math
import re
import struct
from typing import Any

from engine.base.plain import JsonObject, JsonValue
from engine.container.vendor.bounded_reader import BoundedReader

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
