"""The cells of the runtimes' performance tables, read by their headings.

A cell without a value is a backslash, or empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from engine.base.text import sanitize

Fields = Mapping[str, Callable[[str], dict[str, Any]]]
"""Heading -> what a cell below it says, by the attributes of a row. Raises ``ValueError``."""

NAME_LIMIT = 1000
"""Characters of a name that are kept."""
_CORE_LIMIT = 16
_TARGETS: Final = frozenset({"NPU", "CPU", "GPU"})
_NOTHING = frozenset({"", "\\", "-", "N/A"})

_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_SHAPE = re.compile(r"\((?:\d{1,10}(?:,\d{1,10}){0,15})?,?\)")


def number_of(cell: str) -> float | None:
    """A number; None where the runtime has none.

    Raises:
        ValueError: it is something else.
    """
    if cell in _NOTHING:
        return None
    if not _NUMBER.fullmatch(cell):
        raise ValueError("is no number")
    return float(cell)


def _whole(cell: str) -> int | None:
    value = number_of(cell)
    return None if value is None else int(value)


def _id(cell: str) -> int:
    if not (cell.isascii() and cell.isdigit() and len(cell) < 10):
        raise ValueError("is no number of a row")
    return int(cell)


def _percents(cell: str) -> tuple[float, ...]:
    """``100.0%/0.0%/0.0% - Up:0.0%``, ``2.41/0.00/0.00`` or ``2.47``: a number for each core."""
    if cell in _NOTHING:
        return ()
    cores = cell.split(" - ")[0].split("/")[:_CORE_LIMIT]
    values = [number_of(core.strip().removesuffix("%")) for core in cores]
    if None in values:
        raise ValueError("is no list of percents")
    return tuple(value for value in values if value is not None)


def _shapes(cell: str) -> tuple[tuple[tuple[int, ...], ...], bool]:
    """The shapes of a cell, and whether the runtime left some out."""
    if cell in _NOTHING:
        return (), False
    if _SHAPE.sub("", cell).strip(",. "):
        raise ValueError("is no list of shapes")
    shapes = (re.findall(r"\d+", match.group()) for match in _SHAPE.finditer(cell))
    return tuple(tuple(map(int, shape)) for shape in shapes), "..." in cell


def _traffic(cell: str) -> int | None:
    value = number_of(cell)
    return None if value is None else round(value * 1024)


def _target(cell: str) -> str:
    if cell in _NOTHING:
        return ""
    if cell not in _TARGETS:
        raise ValueError("is neither NPU nor CPU nor GPU")
    return cell


def _cycles(cell: str) -> dict[str, Any]:
    if cell in _NOTHING:
        return {}
    parts = cell.split("/")
    if len(parts) != 3:
        raise ValueError("is not three counts of cycles")
    names = ("ddr_cycles", "npu_cycles", "total_cycles")
    return {name: _whole(part) for name, part in zip(names, parts, strict=True)}


def _shape_fields(prefix: str) -> Callable[[str], dict[str, Any]]:
    def read(cell: str) -> dict[str, Any]:
        shapes, cut = _shapes(cell)
        return {prefix: shapes} | ({"shapes_cut": True} if cut else {})

    return read


def _field(name: str, read: Callable[[str], object]) -> Callable[[str], dict[str, Any]]:
    return lambda cell: {name: read(cell)}


def _text(limit: int) -> Callable[[str], str]:
    return lambda cell: sanitize(cell, limit)


LAYER_FIELDS: Final[Fields] = {
    "ID": _field("id", _id),
    "Layer ID": _field("id", _id),
    "OpType": _field("op", _text(200)),
    "Operator": _field("op", _text(200)),
    "Name": _field("name", _text(NAME_LIMIT)),
    "FullName": _field("name", _text(NAME_LIMIT)),
    "Uid": _field("uid", _whole),
    "DataType": _field("dtype", _text(40)),
    "Target": _field("target", _target),
    "InputShape": _shape_fields("inputs"),
    "OutputShape": _shape_fields("outputs"),
    "DDR Cycles": _field("ddr_cycles", _whole),
    "NPU Cycles": _field("npu_cycles", _whole),
    "Total Cycles": _field("total_cycles", _whole),
    "Cycles(DDR/NPU/Total)": _cycles,
    "Time(us)": _field("microseconds", number_of),
    "MacUsage(%)": _field("mac_usage", _percents),
    "WorkLoad": _field("workload", _percents),
    "RW(KB)": _field("traffic", _traffic),
}
TOTAL_FIELDS: Final[Fields] = {
    "OpType": _field("op", _text(200)),
    "OP": _field("op", _text(200)),
    "CallNumber": _field("calls", _whole),
    "CPUTime(us)": _field("cpu", number_of),
    "GPUTime(us)": _field("gpu", number_of),
    "NPUTime(us)": _field("npu", number_of),
    "TotalTime(us)": _field("total", number_of),
    "TimeRatio(%)": _field("share", lambda cell: number_of(cell.removesuffix("%"))),
}


def read_cells(
    names: Sequence[str], cells: Sequence[str], fields: Fields
) -> tuple[dict[str, Any], list[str]]:
    """What the cells say, and what of them could not be read; other columns are left out."""
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for name, cell in zip(names, cells, strict=True):
        read = fields.get("WorkLoad" if name.startswith("WorkLoad") else name)
        if read is None:
            continue
        try:
            values |= read(cell)
        except ValueError as error:
            wrong.append(f"{name} {cell[:40]!r} {error}")
    return values, wrong
