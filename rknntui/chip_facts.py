"""Words for chips and their estimates, for the command line, reports and the workspace Chips."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine import sanitize

if TYPE_CHECKING:
    from engine.wire.cost import ChipEstimate, Interval
    from engine.wire.formats import Format

__all__ = ["BASIS", "interval_text", "problem_lines"]

BASIS = {
    "fitted": "fitted to published rates of this chip",
    "derived": "derived from a chip of the same design",
    "structural": "structural, not validated: no rate of this chip was published",
    "calibrated": "calibrated by a run on your board",
}
"""What an estimate of time stands on."""


def interval_text(interval: Interval | None, form: Format) -> str:
    """A figure with the interval that holds it nine times in ten: ``1.770 (1.290 to 2.430)``."""
    if interval is None:
        return form.show(None)
    return f"{form.text(interval.value)} ({form.text(interval.low)} to {form.text(interval.high)})"


def problem_lines(chips: Iterable[ChipEstimate]) -> list[str]:
    """Why a chip has no estimate, and what the others leave out; equal ones together."""
    told: dict[str, list[str]] = {}
    for each in chips:
        for text in (f"{each.problem} {each.remedy}".strip(), *each.warnings, *each.notes):
            if text:
                told.setdefault(text, []).append(each.chip)
    return [f"{', '.join(names)}: {sanitize(text)}" for text, names in told.items()]
