"""The performance text of the runtimes, of every dialect, read into typed rows.

The text comes from a board: it is bounded, and what cannot be read is a note and never an error.

Dialects, by their headings (sources: printed reports in [RKNN-T1 1.3.2, 3.5 and 3.6.9],
[RKNN-T2 1.1.0, 3.5.9], [RKNN-T2 2.3.0, 2.9], and reports that users of the runtimes published):
    generation 1            ``Layer ID  Name  Operator  Uid  Time(us)``; the vendor's simulator has
                            neither ``Operator`` nor ``Uid``. Long names go on in the next line, and
                            a layer of several operators has a line for each.
    generation 2, 1.1       ``Layer ID  Name  Operator  Target  Time(us)``
    generation 2, to 1.5    ``ID  OpType ... DDR Cycles  NPU Cycles  Total Cycles  Time(us) ...``
    generation 2, from 1.6  ``ID  OpType ... Cycles(DDR/NPU/Total)  Time(us) ...``
    total                   no table: without ``perf_debug``
A value that the runtime does not have is a backslash, or blanks.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from engine.base.text import sanitize
from engine.devices.measure.perf_cells import (
    LAYER_FIELDS,
    NAME_LIMIT,
    TOTAL_FIELDS,
    Fields,
    number_of,
    read_cells,
)
from engine.devices.measure.perf_report import (
    Clocks,
    Dialect,
    OperatorTotal,
    PerfReport,
    PerfRow,
    TotalKind,
    Unread,
)

# Tables of fixed columns, as C's ``printf("%-22s ")`` writes them, read by the places of their
# headings.
#
# A cell that is too long for its column pushes what follows it to the right, and exactly one blank
# stays between both. Splitting at blanks cannot read such a table: a cell may be empty.


@dataclass(frozen=True)
class Columns:
    """The headings of a table.

    Attributes:
        names: the headings, from left to right.
        starts: the first character of each in the line of headings.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]

    def cells(self, line: str) -> tuple[str, ...]:
        """One text for each column, without the blanks around it; empty where there is none.

        The last column has all that is left of the line.
        """
        plain, long = self._cut(line)
        if line.isascii():
            return plain
        # C counts bytes, Python characters: what fits the columns better is meant
        octets, longer = self._cut(line.encode("utf-8", "surrogatepass").decode("latin-1"))
        if longer >= long:
            return plain
        return tuple(cell.encode("latin-1").decode("utf-8", "replace") for cell in octets)

    def _cut(self, line: str) -> tuple[tuple[str, ...], int]:
        """The cells, and how many of them are too long for their columns."""
        places = self._places(line)
        ends = (*places[1:], len(line))
        cells = tuple(line[place:end].strip() for place, end in zip(places, ends, strict=True))
        wide = zip(pairwise(places), pairwise(self.starts), strict=True)
        return cells, sum(end - place > next_ - start for (place, end), (start, next_) in wide)

    def joined(self, first: str, second: str) -> str:
        """A line that was broken between two cells, put together: the rest stands in the column
        after the last one that ``first`` has.
        """
        first = first.rstrip()
        following = (place for place in self._places(first) if place >= len(first))
        return first.ljust(next(following, 0)) + second.lstrip()

    def _places(self, line: str) -> list[int]:
        """Where the cell of each column begins in a line; behind its end where it has none."""
        places = [self.starts[0]]
        for start, following in pairwise(self.starts):
            end = places[-1] + following - start
            if line[end - 1 : end].strip():  # too long for its column
                blank = line.find(" ", end)
                end = (len(line) if blank < 0 else blank) + 1
            places.append(end)
        return places


def columns_of(line: str, known: Collection[str]) -> Columns | None:
    """The headings in a line; None where it does not start with a known one.

    Args:
        line: that may be a line of headings.
        known: headings that contain blanks, or that stand one blank after another; others end at
            the first blank.
    """
    if not line.lstrip().startswith(tuple(known)):
        return None
    words = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    matches = list(re.finditer(rf"(?:{words})(?=\s|$)|\S+", line))
    names = tuple(match.group() for match in matches)
    if not names or names[0] not in frozenset(known):
        return None
    return Columns(names, tuple(match.start() for match in matches))


TEXT_LIMIT = 4 << 20
"""Characters of a report that are read."""
_LINE_LIMIT = 8192
_LINE_COUNT = 40_000
_ROW_LIMIT = 20_000
_NOTE_LIMIT = 50
_CLOCK_LIMIT = 64
_JOIN_LIMIT = 3
_OPERATOR_LIMIT = 64
_TOTAL_KINDS: dict[str, TotalKind] = {
    "Operator": "operators",
    "Time": "run",
    "inference": "average",
}

_LAYER_HEADINGS = (
    "Layer ID", "ID", "Name", "Operator", "Uid", "OpType", "DataType", "Target", "InputShape",
    "OutputShape", "DDR Cycles", "NPU Cycles", "Total Cycles", "Cycles(DDR/NPU/Total)", "Time(us)",
    "MacUsage(%)", "Task Number", "Lut Number", "Task Size", "Regcmd Size", "RW(KB)", "FullName",
)  # fmt: skip
_RANKING_HEADINGS = (
    "OpType", "OP", "Call Number", "CallNumber", "CPU Time(us)", "CPUTime(us)", "GPU Time(us)",
    "GPUTime(us)", "NPU Time(us)", "NPUTime(us)", "Total Time(us)", "TotalTime(us)",
    "Time Ratio(%)", "TimeRatio(%)",
)  # fmt: skip

_LOG = re.compile(r"^\s*[DIWEV] RKNN(?:API)?: (?:\[[^\]\n]{0,40}\] ?)?")
_RULE = re.compile(r"^\s*[-=]{3,}\s*$")
_TOTAL = re.compile(
    r"^\s*(Total Operator Elapsed(?: Per Frame)? Time|Total Time|Average inference Time)"
    r"\(us\)\s*:\s*(\S{1,40})"
)
_TRAFFIC = re.compile(
    r"^\s*Total Memory (?:RW Amount|Read/Write(?: Per Frame)? Size)\((KB|MB)\)\s*:\s*(\S{1,40})"
)
_RATE = re.compile(r"^\s*FPS(?:\(\s*(\d{1,6})\s*MHz\))?\s*:\s*(\S{1,40})")
_CLOCKS = re.compile(r"^\s*(CPU|NPU|DDR) Current Frequency List:$")
_CLOCK = re.compile(r"^\s+-\s+(\S{1,40})$")
# titles and remarks, which hold no figure
_SILENT = re.compile(
    r"^\s*(?:Performance(?: \((?:measured|emulated)\))?|Performance Details:"
    r"|Network Layer Information Table|#### .*|Warning: .*|Operator Time[- ]Consuming Ranking.*)$"
)


def parse_perf_text(text: str) -> PerfReport:
    """Read the text of ``RKNN_QUERY_PERF_DETAIL``, or what ``eval_perf`` printed.

    Of several tables of layers in one text, the last one that has rows counts. Never raises.
    """
    reader = _Reader()
    if len(text) > TEXT_LIMIT:
        reader.note(0, f"only the first {TEXT_LIMIT} characters were read")
        text = text[:TEXT_LIMIT]
    lines = text.split("\n", _LINE_COUNT)
    if len(lines) > _LINE_COUNT:
        reader.note(0, f"only the first {_LINE_COUNT} lines were read")
    for number, line in enumerate(lines[:_LINE_COUNT], 1):
        if len(line) > _LINE_LIMIT:
            reader.note(number, f"only the first {_LINE_LIMIT} characters were read")
        plain = line[:_LINE_LIMIT].replace("\t", "        ")
        reader.take(number, _LOG.sub("", plain).rstrip())
    return reader.report()


@dataclass(frozen=True)
class _Broken:
    """A row that a terminal may have broken into several lines.

    Attributes:
        number, line: where it begins.
        joined: with the lines after it; ``joins`` of them.
        row: what there is of it without them, and ``why`` that is not all.
    """

    number: int
    line: str
    joined: str
    row: PerfRow
    why: str
    joins: int = 0


class _Reader:
    """Takes the lines of a report one by one."""

    def __init__(self) -> None:
        self._dialect: Dialect = "unknown"
        self._rows: list[PerfRow] = []
        self._ranking: list[OperatorTotal] = []
        self._clocks: dict[str, list[int]] = {}
        self._unread: list[Unread] = []
        self._more = 0
        self._total: tuple[float, TotalKind] | None = None
        self._rate: float | None = None
        self._npu_clock: int | None = None
        self._traffic: int | None = None
        self._part = ""
        self._layers: Columns | None = None
        self._totals: Columns | None = None
        self._fresh = False
        self._broken: _Broken | None = None

    def note(self, number: int, why: str, line: str = "") -> None:
        """Keep a line that could not be read; of many the first ones."""
        if len(self._unread) < _NOTE_LIMIT:
            self._unread.append(Unread(number, sanitize(why, 300), sanitize(line, 200)))
        else:
            self._more += 1

    def take(self, number: int, line: str) -> None:
        """Read one line."""
        if not line.strip():
            return
        if _RULE.match(line) or self._figure(number, line) or self._headings(line):
            return
        self._part = ""
        if _SILENT.match(line):
            return
        if self._layers is not None:
            self._layer(number, line, self._layers)
        elif self._totals is not None:
            self._operator(number, line, self._totals)
        else:
            self.note(number, "it belongs to no table", line)

    def report(self) -> PerfReport:
        """What was read."""
        self._end_row()
        if self._more:
            self._unread.append(Unread(0, f"{self._more} more lines could not be read"))
        if self._dialect == "unknown" and self._total is not None:
            self._dialect = "total"
        return PerfReport(
            dialect=self._dialect,
            rows=tuple(self._rows),
            microseconds=None if self._total is None else self._total[0],
            total_kind=None if self._total is None else self._total[1],
            frames_per_second=self._rate,
            npu_clock=self._npu_clock,
            traffic=self._traffic,
            ranking=tuple(self._ranking),
            clocks=tuple(Clocks(part, tuple(hertz)) for part, hertz in self._clocks.items()),
            unread=tuple(self._unread),
        )

    def _figure(self, number: int, line: str) -> bool:
        """Read a line with one figure, or a list of clocks; whether it was one."""
        if match := _CLOCKS.match(line):
            self._part = match[1]
            self._clocks[self._part] = []
            return True
        if self._part and (match := _CLOCK.match(line)):
            self._clock(number, line, match[1])
            return True
        if match := _TOTAL.match(line):
            value = self._value(number, line, match[2])
            if value is not None:
                self._total = value, _TOTAL_KINDS[match[1].split()[1]]
        elif match := _TRAFFIC.match(line):
            value = self._value(number, line, match[2])
            if value is not None:
                self._traffic = round(value * (1024 if match[1] == "KB" else 1 << 20))
        elif match := _RATE.match(line):
            self._rate = self._value(number, line, match[2])
            self._npu_clock = int(match[1]) * 1_000_000 if match[1] else self._npu_clock
        return match is not None

    def _value(self, number: int, line: str, text: str) -> float | None:
        try:
            return number_of(text)
        except ValueError:
            self.note(number, "the figure is no number", line)
            return None

    def _clock(self, number: int, line: str, text: str) -> None:
        known = self._clocks[self._part]
        if text == "Unknown" or len(known) >= _CLOCK_LIMIT:
            return
        value = self._value(number, line, text)
        if value is not None:
            known.append(round(value * (1000 if self._part == "CPU" else 1)))  # CPU: in kHz

    def _headings(self, line: str) -> bool:
        """Take a line of headings; whether it was one."""
        layers = columns_of(line, _LAYER_HEADINGS)
        if layers is not None and layers.names[0] in ("Layer ID", "ID") and len(layers.names) > 2:
            self._end_row()
            self._layers, self._totals, self._fresh = layers, None, True
            return True
        totals = columns_of(line, _RANKING_HEADINGS)
        if totals is not None and totals.names[0] in ("OpType", "OP") and len(totals.names) > 2:
            self._end_row()
            names = tuple(name.replace(" ", "") for name in totals.names)
            self._layers, self._totals = None, replace(totals, names=names)
            self._ranking = []
            return True
        return False

    def _layer(self, number: int, line: str, columns: Columns) -> None:
        """Read a line of the table of layers: a row, a part of one, or more of the row before."""
        cells = columns.cells(line)
        if not line[: columns.starts[1]].strip():
            self._end_row()
            self._go_on(number, line, dict(zip(columns.names, cells, strict=True)))
            return
        row, wrong = _read_row(columns, line)
        if self._broken is not None:
            joined = columns.joined(self._broken.joined, line)
            whole, missing = _read_row(columns, joined)
            if whole is not None and not missing:
                self._broken = None
                self._keep(number, whole)
                return
            begins = row is not None and ("Target" not in columns.names or bool(row.target))
            if not begins and self._broken.joins < _JOIN_LIMIT:
                self._broken = replace(self._broken, joined=joined, joins=self._broken.joins + 1)
                return
            self._end_row()
        if row is None:
            self.note(number, "it is no row of the table", line)
        elif wrong:
            self._broken = _Broken(number, line, line, row, "; ".join(wrong))
        else:
            self._keep(number, row)

    def _keep(self, number: int, row: PerfRow) -> None:
        if self._fresh and self._layers is not None:
            if self._rows:
                self.note(number, f"{len(self._rows)} rows of a table before this one are left out")
            self._rows, self._fresh = [], False
            self._dialect = _dialect(self._layers)
        if len(self._rows) < _ROW_LIMIT:
            self._rows.append(row)
        else:
            self.note(number, f"only the first {_ROW_LIMIT} rows were read")

    def _end_row(self) -> None:
        """Keep of a row that stayed broken what there is."""
        if self._broken is not None:
            broken, self._broken = self._broken, None
            rest = f"; {broken.joins} lines after it are no rest of it" if broken.joins else ""
            self.note(broken.number, broken.why + rest, broken.line)
            self._keep(broken.number, broken.row)

    def _go_on(self, number: int, line: str, cells: dict[str, str]) -> None:
        """A line without a number goes on with the row before it: more of its name, or one more
        operator with its time.
        """
        name = cells.pop("Name", "") or cells.pop("FullName", "")
        op = cells.pop("Operator", "")
        time = cells.pop("Time(us)", "")
        cells.pop("Uid", "")
        try:
            more = number_of(time) or 0.0
        except ValueError:
            more = -1.0
        if not self._rows or self._fresh or more < 0 or any(cells.values()):
            self.note(number, "it goes on with no row", line)
            return
        row = self._rows[-1]
        ops = (*row.ops, sanitize(op, NAME_LIMIT)) if op else row.ops
        self._rows[-1] = replace(
            row,
            name=sanitize(row.name + name, NAME_LIMIT),
            ops=ops[:_OPERATOR_LIMIT],
            microseconds=row.microseconds if not more else (row.microseconds or 0.0) + more,
        )

    def _operator(self, number: int, line: str, columns: Columns) -> None:
        """Read a row of the ranking."""
        values, wrong = _read_line(columns, line, TOTAL_FIELDS)
        op = values.pop("op", "")
        if op == "Total" and values.get("calls") is None:
            return  # the sum of the rows above it
        if wrong or not op or all(value is None for value in values.values()):
            self.note(number, "; ".join(wrong) or "it is no row of the ranking", line)
        elif len(self._ranking) < _ROW_LIMIT:
            self._ranking.append(OperatorTotal(op, **values))


def _dialect(columns: Columns) -> Dialect:
    names = columns.names
    if names[0] == "Layer ID":
        return "generation 2, 1.1" if "Target" in names else "generation 1"
    return "generation 2, to 1.5" if "DDR Cycles" in names else "generation 2, from 1.6"


def _read_line(columns: Columns, line: str, fields: Fields) -> tuple[dict[str, Any], list[str]]:
    """The cells of a line by their places; where that fails and no cell is empty, by its words."""
    values, wrong = read_cells(columns.names, columns.cells(line), fields)
    if wrong:
        words = line.split(None, len(columns.names) - 1)
        if len(words) == len(columns.names):
            other, mistakes = read_cells(columns.names, words, fields)
            if not mistakes:
                return other, []
    return values, wrong


def _read_row(columns: Columns, line: str) -> tuple[PerfRow | None, list[str]]:
    """A row of the table of layers, and what of it could not be read; None where it is none."""
    values, wrong = _read_line(columns, line, LAYER_FIELDS)
    if values.get("id") is None or not (values.get("op") or values.get("name")):
        return None, wrong
    if "Time(us)" in columns.names and values.get("microseconds") is None:
        wrong = wrong or ["it ends before its time"]
    op = values.setdefault("op", "")
    return PerfRow(**values, ops=(op,) if op else ()), wrong
