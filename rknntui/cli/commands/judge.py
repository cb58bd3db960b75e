"""``rknntui simulate`` and ``rknntui evaluate``."""

from __future__ import annotations

from pathlib import Path

from engine import sanitize
from engine.wire.accuracy import EVALUATE, Evaluated
from engine.wire.build import SIMULATE, Simulated
from engine.wire.build_tables import scores_of
from engine.wire.codec import Values
from engine.wire.formats import PERCENT, range_of
from rknntui.cli.figures import output_lines
from rknntui.cli.output import table_lines
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
)
def simulate(result: Simulated) -> list[str]:
    """Run inputs through a build or a container on this machine (simulated)."""
    lines = output_lines(result.outputs)
    if result.quantized:
        compiled = ", as compiled" if result.as_compiled else ""
        lines.append(f"{result.arithmetic} arithmetic{compiled} (simulated)")
    lines.append(f"{result.seconds:.4f} s on this machine (measured; no NPU time)")
    lines += [f"wrote {path}" for path in result.saved]
    return lines


_EVALUATE = (
    "FILE.py:Name is a function (outputs, label, sample) -> number or dict of numbers, averaged "
    "over the samples, or a class with update(outputs, label, sample) and result()."
)


@verb(EVALUATE)
def evaluate(result: Evaluated) -> list[str]:
    """Score labelled samples with the float model and with the quantized one (simulated)."""
    scores = scores_of(shares=result.agreement is not None)
    points = " points" if result.agreement is not None else ""
    score, change = scores.column("simulated").format, scores.column("difference").format
    lines = [f"{result.samples} samples, float against simulated"]
    lines += table_lines(scores, result.scores)
    if result.agreement is not None:
        lines.append(f"same answer on {PERCENT.text(result.agreement)} % of the samples")
    for row in result.rounding:
        apart = f"{change.show(row.difference)}{points}"
        if row.difference_interval is not None:
            apart += f" ({range_of(change).text(row.difference_interval)})"
        lines.append(
            f"{sanitize(row.name, 40)} in the reference arithmetic: {score.show(row.reference)}, "
            f"{apart} beside the integer kernels"
        )
    if result.rounding_agreement is not None:
        same = PERCENT.text(result.rounding_agreement)
        lines.append(f"both arithmetics: same answer on {same} %")
    return [*lines, result.note]
