"""``rknntui run``: Run inputs through a model on a board."""

from __future__ import annotations

from pathlib import Path

import click

from engine import sanitize
from engine.wire.board import BOARD_RUN, Ran, RunParams
from rknntui.cli.board_target import (
    board_target,
    build_flag,
    cores_flag,
    device_flag,
    layers_flag,
)
from rknntui.cli.figures import layer_lines, memory_line, output_lines, where_line
from rknntui.cli.flags import inputs_flag, json_flag, quiet_flag, save_flag, top_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker


@click.command(
    "run",
    epilog="On this machine: rknntui simulate. Example: rknntui run model.rknn --device "
    "ssh:pi@board.lan --input photo.jpg --loops 20 --save outputs/",
)
@click.argument("model", type=click.Path(path_type=Path))
@device_flag
@inputs_flag
@cores_flag("NPU cores that run the model", default="auto", show_default=True)
@click.option(
    "--loops",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Inferences that are timed, after the first.",
)
@layers_flag
@build_flag
@save_flag
@top_flag
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@json_flag
@quiet_flag
def command(
    model: Path,
    device: str | None,
    files: tuple[Path, ...],
    cores: str,
    loops: int,
    layers: bool,
    build: Path | None,
    save: Path | None,
    top: int,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run inputs through a model on a board (measured).

    MODEL is a .rknn that the vendor's toolkit compiled for the board's chip. An emulated board also
    takes a container of this program, or a recipe, which is built first. An image is passed as
    uint8 pixels in the size of the input; mean and std are in the compiled model.
    """

    async def action(session: WorkerSession) -> Ran:
        target = await board_target(session, model)
        asked = RunParams(
            target.path,
            target.recipe,
            device=device,
            inputs=tuple(str(path.absolute()) for path in files),
            cores=cores,
            loops=loops,
            layers=layers,
            save=None if save is None else str(save.absolute()),
            top=top,
            force=force,
            build=None if build is None else await board_target(session, build),
        )
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
