"""``rknntui codegen``: Write a C++ or Python project that runs a model on a board."""

from __future__ import annotations

from pathlib import Path

from engine import ContainerError, SourceModelError, sanitize
from engine.wire.codec import Values
from engine.wire.codegen import CODEGEN, MODEL_TASKS, Generated
from engine.wire.model import SNIFF
from engine.wire.requests import AtPath
from rknntui.cli.session import WorkerSession, resolve
from rknntui.cli.verb import verb


async def _where(session: WorkerSession, target: Path, options: Values, fields: Values) -> Values:
    kind = await _kind(session, target)
    path = str(target.absolute())
    if kind == "rknn_vendor" and fields.get("model"):
        raise ContainerError(
            f"{target} is a compiled model, and --model names another one.",
            remedy="Give the recipe or the build as TARGET.",
        )
    if kind:
        return {"build" if kind == "rknn" else "model": path}
    return {"recipe": await resolve(session, target, options)}


async def _kind(session: WorkerSession, target: Path) -> str:
    """``rknn``: a container of ours; ``rknn_vendor``: a compiled model; else empty."""
    try:
        seen = await session.call(SNIFF, AtPath(str(target.absolute())))
    except SourceModelError:
        return ""  # whoever reads it as a model or recipe tells what is wrong
    return seen.kind if seen.kind in ("rknn", "rknn_vendor") else ""


@verb(
    CODEGEN,
    fill=_where,
    epilog="TARGET is a model file, a recipe, a container of this program, or a compiled .rknn. "
    "Tasks: " + "; ".join(f"{name}: {about}" for name, about in MODEL_TASKS.items()) + ".",
)
def command(result: Generated) -> list[str]:
    """Write a project that runs a model on a board and compares its outputs with golden ones.

    The golden outputs are simulated by the build of TARGET, and stored with the inputs.
    """
    lines = [f"{sanitize(result.path, 500)}: {len(result.files)} files"]
    for finding in result.findings:
        lines.append(f"{finding.severity}: {sanitize(finding.what)}")
        lines += [f"  {sanitize(line)}" for line in finding.remedy.split("\n") if line]
    return [*lines, "Its README.md says how to build and run it."]
