"""``rknntui memory``: Show what a model takes on a board."""

from __future__ import annotations

from pathlib import Path

import click

from engine import human_bytes
from engine.wire.board import BOARD_MEMORY, MemoryParams, MemoryReport
from rknntui.cli.board_target import board_target, device_flag
from rknntui.cli.figures import memory_line, system_line, where_line
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker


@click.command("memory", epilog="Example: rknntui memory model.rknn --device adb:515e9b401c060c0b")
@click.argument("model", type=click.Path(path_type=Path))
@device_flag
@json_flag
@quiet_flag
def command(model: Path, device: str | None, as_json: bool, quiet: bool) -> None:
    """Show what a model takes on a board, by kind, and what the board has left with it (measured).

    MODEL is a .rknn that the vendor's toolkit compiled for the board's chip. An emulated board
    also takes a container of this program, or a recipe. Generation 1's runtime has no figures of a
    model: then the reason is said, and the memory of the system.
    """

    async def action(session: WorkerSession) -> MemoryReport:
        target = await board_target(session, model)
        asked = MemoryParams(target.path, target.recipe, device=device)
        return await session.run(BOARD_MEMORY, asked)

    found = with_worker(action, Narrator(quiet=quiet))
    lines = [where_line(found.device, found.chip, found.runtime, "", found.label)]
    lines += found.text.splitlines() or [memory_line(None, found.label, found.reason)]
    if found.memory is not None and found.memory.sram:
        lines.append(memory_line(found.memory, found.label))
    if not found.text:
        lines.append(f"model file: {human_bytes(found.model_bytes)}")
    lines.append(system_line(found.system))
    emit(found, lines, as_json=as_json)
