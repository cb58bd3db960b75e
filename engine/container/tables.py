"""The quant table as two sections: JSON for what is short, raw numbers for what is per channel.

``quant_table`` is a list of ``[tensor, parameters]`` in the table's order. A list of more than
``INLINE`` numbers stands there as ``{"at": offset, "count": n, "type": t}`` and lies in
``quant_values`` as little-endian ``f4`` (where float32 holds every value), ``f8``, ``i1``, ``i2``
or ``i4``; the lists follow each other without gaps. It takes a third of the room of JSON alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.plain import JsonObject
from engine.graph.ir import QuantTable

INLINE = 4
_LISTS = ("scale", "zero_point", "minimum", "maximum")
_TYPES = ("f4", "f8", "i1", "i2", "i4")


def split_table(table: QuantTable) -> tuple[list[Any], bytearray]:
    """A table as (JSON data, raw numbers)."""
    raw = bytearray()
    entries: list[Any] = []
    for tensor, params in table.items():
        entry = dict(params.to_json())
        for field in _LISTS:
            values: Sequence[float] = getattr(params, field) or ()
            if len(values) > INLINE:
                kind, content = _stored(values, whole=field == "zero_point")
                entry[field] = {"at": len(raw), "count": len(values), "type": kind}
                raw += content
        entries.append([tensor, entry])
    return entries, raw


def _stored(values: Sequence[float], *, whole: bool) -> tuple[str, bytes]:
    """The smallest type that holds the values exactly, and their bytes."""
    wide = np.asarray(values, dtype=np.int64 if whole else np.float64)
    for kind in ("i1", "i2", "i4") if whole else ("f4",):
        with np.errstate(over="ignore"):
            narrow = wide.astype(f"<{kind}")
        if np.array_equal(narrow, wide):
            return kind, narrow.tobytes()
    return "f8", wide.astype("<f8").tobytes()


def join_table(data: Any, raw: memoryview) -> QuantTable:
    """Put :func:`split_table`'s parts together.

    Raises:
        QuantizationError: they do not fit together; parameters that break a rule.
    """
    end = 0
    entries: dict[str, JsonObject] = {}
    for pair in _list(data):
        tensor, params = _pair(pair)
        entry = dict(params)
        for field in _LISTS:
            place = entry.get(field)
            if isinstance(place, Mapping):
                entry[field], end = _values(place, raw, end)
        entries[tensor] = entry
    if end != len(raw) or len(entries) != len(data):
        raise _malformed()
    return QuantTable.from_json(entries)


def _values(place: JsonObject, raw: memoryview, end: int) -> tuple[list[Any], int]:
    at, count, kind = place.get("at"), place.get("count"), place.get("type")
    if at != end or kind not in _TYPES or type(count) is not int or count <= INLINE:
        raise _malformed()
    size = count * int(kind[1])
    if size > len(raw) - end:
        raise _malformed()
    return np.frombuffer(raw[end : end + size], dtype=f"<{kind}").tolist(), end + size


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise _malformed()
    return data


def _pair(pair: Any) -> tuple[str, JsonObject]:
    if not (isinstance(pair, list) and len(pair) == 2):
        raise _malformed()
    tensor, params = pair
    if not isinstance(tensor, str) or not isinstance(params, Mapping):
        raise _malformed()
    return tensor, params


def _malformed() -> QuantizationError:
    return QuantizationError(
        "The quant table is malformed.", remedy="Export the container again from its model."
    )
