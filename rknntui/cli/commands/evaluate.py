"""``rknntui evaluate``."""

from __future__ import annotations

from engine import sanitize
from engine.wire.score import EVALUATE, Evaluated, Interval
from rknntui.cli.output import table
from rknntui.cli.verb import verb

_EPILOG = (
    "FILE.py:Name is a function (outputs, label, sample) -> number or dict of numbers, averaged "
    "over the samples, or a class with update(outputs, label, sample) and result()."
)


@verb(EVALUATE, epilog=_EPILOG)
def command(result: Evaluated) -> list[str]:
    """Score labelled samples with the float model and with the quantized one (simulated)."""
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
