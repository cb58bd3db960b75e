"""What is known of a chip, and its calibration by a measured run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.wire.cost import COST_CALIBRATE, COST_CHIPS, CalibrateParams, ChipsParams
from engine.wire.cost_tables import BASIS, CHIP_FIGURES
from engine.wire.formats import MILLISECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from engine.wire.cost import Calibrated, ChipFacts, Chips
    from rknntui.screens.base.workspace import Workspace
    from rknntui.widgets.strips import Line


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
            f"multiplied by {found.factor:.3f} from now on."
        )
        workspace.notify(text, title="Calibrated", markup=False)
        then()

    workspace.ask(COST_CALIBRATE, CalibrateParams(**model), done)
