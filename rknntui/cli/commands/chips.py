"""``rknntui chips``: Compare the chips for a model, or list what is known of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.wire.cost import COST_CHIPS, Chips, ChipsParams
from rknntui.cli.cost_flags import WhatIf, chip_flag, what_if_flags
from rknntui.cli.cost_text import chip_lines, facts_lines
from rknntui.cli.estimate_output import Asked, report_flag, show_estimates
from rknntui.cli.flags import json_flag, quiet_flag, recipe_flags, values_of
from rknntui.cli.gates import CostLimits, cost_gate_flags
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker


@click.command(
    "chips",
    epilog="Example: rknntui chips model.onnx --chip rk3566 --chip rk3588 --report chips.html",
)
@click.argument("model", required=False, type=click.Path(path_type=Path))
@chip_flag
@what_if_flags()
@click.option("--layers", is_flag=True, help="With --json: every layer of every chip, too.")
@report_flag
@click.option("--force", is_flag=True, help="Overwrite a report that exists.")
@cost_gate_flags
@recipe_flags
@json_flag
@quiet_flag
def command(
    model: Path | None,
    chip_names: tuple[str, ...],
    layers: bool,
    report: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Set chips side by side for a model (estimated): frames a second, memory, layers on the CPU.

    MODEL is a model file or a recipe; without it, what is known of the chips. Without --chip all
    of them.
    """
    what_if, limits = WhatIf.taken(flags), CostLimits.taken(flags)
    if model is None:
        if limits or report is not None:
            raise click.UsageError("Reports and limits are of a model: name one.")
        facts = with_worker(lambda session: _facts(session, chip_names), Narrator(quiet=quiet))
        emit(facts, facts_lines(facts.chips), as_json=as_json)
        return 0
    asked = Asked(
        model, chip_names, what_if, values_of(flags), limits, report, force, as_json, quiet
    )
    return show_estimates(asked, chip_lines, kind="chips", layers=layers)


async def _facts(session: WorkerSession, names: tuple[str, ...]) -> Chips:
    return await session.call(COST_CHIPS, ChipsParams(names))
