"""What values of options are made of: numbers, rows per input, mappings from tensor names; and
their form that cannot change and has a hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from engine.base.plain import Value, Values
from engine.base.text import sanitize

_LARGEST = 3.4e38  # what float32 holds
_LARGEST_SIZE = 2**31 - 1
# NAME=VALUE up to a semicolon or the end; names of TFLite hold semicolons, values never do
_ENTRY = re.compile(r"\s*(?P<name>[^=]+?)\s*=\s*(?P<value>[^=;]*?)\s*(?:;|$)")


def is_finite(value: Any) -> bool:
    """Whether it is a number within float32's range; NaN is not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number: Any = value  # typing knows no order of Real
    return bool(-_LARGEST <= number <= _LARGEST)


def is_integral(value: Any) -> bool:
    """Whether it is a whole number that a size may have."""
    return is_finite(value) and abs(value) <= _LARGEST_SIZE and int(value) == value


def is_int(value: Any) -> bool:
    """Whether it is of a type of whole numbers; yes and no are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def number_text(value: float) -> str:
    """The shortest text that reads back as the number; whole numbers without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def per_input(value: Any, *, empty: bool = False) -> list[list[Any]] | None:
    """A list of lists; one flat list means one input, as both manuals' examples write it.

    ``empty``: whether a row may have no number, as the shape of an input of rank 0.
    """
    if not isinstance(value, Sequence) or isinstance(value, str) or not len(value):
        return None
    rows = [row for row in value if isinstance(row, Sequence) and not isinstance(row, str)]
    if len(rows) == len(value) and (empty or all(len(row) for row in rows)):
        return [list(row) for row in value]
    if all(is_finite(n) for n in value):
        return [list(value)]
    return None


def format_rows(rows: Sequence[Sequence[float]], between: str) -> str:
    """Numbers of each input, inputs split by semicolons; a shape without any is ``scalar``."""
    return ";".join(between.join(map(number_text, row)) or "scalar" for row in rows)


def sizes(text: str) -> list[int]:
    """``1x3x224x224`` as whole numbers, ``scalar`` as none; ValueError where it is not that."""
    if text == "scalar":
        return []
    return [int(n) for n in text.replace("x", ",").split(",")]


def is_path(value: Any) -> bool:
    """Whether it can name a file."""
    return isinstance(value, str) and "\0" not in value


def is_code(value: Any) -> bool:
    """Whether it is ``FILE.py:Name``, the name a Python identifier."""
    if not is_path(value):
        return False
    file, _, name = value.rpartition(":")
    return bool(file) and str(name).isidentifier()


def format_value(value: Any) -> str:
    """A value for a message: one line, at most 80 characters."""
    try:
        return sanitize(repr(value), 80)
    except ValueError:  # Python refuses to print a whole number of more than 4300 digits
        return "a very large number"


def mapping_of_text(text: str) -> dict[str, str] | None:
    """``name=value; name=value`` as a dict of texts; None where it is not that."""
    values: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _ENTRY.match(text, at)
        if match is None or match["name"] in values:
            return None
        values[match["name"]] = match["value"]
        at = match.end()
        if not text[at:].strip():
            break
    return values or None


def mapping_text(entries: Mapping[str, str]) -> str | None:
    """The text that :func:`mapping_of_text` reads back; None where a name does not allow it."""
    text = "; ".join(f"{name}={value}" for name, value in entries.items())
    plain = not text.startswith(("{", "[", '"')) and mapping_of_text(text) == dict(entries)
    return text if plain else None


class FrozenMap(Mapping[str, Value]):
    """A mapping that cannot change: names of tensors to what is wished of them.

    Entries keep their order; maps with the same entries in any order are equal.
    """

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Values) -> None:
        self._entries = {str(name): frozen(value) for name, value in entries.items()}
        self._hash = hash(frozenset(self._entries.items()))

    def __getitem__(self, name: str) -> Any:
        """The value of a tensor; KeyError where it has none."""
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        """The names in order."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def __hash__(self) -> int:
        """The same for the same entries."""
        return self._hash

    def __repr__(self) -> str:
        """As a dict."""
        return f"FrozenMap({self._entries!r})"


def frozen(value: Any) -> Any:
    """Lists, nested ones too, as tuples, and mappings as :class:`FrozenMap`: hashable."""
    if isinstance(value, Mapping):
        return FrozenMap(value)
    return tuple(frozen(v) for v in value) if isinstance(value, list | tuple) else value


def to_mutable(value: Any) -> Any:
    """Tuples, nested ones too, as lists, maps as dicts: what JSON and YAML have."""
    if isinstance(value, Mapping):
        return {name: to_mutable(one) for name, one in value.items()}
    return [to_mutable(v) for v in value] if isinstance(value, list | tuple) else value
