"""``rknntui simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.wire.build import SIMULATE, Simulated, SimulateParams
from engine.wire.codec import Values
from engine.wire.requests import ModelTarget
from rknntui.cli.figures import output_lines
from rknntui.cli.flags import (
    Verb,
    json_flag,
    quiet_flag,
    recipe_flags,
    target,
    values_of,
)
from rknntui.cli.keys import key_file_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, resolve, sniffed, with_worker


@click.command(
    "simulate", cls=Verb, epilog="TARGET is a model file, a recipe or an rknntui container (.rknn)."
)
@target
@request_flags(SIMULATE)
@recipe_flags
@key_file_flag
@json_flag
@quiet_flag
def command(
    target: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Run inputs through a build or a container on this machine (simulated)."""

    given, values = values_of(flags), values_for(SimulateParams, flags)

    async def action(session: WorkerSession) -> Simulated:
        where = await _where(session, target, given)
        asked = SimulateParams(where.path, where.recipe, where.source, **values)
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
