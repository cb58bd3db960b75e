"""What the vendor's compiler prints of a build with ``verbose=True``: its tables and totals.

The text is somebody else's and may be cut short, mixed with other lines or damaged: a line that
does not fit is passed over, and no more than :data:`MAX_LINES` are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from engine.wire.cost import Step
from engine.wire.record import record

MAX_LINES = 2_000_000
MAX_LINE = 4096
"""Longer lines are passed over: the compiler's longest are some 300 characters."""
MAX_NOTICES = 1000

Section = Literal["", "layers", "features", "consts"]

_STAMP = re.compile(r"^(?P<level>[A-Z]) RKNN: \[[0-9:.]+\] ?")
_TITLES: tuple[tuple[str, Section], ...] = (
    ("Network Layer Information Table", "layers"),
    ("Feature Tensor Information Table", "features"),
    ("Const Tensor Information Table", "consts"),
)
_LAYER = re.compile(
    r"(?P<id>\d{1,9}) +(?P<op>\S+) +(?P<dtype>\S+) +(?P<target>NPU|CPU|\S+) +"
    r"(?P<ins>\\|\([^ ]*) +(?P<out>\\|\([^ ]*) +"
    r"(?P<ddr>\d{1,18})/(?P<npu>\d{1,18})/(?P<total>\d{1,18}) +"
    r"(?:(?:\d{1,3}(?:\.\d{1,9})?%|\\) +)?(?P<rw>\d{1,18})(?: +(?P<name>\S.*?) *| {4,})"
)
# a star marks the row that ends the highest
_PLACE = (
    r"\| +0x(?P<start>[0-9a-f]{1,16})[ *]+0x(?P<end>[0-9a-f]{1,16}) +0x(?P<size>[0-9a-f]{1,16}) *"
)
_FEATURE = re.compile(
    r"(?P<id>\d{1,9}) +(?P<user>\S+) +(?P<name>\S.*?) +(?P<dtype>[A-Z]+\d*) +"
    r"(?P<format>[A-Z0-9]+) +(?P<shape>\(\S*\)|\\) +(?P<native>\(\S*\)|\\) +" + _PLACE
)
_CONST = re.compile(
    r"(?P<id>\d{1,9}) +(?P<user>\S+) +(?P<name>\S.*?) +(?P<dtype>[A-Z]+\d*) +"
    r"(?P<shape>\(\S*\)|\\) +" + _PLACE
)
_TOTAL = re.compile(
    r"Total (?P<what>Internal|Weight) Memory Size: (?P<size>\d{1,15}(?:\.\d{1,9})?) ?KB"
)
_SHAPE = re.compile(r"\((?P<sizes>\d{1,12}(?:,\d{1,12})*)?\)|\.\.\.")


@record(kw_only=True)
class PrintedLayer(Step):
    """A row of the table of layers.

    Attributes:
        shapes: of the features, weight and bias that it reads; None where the table cuts it short.
        read_kb: ``RW(KB)``: whole KB that it reads.
    """

    id: int
    shapes: tuple[tuple[int, ...] | None, ...]
    out: tuple[int, ...]
    ddr_cycles: int
    npu_cycles: int
    total_cycles: int
    read_kb: int


@dataclass(frozen=True, slots=True)
class PrintedTensor:
    """A row of the tables of features and constants.

    Attributes:
        id, user: of the layer that reads it, and its type.
        layout, native: of a feature: ``NC1HWC2`` and the shape in memory; empty of a constant.
        start, end: bytes in the memory of features, or of weights.
    """

    id: int
    user: str
    name: str
    dtype: str
    layout: str
    shape: tuple[int, ...]
    native: tuple[int, ...]
    start: int
    end: int


@dataclass
class Printed:
    """All that was recognised; empty lists and None where it was not printed.

    Attributes:
        internal_bytes, weight_bytes: the totals.
        notices: warnings and errors in the order printed, without their times.
    """

    layers: list[PrintedLayer] = field(default_factory=list)
    features: list[PrintedTensor] = field(default_factory=list)
    consts: list[PrintedTensor] = field(default_factory=list)
    internal_bytes: int | None = None
    weight_bytes: int | None = None
    notices: list[str] = field(default_factory=list)


def parse_printed(lines: str | Iterable[str]) -> Printed:
    """The tables of a build's log; of a log with several builds, those of the last.

    Args:
        lines: the text, or its lines.
    """
    printed = Printed()
    section: Section = ""
    for at, line in enumerate(lines.splitlines() if isinstance(lines, str) else lines):
        if at >= MAX_LINES:
            break
        if len(line) > MAX_LINE:
            continue
        stamp = _STAMP.match(line)
        text = (line[stamp.end() :] if stamp else line).lstrip().rstrip("\r\n")
        title = next((part for name, part in _TITLES if name in text), None)
        if title is not None:
            section = title
            if title == "layers":
                printed = Printed(notices=printed.notices)
        elif not _row(text, section, printed):
            _total(text, printed)
            level = stamp["level"] if stamp else ""
            if level in ("W", "E") and text.strip() and len(printed.notices) < MAX_NOTICES:
                printed.notices.append(text.rstrip())
    return printed


def _row(text: str, section: Section, printed: Printed) -> bool:
    """Whether it was a row of the table that is being read."""
    if not text[:1].isdigit():
        return False
    if section == "layers":
        match = _LAYER.fullmatch(text)
        if match is not None:
            printed.layers.append(_layer(match))
    else:
        match = (_FEATURE if section == "features" else _CONST).fullmatch(text)
        if match is not None and section:
            (printed.features if section == "features" else printed.consts).append(_tensor(match))
    return match is not None


def _total(text: str, printed: Printed) -> None:
    match = _TOTAL.match(text)
    if match is not None:
        size = round(float(match["size"]) * 1024)
        if match["what"] == "Internal":
            printed.internal_bytes = size
        else:
            printed.weight_bytes = size


def _layer(match: re.Match[str]) -> PrintedLayer:
    out = next(iter(_shapes(match["out"])), None)
    return PrintedLayer(
        id=int(match["id"]),
        op=match["op"],
        dtype=match["dtype"],
        target=match["target"],
        shapes=_shapes(match["ins"]),
        out=out or (),
        ddr_cycles=int(match["ddr"]),
        npu_cycles=int(match["npu"]),
        total_cycles=int(match["total"]),
        read_kb=int(match["rw"]),
        name=match["name"] or "",
    )


def _tensor(match: re.Match[str]) -> PrintedTensor:
    groups = match.groupdict()
    native = _shapes(groups["native"]) if groups.get("native") else ()
    shape = _shapes(match["shape"])
    return PrintedTensor(
        id=int(match["id"]),
        user=match["user"],
        name=match["name"],
        dtype=match["dtype"],
        layout=groups.get("format") or "",
        shape=(shape[0] if shape else None) or (),
        native=(native[0] if native else None) or (),
        start=int(match["start"], 16),
        end=int(match["end"], 16),
    )


def _shapes(text: str) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(
        None
        if match[0] == "..."
        else tuple(int(size) for size in (match["sizes"] or "").split(",") if size)
        for match in _SHAPE.finditer(text)
    )
