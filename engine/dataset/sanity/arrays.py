"""Sanity checks of the npy files of a calibration dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.dataset.inspect import ArrayStats
from engine.dataset.preprocess import InputPlan
from engine.dataset.sanity.messages import are_fractions, fractions_finding, name_of, part_of


def _finite(
    plan: InputPlan, arrays: Sequence[ArrayStats], _: Sequence[InputPlan]
) -> Iterator[Finding]:
    bad = [] if plan.mask else [a for a in arrays if a.bad]
    if bad:
        yield Finding(
            "npy-not-finite",
            "error",
            "dataset",
            f"{part_of(len(bad), arrays, 'npy files')} hold NaN or infinity, such as "
            f"{name_of(bad[0].path)} ({bad[0].bad} values).",
            cause="Whatever wrote them divided by zero or overflowed.",
            remedy="Write finite numbers; a build stops at such a file.",
        )


def _constant(
    plan: InputPlan, arrays: Sequence[ArrayStats], _: Sequence[InputPlan]
) -> Iterator[Finding]:
    flat = [a for a in arrays if a.low == a.high and math.prod(plan.shape) > 1]
    if flat:
        yield Finding(
            "npy-constant",
            "warning",
            "dataset",
            f"{part_of(len(flat), arrays, 'npy files')} hold one value only, such as "
            f"{name_of(flat[0].path)} ({flat[0].low:g}).",
            cause="The arrays are constant: placeholders, or damaged files.",
            remedy="Give samples of real data: a constant shows no range.",
        )


def _array_range(
    plan: InputPlan, arrays: Sequence[ArrayStats], plans: Sequence[InputPlan]
) -> Iterator[Finding]:
    """Arrays that look like pixels, under options for fractions, and without any."""
    low, high = min(a.low for a in arrays), max(a.high for a in arrays)
    if plan.quant is not None or not plan.dtype.startswith("float") or not plan.takes_images:
        return
    if low < 0 or high <= 2.0 or high > 255:
        return
    if are_fractions(plan):
        yield fractions_finding(plan, plans)
    elif plan.mean is None and plan.std is None:
        yield Finding(
            "npy-pixels",
            "warning",
            "mean_values",
            f"The npy files hold {low:g} to {high:g}, which look like pixels, and input "
            f"{sanitize(plan.name, 60)} gets them as they are.",
            cause="mean_values and std_values are unset; they apply to npy too.",
            remedy="Set them as the model was trained, unless it normalises by itself.",
        )


ArrayCheck = Callable[[InputPlan, Sequence[ArrayStats], Sequence[InputPlan]], Iterator[Finding]]
ARRAY_CHECKS: tuple[ArrayCheck, ...] = (_finite, _constant, _array_range)
