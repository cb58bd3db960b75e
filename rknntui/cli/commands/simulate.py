"""``rknntui simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.wire.build import SIMULATE, Simulated, SimulateParams
from engine.wire.codec import Values
from engine.wire.names import ARITHMETICS, Arithmetic
from engine.wire.requests import ModelTarget
from rknntui.cli.figures import output_lines
from rknntui.cli.flags import (
    Verb,
    inputs_flag,
    json_flag,
    quiet_flag,
    recipe_flags,
    save_flag,
    target,
    top_flag,
    values_of,
)
from rknntui.cli.keys import key_file_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, resolve, sniffed, with_worker


@click.command(
    "simulate", cls=Verb, epilog="TARGET is a model file, a recipe or an rknntui container (.rknn)."
)
@target
@inputs_flag
@save_flag
@top_flag
@recipe_flags
@click.option(
    "--as-compiled",
    is_flag=True,
    help="Without the roundings that the vendor's compiler fuses at level 3.",
)
@click.option(
    "--arithmetic",
    type=click.Choice(ARITHMETICS),
    default=ARITHMETICS[0],
    show_default=True,
    help="Integer kernels, or the float form that the vendor's simulator computes.",
)
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@key_file_flag
@json_flag
@quiet_flag
def command(
    target: Path,
    files: tuple[Path, ...],
    save: Path | None,
    top: int,
    as_compiled: bool,
    arithmetic: Arithmetic,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Run inputs through a build or a container on this machine (simulated)."""

    async def action(session: WorkerSession) -> Simulated:
        where = await _where(session, target, values_of(flags))
        asked = SimulateParams(
            where.path,
            where.recipe,
            where.source,
            inputs=tuple(str(p.absolute()) for p in files),
            save=None if save is None else str(save.absolute()),
            top=top,
            force=force,
            as_compiled=as_compiled,
            arithmetic=arithmetic,
        )
        return await session.run(SIMULATE, asked)

    result = with_worker(action, Narrator(quiet=quiet))
    emit(result, _lines(result), as_json=as_json)


async def _where(session: WorkerSession, target: Path, given: Values) -> ModelTarget:
    if (await sniffed(session, target)).kind == "rknn":
        # a container holds no code: the classes of its custom operators are given beside it
        beside = {name: given[name] for name in ("custom_ops", "op_packages") if given.get(name)}
        return ModelTarget(str(target.absolute()), source=beside)
    return ModelTarget(recipe=await resolve(session, target, given))


def _lines(result: Simulated) -> list[str]:
    lines = output_lines(result.outputs)
    if result.quantized:
        compiled = ", as compiled" if result.as_compiled else ""
        lines.append(f"{result.arithmetic} arithmetic{compiled} (simulated)")
    lines.append(f"{result.seconds:.4f} s on this machine (measured; no NPU time)")
    lines += [f"wrote {path}" for path in result.saved]
    return lines
