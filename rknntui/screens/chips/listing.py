"""The chips side by side."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.wire.cost_tables import CHIPS, since
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine.wire.cost import ChipEstimate, Estimates

_VARIED = replace(
    CHIPS,
    columns=tuple(
        replace(column, from_width=100) if column.key == "fps_range" else column
        for column in CHIPS.columns
    ),
)
"""With columns of changes, which need the room of the interval."""


def _fps(chip: ChipEstimate | None) -> float | None:
    return None if chip is None or chip.fps is None else chip.fps.value


def _memory(chip: ChipEstimate | None) -> int | None:
    return None if chip is None or chip.memory is None else chip.memory.total


class ChipsPane(RecordView):
    """A row for each chip.

    Attributes:
        found: what is shown; None before the first answer.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(CHIPS, id="chip-table", what="chips")
        super().__init__("Chips (estimated)", table, id=id)
        self.found: Estimates | None = None
        self._changed = False

    def take(
        self, found: Estimates | None, before: Estimates | None, marked: Collection[str]
    ) -> None:
        """Show estimates.

        Args:
            found: all chips.
            before: of the recipe as it is, where ``found`` varies something.
            marked: chips that are compared.
        """
        self.found = found
        if (before is not None) != self._changed:
            self._changed = before is not None
            self.table.declared = _VARIED if self._changed else CHIPS
        old = {row.chip: row for row in before.chips} if before is not None else {}
        rows = () if found is None else found.chips
        self.table.set_records(
            [
                CHIPS.record(
                    row,
                    mark="●" if row.chip in marked else " ",
                    fps_change=since(_fps(row), _fps(old.get(row.chip))),
                    memory_change=since(_memory(row), _memory(old.get(row.chip))),
                )
                for row in rows
            ],
            keep="chip",
        )

    @property
    def chip(self) -> str:
        """The chip under the cursor; empty for none."""
        record = self.table.record
        return "" if record is None else str(record["chip"])

    @property
    def estimate(self) -> ChipEstimate | None:
        """Its figures."""
        rows = () if self.found is None else self.found.chips
        return next((row for row in rows if row.chip == self.chip), None)
