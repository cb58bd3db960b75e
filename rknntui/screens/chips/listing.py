"""The lists of Chips: the chips side by side, checks and advice, what is known of a chip."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.wire.cost import COST_CALIBRATE, COST_CHIPS, CalibrateParams, ChipsParams
from engine.wire.cost_tables import ADVICE, BASIS, CHIP_FIGURES, CHIPS
from engine.wire.formats import FACTOR, MILLISECONDS
from engine.wire.layers import OFF_NPU, layer_rows
from engine.wire.table import since
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from engine.wire.cost import (
        AdviceAnswer,
        Calibrated,
        ChipCheck,
        ChipEstimate,
        ChipFacts,
        Chips,
        Estimates,
    )
    from rknntui.screens.base.workspace import Workspace
    from rknntui.widgets.strips import Line

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


# Layers that are not on the NPU, and ways to make a model faster.


class CheckPane(LayerView):
    """A row for each layer that does not run on the NPU as it is."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(OFF_NPU, id="check-layers", what="check")
        super().__init__("Layers not on the NPU (estimated)", table, id=id)
        self.found: ChipCheck | None = None

    def take(self, found: ChipCheck | None) -> None:
        """Show a chip."""
        self.found = found
        of = f" of {found.chip}" if found is not None else ""
        self.set_title(f"Layers not on the NPU{of} (estimated)")
        layers = () if found is None else layer_rows(found)
        self.layer_table.show_layers(
            layers, more=lambda layer: {"printed": layer.printed}, keep="name"
        )


class AdvicePane(RecordView):
    """A row for each way, the largest gain first."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(ADVICE, id="advice-table", what="advice")
        super().__init__("Advice (gains estimated)", table, id=id)
        self.found: AdviceAnswer | None = None

    def take(self, found: AdviceAnswer | None) -> None:
        """Show the ways of a chip."""
        self.found = found
        of = f" for {found.chip}" if found is not None else ""
        self.set_title(f"Advice{of} (gains estimated)")
        rows = () if found is None else found.advice
        whole = found.time_ms if found is not None else None
        records = [
            ADVICE.record(
                row,
                gain=row.gain_ms / whole if row.gain_ms is not None and whole else None,
                why=row.why,
                layers=row.layers,
                aliases=row.layers,
            )
            for row in rows
        ]
        self.table.set_records(records, keep="title")

    @property
    def layer_id(self) -> str:
        """The first layer that it is about; empty for none."""
        record = self.table.record
        return str(record["layers"][0]) if record is not None and record["layers"] else ""


# What is known of a chip, and its calibration by a measured run.


def show_facts(workspace: Workspace, chip: str) -> None:
    """Ask for the facts of a chip and show them in a dialog."""
    from rknntui.screens.dialogs.dialogs import TextDialog

    def show(found: Chips) -> None:
        for facts in found.chips:
            workspace.app.push_screen(TextDialog(facts.name, _lines(facts)))

    workspace.ask(COST_CHIPS, ChipsParams((chip,)), show)


def _lines(facts: ChipFacts) -> list[Line]:
    dtypes = ", ".join(facts.dtypes)
    lines: list[Line] = [
        [(f"Generation {facts.generation}, {facts.toolkit}, {facts.npu_cores} NPU cores", "")],
        [(f"Quantized dtypes: {dtypes}", "")],
        [(f"Estimates are {BASIS.get(facts.confidence, facts.confidence)}.", "")],
        [],
    ]
    for figure in facts.figures:
        name, value, source = (column.show(figure) for column in CHIP_FIGURES.columns)
        lines.append([(f"{name}: ", "accent"), (value, "head")])
        lines.append([(f"  {source}", "dim")])
    return lines


def calibrate(workspace: Workspace, model: dict[str, Any], then: Callable[[], None]) -> None:
    """Correct the estimates by the newest measured run of the open model, and say by how much.

    Args:
        workspace: that asks.
        model: as a request has it.
        then: called when estimates are others.
    """

    def done(found: Calibrated) -> None:
        measured, estimated = map(MILLISECONDS.text, (found.measured_ms, found.estimated_ms))
        text = (
            f"{found.chip}: {measured} ms measured, {estimated} ms estimated. Its estimates are "
            f"multiplied by {FACTOR.text(found.factor)} from now on."
        )
        workspace.notify(text, title="Calibrated", markup=False)
        then()

    workspace.ask(COST_CALIBRATE, CalibrateParams(**model), done)
