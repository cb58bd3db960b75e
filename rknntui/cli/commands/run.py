"""``rknntui run``: Run inputs through a model on a board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import sanitize
from engine.wire.board import BOARD_RUN, Ran, RunParams
from rknntui.cli.board_target import (
    board_target,
    build_flag,
)
from rknntui.cli.figures import layer_lines, memory_line, output_lines, where_line
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker


@click.command(
    "run",
    epilog="On this machine: rknntui simulate. Example: rknntui run model.rknn --device "
    "ssh:pi@board.lan --input photo.jpg --loops 20 --save outputs/",
)
@click.argument("model", type=click.Path(path_type=Path))
@request_flags(BOARD_RUN)
@build_flag
@json_flag
@quiet_flag
def command(
    model: Path,
    build: Path | None,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Run inputs through a model on a board (measured).

    MODEL is a .rknn that the vendor's toolkit compiled for the board's chip. An emulated board also
    takes a container of this program, or a recipe, which is built first. An image is passed as
    uint8 pixels in the size of the input; mean and std are in the compiled model.
    """

    values = values_for(RunParams, flags)

    async def action(session: WorkerSession) -> Ran:
        target = await board_target(session, model)
        made_from = None if build is None else await board_target(session, build)
        asked = RunParams(target.path, target.recipe, build=made_from, **values)
        return await session.run(BOARD_RUN, asked)

    found = with_worker(action, Narrator(quiet=quiet))
    emit(found, _lines(found), as_json=as_json)


def _lines(found: Ran) -> list[str]:
    lines = [where_line(found.device, found.chip, found.runtime, found.driver, found.label)]
    lines += output_lines(found.outputs)
    if found.milliseconds is not None:
        lines.append(f"{found.milliseconds:.3f} ms an inference on the board ({found.label})")
    lines.append(memory_line(found.memory, found.label, found.memory_reason))
    lines += layer_lines(found.layers)
    lines += [f"wrote {path}" for path in found.saved]
    return lines + [sanitize(note) for note in found.notes]
