"""The layers of a chip as its compiler lays them out, and those of several chips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.wire.cost_tables import since
from engine.wire.formats import MILLISECONDS, RATIO
from engine.wire.layer_tables import COST
from engine.wire.layers import LayerFigures, by_layer, layer_rows
from engine.wire.table import Column, Record, Table
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import bar

if TYPE_CHECKING:
    from engine.wire.cost import ChipEstimate
    from engine.wire.table import Meaning, Table

_BAR = 8
_SIGNS = {"CPU": "!", "unknown": "?", "none": "✗"}


class CostPane(LayerView):
    """A row for each layer of the compiler."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(COST, id="cost-layers", what="cost")
        super().__init__("Layers (estimated)", table, id=id)

    def take(self, found: ChipEstimate | None, before: ChipEstimate | None) -> None:
        """Show the layers of a chip; ``before`` of the recipe as it is, where it varies."""
        self.set_title(f"Layers on {found.chip} (estimated)" if found else "Layers (estimated)")
        old = {} if before is None else _by_name(before)

        def change(row: LayerFigures) -> dict[str, float | None]:
            now, past = row.estimated, old.get(row.id)
            if now is None or past is None or past.estimated is None:
                return {"change": None}
            return {"change": since(now.time_ms, past.estimated.time_ms)}

        self.layer_table.show_layers(() if found is None else layer_rows(found), more=change)

    def select_layer(self, name: str) -> bool:
        """Put the cursor on the first row of a layer, by any of its names."""
        return self.layer_table.select_layer(name)


class ComparePane(RecordView):
    """A row for each layer of the build, with its time on each of the compared chips."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(_side_by_side(()), id="compared-chips", what="compared")
        super().__init__("Layers side by side (estimated)", table, id=id)

    def take(self, found: Sequence[ChipEstimate]) -> None:
        """Show the chips beside each other, in the order of the first one's layers."""
        self.table.declared = _side_by_side([row.chip for row in found])
        chips = [_by_name(chip) for chip in found]
        longest = max((_ms(row) for rows in chips for row in rows.values()), default=0.0)
        records: list[Record] = []
        for number, name in enumerate(dict.fromkeys(name for rows in chips for name in rows), 1):
            steps = [rows.get(name) for rows in chips]
            first = next(row for row in steps if row is not None)
            record: dict[str, object] = {"number": number, "name": name, "op": first.first("op")}
            for at, row in enumerate(steps):
                value = None if row is None else _ms(row)
                record[f"ms{at}"] = value
                record[f"bar{at}"] = bar(value / longest, _BAR) if value and longest else ""
                record[f"on{at}"] = row and _SIGNS.get(row.placement or "", " ")
            known = [value for row in steps if row is not None and (value := _ms(row))]
            record["ratio"] = max(known) / min(known) if len(known) > 1 else None
            records.append(record)
        self.table.set_records(records, keep="name")

    @property
    def layer_id(self) -> str:
        """Id of the layer under the cursor."""
        record = self.table.record
        return "" if record is None else str(record["name"])


def _side_by_side(chips: Sequence[str]) -> Table:
    """Position, layer, and for each chip its time, a bar and a sign where it is not on the NPU."""

    def sign_style(sign: str | None) -> Meaning:
        return "bad" if sign == "✗" else "warn"

    columns = [*COST.pick("number", "name").columns, replace(COST.column("op"), from_width=100)]
    for at, chip in enumerate(chips):
        columns += [
            Column(f"ms{at}", f"{chip} ms", MILLISECONDS, value=None),
            Column(f"on{at}", name="placement", width=1, style=sign_style, value=None),
            replace(
                COST.column("bar"), key=f"bar{at}", width=_BAR, from_width=30 + 24 * len(chips)
            ),
        ]
    ratio = Column("ratio", format=RATIO, value=None, from_width=72)
    title = "A layer, and its time on each chip (estimated)."
    return Table("compared-chips", title, (*columns, ratio))


def _by_name(found: ChipEstimate) -> dict[str, LayerFigures]:
    """Layer id -> all its rows as one; a row without layer by its printed name."""
    rows = (replace(row, id=row.name) for row in layer_rows(found))
    return {row.id: row for row in by_layer(rows)}


def _ms(row: LayerFigures) -> float:
    return 0.0 if row.estimated is None else row.estimated.time_ms
