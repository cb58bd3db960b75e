"""``rknntui codegen``: Write a C++ or Python project that runs a model on a board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import ContainerError, SourceModelError, sanitize
from engine.wire.codegen import (
    CODEGEN,
    MODEL_TASKS,
    CodegenParams,
    Generated,
)
from engine.wire.model import SNIFF
from engine.wire.requests import AtPath
from rknntui.cli.flags import Verb, json_flag, quiet_flag, recipe_flags, values_of
from rknntui.cli.flags import target as target_argument
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, resolve, with_worker


@click.command(
    "codegen",
    cls=Verb,
    epilog="TARGET is a model file, a recipe, a container of this program, or a compiled .rknn. "
    "Tasks: " + "; ".join(f"{name}: {about}" for name, about in MODEL_TASKS.items()) + ".",
)
@target_argument
@request_flags(CODEGEN)
@recipe_flags
@json_flag
@quiet_flag
def command(
    target: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Write a project that runs a model on a board and compares its outputs with golden ones.

    The golden outputs are simulated by the build of TARGET, and stored with the inputs.
    """
    given, values = values_of(flags), values_for(CodegenParams, flags)

    async def action(session: WorkerSession) -> Generated:
        kind = await _kind(session, target)
        path = str(target.absolute())
        if kind == "rknn_vendor" and values.get("model"):
            raise ContainerError(
                f"{target} is a compiled model, and --model names another one.",
                remedy="Give the recipe or the build as TARGET.",
            )
        where: dict[str, Any] = {"rknn": {"build": path}, "rknn_vendor": {"model": path}}.get(
            kind
        ) or {"recipe": await resolve(session, target, given)}
        return await session.run(CODEGEN, CodegenParams(**values, **where))

    result = with_worker(action, Narrator(quiet=quiet))
    lines = [f"{sanitize(result.path, 500)}: {len(result.files)} files"]
    for finding in result.findings:
        lines.append(f"{finding.severity}: {sanitize(finding.what)}")
        lines += [f"  {sanitize(line)}" for line in finding.remedy.split("\n") if line]
    lines.append("Its README.md says how to build and run it.")
    emit(result, lines, as_json=as_json)


async def _kind(session: WorkerSession, target: Path) -> str:
    """``rknn``: a container of ours; ``rknn_vendor``: a compiled model; else empty."""
    try:
        seen = await session.call(SNIFF, AtPath(str(target.absolute())))
    except SourceModelError:
        return ""  # whoever reads it as a model or recipe tells what is wrong
    return seen.kind if seen.kind in ("rknn", "rknn_vendor") else ""
