"""The layers of a chip as its compiler lays them out, and those of several chips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rknntui.screens.chips.text import bar, layer_fields, layer_record, milliseconds
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import Field, Record, RecordTable, name_text
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from engine.wire.cost import ChipEstimate

__all__ = ["ComparePane", "CostPane", "layer_times"]

_BAR = 8
_ENDS = ("InputOperator", "OutputOperator")
"""Rows of the compiler that hand the model its input and output: they are always on the CPU."""


class CostPane(RecordView):
    """A row for each layer of the compiler."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(layer_fields(changed=False), id="cost-layers", what="cost")
        super().__init__("Layers (estimated)", table, id=id)
        self._changed = False

    def take(self, found: ChipEstimate | None, before: ChipEstimate | None) -> None:
        """Show the layers of a chip; ``before`` of the recipe as it is, where it varies."""
        if (before is not None) != self._changed:
            self._changed = before is not None
            self.table.fields = layer_fields(changed=self._changed)
        if found is None:
            self.set_title("Layers (estimated)")
            self.table.set_records([])
            return
        self.set_title(f"Layers on {found.chip} (estimated)")
        whole = sum(row.time_ms for row in found.layers)
        longest = max((row.time_ms for row in found.layers), default=0.0)
        old = layer_times(before) if before is not None else {}
        records = [
            layer_record(i + 1, row, whole, longest, old) for i, row in enumerate(found.layers)
        ]
        self.table.set_records(records, keep="number")

    @property
    def layer_id(self) -> str:
        """Id of the build's layer under the cursor; empty where the row has none."""
        record = self.table.record
        return "" if record is None else str(record["id"])

    def select_layer(self, name: str) -> bool:
        """Put the cursor on the first row of a layer, by any of its names."""
        for key in ("id", "name", "printed"):
            if self.table.select_record(key, name):
                return True
        for record in self.table.records:
            if name in record["aliases"]:
                return self.table.select_record("number", record["number"])
        return False


class ComparePane(RecordView):
    """A row for each layer of the build, with its time on each of the compared chips."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(_fields(()), id="compared-chips", what="compared")
        super().__init__("Layers side by side (estimated)", table, id=id)

    def take(self, found: Sequence[ChipEstimate]) -> None:
        """Show the chips beside each other, in the order of the first one's layers."""
        self.table.fields = _fields([row.chip for row in found])
        times = [layer_times(row) for row in found]
        places = [_places(row) for row in found]
        order = list(dict.fromkeys(name for of_chip in times for name in of_chip))
        longest = max((value for of_chip in times for value in of_chip.values()), default=0.0)
        ops = {(row.id or row.name): row.op for chip in reversed(found) for row in chip.layers}
        records: list[Record] = []
        for number, name in enumerate(order):
            record: dict[str, object] = {"number": number + 1, "name": name, "op": ops[name]}
            for at, of_chip in enumerate(times):
                value = of_chip.get(name)
                record[f"ms{at}"] = value
                record[f"bar{at}"] = bar(value / longest, _BAR) if value and longest else ""
                record[f"on{at}"] = places[at].get(name)
            known = [value for of_chip in times if (value := of_chip.get(name))]
            record["ratio"] = max(known) / min(known) if len(known) > 1 else None
            records.append(record)
        self.table.set_records(records, keep="name")

    @property
    def layer_id(self) -> str:
        """Id of the layer under the cursor."""
        record = self.table.record
        return "" if record is None else str(record["name"])


def _fields(chips: Sequence[str]) -> tuple[Field, ...]:
    """Position, layer, and for each chip its time, a bar and a sign where it is not on the NPU."""

    def sign_style(sign: str | None) -> str:
        return "bad" if sign == "✗" else "warn"

    fields = [
        Field("number", Column("#", 4, right=True)),
        Field("name", Column("layer", 10, grow=3, text=name_text)),
        Field("op", Column("op", 6, text=name_text), 100),
    ]
    for at, chip in enumerate(chips):
        fields += [
            Field(f"ms{at}", Column(f"{chip} ms", len(chip) + 3, right=True, text=milliseconds)),
            Field(f"on{at}", Column("", 1, text=str, style=sign_style, name="placement")),
            Field(
                f"bar{at}",
                Column("", _BAR, style=lambda _: "accent", name="share of time"),
                30 + 24 * len(chips),
            ),
        ]
    ratio = Column("ratio", 6, right=True, text=lambda v: f"{v:.1f}x")
    return (*fields, Field("ratio", ratio, 72))


def layer_times(found: ChipEstimate) -> dict[str, float]:
    """Layer id -> ms of all rows that serve it; a row without layer has its printed name."""
    times: dict[str, float] = {}
    for row in found.layers:
        name = row.id or row.name
        times[name] = times.get(name, 0.0) + row.time_ms
    return times


def _places(found: ChipEstimate) -> dict[str, str]:
    """Layer id -> sign, where a row of it is not on the NPU, inputs and outputs aside."""
    signs = {"CPU": "!", "unknown": "?", "none": "✗", "NPU": " "}
    places: dict[str, str] = {}
    for row in found.layers:
        name = row.id or row.name
        if row.op not in _ENDS and places.get(name, " ") == " ":
            places[name] = signs[row.target]
    return places
