"""The layers of a model as a board's runtime timed them, beside their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine import human_bytes, sqnr_rank
from engine.wire.build import ACCURACY
from rknntui.screens.accuracy.text import decibel_column
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import Field, Record, RecordTable, name_text
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from engine.wire.board import LiveLook, Ran
    from engine.wire.build import LayerAccuracy
    from engine.wire.devices import LayerTime
    from rknntui.session.state import Session

__all__ = ["LayersPane", "errors_of"]

_SLOW = 20.0
"""A layer with this share of the whole time, in percent, has a colour."""


@dataclass
class _Times:
    """The times of a row over several runs, in microseconds."""

    runs: int = 0
    total: float = 0.0

    def add(self, microseconds: float | None) -> None:
        if microseconds is not None:
            self.runs += 1
            self.total += microseconds

    @property
    def mean(self) -> float | None:
        return self.total / self.runs if self.runs > 1 else None


class LayersPane(RecordView):
    """A row for each step of the runtime's own table.

    Attributes:
        result: the run that is shown; None before one.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(layer_fields(), id="layer-times", what="layers")
        super().__init__("Layers", table, id=id)
        self.result: Ran | LiveLook | None = None
        self._times: dict[int, _Times] = {}

    def clear(self) -> None:
        """Forget the layers: they are of another model or board."""
        self.result = None
        self._times.clear()
        self.set_title("Layers")
        self.table.set_records([])

    def take(
        self,
        result: Ran | LiveLook,
        errors: Mapping[str, LayerAccuracy],
        *,
        more: bool = False,
    ) -> None:
        """Show a run; order, filter and the row under the cursor stay.

        Args:
            result: with the times of layers.
            errors: layer id -> its error.
            more: whether it is one of several runs of the same, whose mean is shown too.
        """
        if not more:
            self._times.clear()
        self.result = result
        for row in result.layers:
            self._times.setdefault(row.number, _Times()).add(row.microseconds)
        self.set_title(f"Layers ({result.label})")
        self.join(errors)

    def join(self, errors: Mapping[str, LayerAccuracy]) -> None:
        """Show the errors beside the times."""
        rows = () if self.result is None else self.result.layers
        whole = sum(row.microseconds or 0.0 for row in rows)
        records = [
            _record(row, whole, self._times[row.number].mean, errors.get(row.id or ""))
            for row in rows
        ]
        table, top = self.table, self.table.scroll_offset.y
        shown = top <= table.cursor < top + max(1, table.size.height - table.head)
        table.set_records(records, keep="id")
        if not shown:  # looked at away from the cursor: live rows do not lead back to it
            table.scroll_to(y=top, animate=False, force=True)

    @property
    def layer_id(self) -> str:
        """Id of the build's layer under the cursor; empty where the row has none."""
        record = self.table.record
        return "" if record is None else str(record["layer"] or "")


def errors_of(session: Session) -> dict[str, LayerAccuracy]:
    """Layer id -> error, of the last analysis of this recipe's model; empty before one."""
    job, found = session.last_of(ACCURACY) or (None, None)
    if found is None or job is None or job.recipe != session.recipe:
        return {}
    return {layer.id: layer for layer in found.layers if not layer.inner}


def layer_fields() -> tuple[Field, ...]:
    """Number, layer, operator, type, where it ran, times, traffic, error."""

    def share_style(share: float | None) -> str:
        return "warn" if share is not None and share >= _SLOW else ""

    def where_style(where: str | None) -> str:
        return "" if where is None or where.upper().startswith("NPU") else "warn"

    return (
        Field("id", Column("#", 4, right=True)),
        Field("name", Column("layer", 10, grow=3, text=name_text)),
        Field("op", Column("op", 8, text=name_text)),
        Field("dtype", Column("type", 5, text=name_text), 90),
        Field("target", Column("on", 3, text=name_text, style=where_style)),
        Field("microseconds", Column("time µs", 9, right=True, text=_microseconds)),
        Field("mean", Column("mean µs", 9, right=True, text=_microseconds), 96),
        Field("share", Column("time %", 6, right=True, text=_percent, style=share_style)),
        Field("traffic", Column("traffic", 9, right=True, text=human_bytes)),
        Field("sqnr", decibel_column("SQNR dB", 8), 60),
        Field("own", decibel_column("isol. dB", 8), 96),
        Field("built", Column("built", 6, text=name_text), 106),
        Field("runtime_name", Column("runtime's name", 14, grow=1, text=name_text), 140, "name"),
    )


def _microseconds(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _percent(value: float) -> str:
    return f"{value:.1f}"


def _record(
    row: LayerTime, whole: float, mean: float | None, error: LayerAccuracy | None
) -> Record:
    time = row.microseconds
    more = f" +{len(row.also)}" if row.also else ""
    return {
        "id": row.number,
        "name": (row.id or row.name or f"#{row.number}") + more,
        "layer": row.id,
        "runtime_name": row.name,
        "aliases": (row.name, *row.also, *(error.aliases if error else ())),
        "op": row.op,
        "dtype": row.dtype or None,
        "target": row.target or None,  # generation 1 does not tell
        "microseconds": time,
        "mean": mean,
        "share": 100 * time / whole if time is not None and whole else None,
        "traffic": row.traffic,
        "sqnr": sqnr_rank(error.sqnr) if error and error.cumulative else None,
        "own": sqnr_rank(error.isolated_sqnr) if error and error.isolated else None,
        "built": (error.dtype or None) if error else None,
    }
