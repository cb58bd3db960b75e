"""``rknntui evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import sanitize
from engine.wire.score import EVALUATE, Evaluated, EvaluateParams, Interval
from rknntui.cli.flags import Verb, json_flag, quiet_flag, recipe_flags, target, values_of
from rknntui.cli.output import emit, table
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, resolve, with_worker

_EPILOG = (
    "FILE.py:Name is a function (outputs, label, sample) -> number or dict of numbers, averaged "
    "over the samples, or a class with update(outputs, label, sample) and result()."
)


@click.command("evaluate", cls=Verb, epilog=_EPILOG)
@target
@click.option(
    "-l",
    "--labels",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER|LIST.txt|FILE.npz",
    help="Labelled samples: a folder with a subfolder for each class; a text file with the paths "
    "of a sample and its label on each line; or an npz with samples (N, H, W[, C]) uint8 and "
    "labels (N,).",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Also report top-K for this K; top-1 is always reported.",
)
@click.option("--output", help="The output with the classes, where the model has several.")
@click.option(
    "--label-offset",
    type=int,
    default=0,
    show_default=True,
    help="Added to labels: 1 where class 0 is the background.",
)
@click.option(
    "--score",
    metavar="FILE.py:Name",
    help="Your own scoring function. It is Python code: naming it allows it to run.",
)
@click.option(
    "--rounding",
    is_flag=True,
    help="Score the reference arithmetic too: what other roundings do to the answers.",
)
@recipe_flags
@json_flag
@quiet_flag
def command(
    target: Path,
    labels: Path,
    top: int,
    output: str | None,
    label_offset: int,
    score: str | None,
    rounding: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Score labelled samples with the float model and with the quantized one (simulated)."""

    async def action(session: WorkerSession) -> Evaluated:
        asked = EvaluateParams(
            await resolve(session, target, values_of(flags)),
            labels=str(labels.absolute()),
            top=top,
            output=output,
            label_offset=label_offset,
            score=None if score is None else str(Path(score).absolute()),
            rounding=rounding,
        )
        return await session.run(EVALUATE, asked)

    result = with_worker(action, Narrator(quiet=quiet))
    emit(result, _lines(result), as_json=as_json)


def _lines(result: Evaluated) -> list[str]:
    shares = result.agreement is not None

    def figure(value: float | None, interval: Interval | None, *, sign: bool = False) -> str:
        plus = "+" if sign else ""
        scale, unit = (100.0, " %") if shares else (1.0, "")
        digits = ".2f" if shares else ".5g"
        text, low, high = (
            "nan" if end is None else f"{end * scale:{plus}{digits}}"
            for end in (value, *(interval or (None, None)))
        )
        return f"{text}{unit}" if interval is None else f"{text}{unit} ({low} to {high})"

    rows = [
        (
            sanitize(row.name, 40),
            figure(row.golden, row.golden_interval),
            figure(row.simulated, row.simulated_interval),
            figure(row.difference, row.difference_interval, sign=True),
        )
        for row in result.scores
    ]
    lines = [f"{result.samples} samples, float against simulated"]
    lines += table(("score", "float", "simulated", "difference"), rows)
    if result.agreement is not None:
        lines.append(f"same answer on {result.agreement:.2%} of the samples")
    lines += [
        f"{sanitize(row.name, 40)} in the reference arithmetic: {figure(row.reference, None)}, "
        f"{figure(row.difference, row.difference_interval, sign=True)} beside the integer kernels"
        for row in result.rounding
    ]
    if result.rounding_agreement is not None:
        lines.append(f"both arithmetics: same answer on {result.rounding_agreement:.2%}")
    return [*lines, result.note]
