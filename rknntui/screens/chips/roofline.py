"""The roofline of a chip: operations a byte against operations a second, a point a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on
from textual.containers import Vertical

from engine.wire.cost_tables import ROOFLINE
from rknntui.widgets.histogram_chart import Chart
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import Line

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.wire.cost import ChipEstimate

_LABEL = 9
_STYLES = {"compute": "accent", "memory": "good"}


@dataclass(frozen=True)
class Point:
    """A layer with multiply-accumulates.

    Attributes:
        number: of the layer, from 1.
        id, name: as of :class:`engine.wire.cost.LayerCost`.
        intensity: operations for each byte moved; a multiply-accumulate is two.
        gops: 10^9 operations a second.
        time_ms: of the layer.
        bound: what most of its time is.
    """

    number: int
    id: str
    name: str
    intensity: float
    gops: float
    time_ms: float
    bound: str


@dataclass(frozen=True)
class Roof:
    """What a chip can do at most: 10^9 operations a second, 10^9 bytes a second."""

    gops: float
    gigabytes: float

    def at(self, intensity: float) -> float:
        """10^9 operations a second that are possible."""
        return min(self.gops, self.gigabytes * intensity)


def points_of(found: ChipEstimate) -> list[Point]:
    """The layers that multiply and take time; others have no place on a roofline."""
    return [
        Point(
            number=i + 1,
            id=row.id or row.name,
            name=row.name,
            intensity=2 * row.macs / (row.read_bytes + row.write_bytes),
            gops=2 * row.macs / (row.time_ms * 1e6),
            time_ms=row.time_ms,
            bound=row.bound,
        )
        for i, row in enumerate(found.layers)
        if row.macs > 0 and row.time_ms > 0 and row.read_bytes + row.write_bytes > 0
    ]


class RooflineChart(Chart):
    """Both axes logarithmic; the chosen layer is marked, cells with several layers are larger."""

    DEFAULT_CSS = """
    RooflineChart { height: 3fr; min-height: 6; padding: 0 1; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._points: Sequence[Point] = ()
        self._roof: Roof | None = None
        self._chosen = 0
        self._said = ""

    def show(self, points: Sequence[Point], roof: Roof | None, chosen: int, said: str) -> None:
        """Draw layers under the roof; ``chosen`` is the number of the one that is marked."""
        self._points, self._roof, self._chosen, self._said = points, roof, chosen, said
        self.redraw()

    def _draw(self, width: int, height: int) -> list[Line]:
        if not self._points or width < 30 or height < 5:
            return [[(self._said, "dim")]]
        rows, columns = height - 2, width - _LABEL
        roof = self._roof
        xs = [p.intensity for p in self._points]
        ys = [p.gops for p in self._points]
        if roof is not None:
            xs.append(roof.gops / roof.gigabytes)
            ys.append(roof.gops)
        x_axis, y_axis = _Axis.over(xs, columns), _Axis.over(ys, rows)
        cells = [[(" ", "")] * columns for _ in range(rows)]
        if roof is not None:
            for column in range(columns):
                limit = roof.at(x_axis.value(column))
                row = y_axis.cell(limit)
                if 0 <= row < rows:
                    cells[row][column] = ("─" if limit >= roof.gops else "/", "dim")
        for point in sorted(self._points, key=lambda p: p.number == self._chosen):
            row, column = y_axis.cell(point.gops), x_axis.cell(point.intensity)
            row, column = min(rows - 1, max(0, row)), min(columns - 1, max(0, column))
            taken = cells[row][column][0] in ("•", "●")
            mark = "◆" if point.number == self._chosen else "●" if taken else "•"
            style = "head" if point.number == self._chosen else _STYLES.get(point.bound, "")
            cells[row][column] = (mark, style)
        lines: list[Line] = [[(f"{'GOPS':>{_LABEL - 1}} ", "dim"), *self._top()]]
        for row in range(rows - 1, -1, -1):
            shown = row in (0, rows // 2, rows - 1)
            told = _short(y_axis.value(row)) if shown else ""
            lines.append([(f"{told:>{_LABEL - 1}} ", "dim"), *cells[row]])
        return [*lines, self._foot(x_axis, columns)]

    def _top(self) -> Line:
        roof = self._roof
        if roof is None:
            return [("no roof: a rate of this chip is not published", "warn")]
        told = f"roof: {_short(roof.gops)} GOPS, {_short(roof.gigabytes)} GB/s (estimated)   "
        return [
            (told, ""),
            ("• ", "accent"),
            ("compute ", "dim"),
            ("• ", "good"),
            ("memory ", "dim"),
            ("• ", ""),
            ("other", "dim"),
        ]

    def _foot(self, axis: _Axis, columns: int) -> Line:
        left, right = _short(axis.value(0)), _short(axis.value(columns - 1))
        middle = f"{_short(axis.value(columns // 2))} operations a byte"
        gap = columns - len(left) - len(middle) - len(right)
        before = max(1, columns // 2 - len(left) - 2)
        rest = max(1, gap - before)
        return [(f"{'':{_LABEL}}{left}{' ' * before}{middle}{' ' * rest}{right}", "dim")]


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis in cells."""

    low: float
    high: float
    cells: int

    @classmethod
    def over(cls, values: Sequence[float], cells: int) -> _Axis:
        """From a little below the least to a little above the greatest."""
        low, high = math.log10(min(values)), math.log10(max(values))
        room = max(0.1, (high - low) * 0.06)
        return cls(low - room, high + room, cells)

    def cell(self, value: float) -> int:
        if value <= 0:
            return 0
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(share * (self.cells - 1))

    def value(self, cell: int) -> float:
        share = cell / max(1, self.cells - 1)
        return float(10 ** (self.low + share * (self.high - self.low)))


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


class RooflinePane(Vertical):
    """The chart, and its layers."""

    DEFAULT_CSS = """
    RooflinePane { height: 1fr; & RecordView { height: 2fr; min-height: 5; } }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._points: list[Point] = []
        self._roof: Roof | None = None
        self._said = ""
        self._table = RecordTable(ROOFLINE, id="roof-layers", what="roofline")

    def compose(self) -> ComposeResult:
        yield RooflineChart(id="roofline")
        yield RecordView("Layers under the roof (estimated)", self._table)

    @property
    def table(self) -> RecordTable:
        """The layers."""
        return self._table

    @property
    def layer_id(self) -> str:
        """Of the layer under the cursor."""
        record = self._table.record
        return "" if record is None else str(record["id"])

    def take(self, found: ChipEstimate | None, said: str) -> None:
        """Show a chip; ``said`` stands there while there is nothing."""
        self._points = points_of(found) if found is not None else []
        self._roof, self._said = None, said
        if found is not None and found.peak_gops and found.bandwidth_gbs:
            self._roof = Roof(found.peak_gops, found.bandwidth_gbs)
        roof = self._roof
        records = [
            ROOFLINE.record(
                point,
                id=point.id,
                aliases=(point.name,),
                of_roof=None if roof is None else point.gops / roof.at(point.intensity),
            )
            for point in self._points
        ]
        self._table.set_records(records, keep="number")
        self._point()

    @on(Rows.Highlighted, "#roof-layers")
    def _point(self) -> None:
        record = self._table.record
        chosen = 0 if record is None else int(record["number"])
        self.query_one(RooflineChart).show(self._points, self._roof, chosen, self._said)
