"""``rknntui memory``: Show what a model takes on a board, or estimate it for a chip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import human_bytes
from engine.wire.board import BOARD_MEMORY, MemoryParams, MemoryReport
from engine.wire.cost import COST_ESTIMATE
from rknntui.cli.cost_text import memory_cost_lines
from rknntui.cli.estimate_output import estimate_flags, show_estimates
from rknntui.cli.figures import memory_line, system_line, where_line
from rknntui.cli.flags import Verb
from rknntui.cli.gates import Limits
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
@estimate_flags("memory")
def command(model: Path, **flags: Any) -> int:
    """Show what a model takes on a board, by kind, and what the board has left with it (measured).

    MODEL is a .rknn that the vendor's toolkit compiled for the board's chip. An emulated board
    also takes a container of this program, or a recipe. Generation 1's runtime has no figures of a
    model: the vendor's toolkit is asked for them, where `rknntui vendor adopt` has named one.

    With --chip, nothing is measured: MODEL is a model file or a recipe, and its weights and the
    tensors between its layers are placed as the vendor's compiler does it (estimated).
    """
    values = values_for(MemoryParams, flags)
    if flags["param_chips"]:
        if values:
            raise click.UsageError("--device measures and --chip estimates: give one.")
        return show_estimates(
            model, flags, memory_cost_lines, kind="tensors", layers=False, spans=True
        )
    if flags["report"] is not None or Limits.taken(flags):
        raise click.UsageError("--report and --fail-memory are of estimates: give --chip.")

    async def action(session: WorkerSession) -> MemoryReport:
        target = await board_target(session, model)
        return await session.run(BOARD_MEMORY, MemoryParams(target.path, target.recipe, **values))

    usage = with_worker(action, Narrator(quiet=flags["quiet"]))
    lines = [where_line(usage.device, usage.chip, usage.runtime, "", usage.label)]
    lines += usage.text.splitlines() or [memory_line(None, usage.label, usage.reason)]
    if usage.memory is not None and usage.memory.sram:
        lines.append(memory_line(usage.memory, usage.label))
    if not usage.text:
        lines.append(f"model file: {human_bytes(usage.model_bytes)}")
    if usage.system is not None or usage.allocated is None:
        lines.append(system_line(usage.system))
    emit(usage, lines, as_json=flags["as_json"])
    return 0
