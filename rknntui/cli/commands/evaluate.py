"""``rknntui evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import sanitize
from engine.wire.score import EVALUATE, Evaluated, Interval
from rknntui.cli.flags import Verb, json_flag, quiet_flag, recipe_flags, target
from rknntui.cli.output import emit, table
from rknntui.cli.progress import Narrator
from rknntui.cli.request import ask, request_flags

_EPILOG = (
    "FILE.py:Name is a function (outputs, label, sample) -> number or dict of numbers, averaged "
    "over the samples, or a class with update(outputs, label, sample) and result()."
)


@click.command("evaluate", cls=Verb, epilog=_EPILOG)
@target
@request_flags(EVALUATE)
@recipe_flags
@json_flag
@quiet_flag
def command(
    target: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Score labelled samples with the float model and with the quantized one (simulated)."""

    result = ask(EVALUATE, target, flags, Narrator(quiet=quiet))
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
