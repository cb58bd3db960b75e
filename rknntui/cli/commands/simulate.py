"""``rknntui simulate``."""

from __future__ import annotations

from pathlib import Path

from engine.wire.build import SIMULATE, Simulated
from engine.wire.codec import Values
from rknntui.cli.figures import output_lines
from rknntui.cli.session import WorkerSession, resolve, sniffed
from rknntui.cli.verb import verb


async def _where(session: WorkerSession, target: Path, options: Values, _: Values) -> Values:
    if (await sniffed(session, target)).kind == "rknn":
        # a container holds no code: the classes of its custom operators are given beside it
        names = ("custom_ops", "op_packages")
        beside = {name: options[name] for name in names if options.get(name)}
        return {"path": str(target.absolute()), "source": beside}
    return {"recipe": await resolve(session, target, options)}


@verb(
    SIMULATE,
    fill=_where,
    keys=True,
    epilog="TARGET is a model file, a recipe or an rknntui container (.rknn).",
)
def command(result: Simulated) -> list[str]:
    """Run inputs through a build or a container on this machine (simulated)."""
    lines = output_lines(result.outputs)
    if result.quantized:
        compiled = ", as compiled" if result.as_compiled else ""
        lines.append(f"{result.arithmetic} arithmetic{compiled} (simulated)")
    lines.append(f"{result.seconds:.4f} s on this machine (measured; no NPU time)")
    lines += [f"wrote {path}" for path in result.saved]
    return lines
