"""``rknntui memory``: Show what a model takes on a board, or estimate it for a chip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import human_bytes
from engine.wire.board import BOARD_MEMORY, MemoryParams, MemoryReport
from engine.wire.cost import COST_ESTIMATE, EstimateParams
from rknntui.cli.cost_text import memory_cost_lines
from rknntui.cli.estimate_output import Asked, report_flag, show_estimates
from rknntui.cli.figures import memory_line, system_line, where_line
from rknntui.cli.flags import Verb, force_flag, json_flag, quiet_flag, recipe_flags, values_of
from rknntui.cli.gates import Limits, fail_memory_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.cli.verb import board_target, described


@click.command(
    "memory",
    cls=Verb,
    **described(BOARD_MEMORY),
)
@click.argument("model", type=click.Path(path_type=Path))
@request_flags(BOARD_MEMORY)
@request_flags(COST_ESTIMATE, without=("cores",))
@report_flag
@force_flag
@fail_memory_flag
@recipe_flags
@json_flag
@quiet_flag
def command(
    model: Path,
    report: Path | None,
    force: bool,
    fail_memory: float | None,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Show what a model takes on a board, by kind, and what the board has left with it (measured).

    MODEL is a .rknn that the vendor's toolkit compiled for the board's chip. An emulated board
    also takes a container of this program, or a recipe. Generation 1's runtime has no figures of a
    model: the vendor's toolkit is asked for them, where `rknntui vendor adopt` has named one.

    With --chip, nothing is measured: MODEL is a model file or a recipe, and its weights and the
    tensors between its layers are placed as the vendor's compiler does it (estimated).
    """
    estimate, values = values_for(EstimateParams, flags), values_for(MemoryParams, flags)
    if "chips" in estimate:
        if values:
            raise click.UsageError("--device measures and --chip estimates: give one.")
        limits = Limits(memory=fail_memory)
        asked = Asked(model, estimate, values_of(flags), limits, report, force, as_json, quiet)
        return show_estimates(asked, memory_cost_lines, kind="tensors", layers=False, spans=True)
    if report is not None or fail_memory is not None:
        raise click.UsageError("--report and --fail-memory are of estimates: give --chip.")

    async def action(session: WorkerSession) -> MemoryReport:
        target = await board_target(session, model)
        asked = MemoryParams(target.path, target.recipe, **values)
        return await session.run(BOARD_MEMORY, asked)

    usage = with_worker(action, Narrator(quiet=quiet))
    lines = [where_line(usage.device, usage.chip, usage.runtime, "", usage.label)]
    lines += usage.text.splitlines() or [memory_line(None, usage.label, usage.reason)]
    if usage.memory is not None and usage.memory.sram:
        lines.append(memory_line(usage.memory, usage.label))
    if not usage.text:
        lines.append(f"model file: {human_bytes(usage.model_bytes)}")
    if usage.system is not None or usage.allocated is None:
        lines.append(system_line(usage.system))
    emit(usage, lines, as_json=as_json)
    return 0
