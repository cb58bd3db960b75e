"""Texts that the checks of images and of arrays share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.dataset.preprocess import InputPlan


def name_of(path: Path) -> str:
    """The name of a sample's file, for a finding."""
    return sanitize(path.name, 60)


def part_of(count: int, looks: Sequence[Any], what: str) -> str:
    """How many of the files that were looked at; ``what`` they are, in the plural."""
    return f"{count} of {len(looks)} {what} that were checked"


def are_fractions(plan: InputPlan) -> bool:
    """Whether mean and std are written for pixels of 0..1."""
    return (
        plan.std is not None
        and max(abs(s) for s in plan.std) <= 1.0
        and (plan.mean is None or max(abs(m) for m in plan.mean) <= 1.0)
    )


def fractions_finding(plan: InputPlan, plans: Sequence[InputPlan]) -> Finding:
    """Mean and std of an input are of pixels of 0..1; the change brings all inputs' to 0..255.

    Args:
        plan: the input's, of which :func:`are_fractions` holds.
        plans: of all inputs, in their order.
    """
    std = max(plan.std or (1.0,))
    return Finding(
        "mean-std-of-fractions",
        "warning",
        "std_values",
        f"mean_values and std_values of input {sanitize(plan.name, 60)} are at most 1, and pixels "
        f"are 0..255: values reach {255 / std:.0f}.",
        cause="Training code divides pixels by 255 first; the options take pixels as they are.",
        remedy="Multiply both by 255.",
        changes={
            "mean_values": _scaled([p.mean for p in plans], [are_fractions(p) for p in plans], 0.0),
            "std_values": _scaled([p.std for p in plans], [are_fractions(p) for p in plans], 1.0),
        },
    )


def _scaled(
    rows: Sequence[tuple[float, ...] | None], which: Sequence[bool], neutral: float
) -> list[list[float]]:
    """Rows per input in units of pixels; those of other inputs as they are."""
    return [
        [round(n * (255.0 if scale else 1.0), 4) for n in (row or (neutral,))]
        for row, scale in zip(rows, which, strict=True)
    ]
