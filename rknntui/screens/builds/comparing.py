"""What differs between two builds, in words: outputs first, then layers, options, findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.cells import cell_len

from engine import (
    changed_entries,
    changed_options,
    dicts,
    gain_text,
    human_bytes,
    number,
    output_decibels,
    recipe_of,
    sanitize,
    sqnr_text,
    value_text,
)
from engine.wire.formats import CHANGE, MILLISECONDS, SHORT_MOMENT
from rknntui.widgets.findings import wrapped
from rknntui.widgets.strips import fit

if TYPE_CHECKING:
    from engine import JobRecord
    from engine.wire.codec import Values
    from rknntui.widgets.strips import Line

TOLD_DB = 0.05
"""Outputs and layers that differ by less are the same to a reader."""
WORSE_DB = 0.5
"""An output that lost more is a regression."""
_WORSE_SHARE = 0.05
_UNEQUAL = 1e9
"""The dB that one has more than another, of which one has no error."""
_LAYERS = 12


@dataclass(frozen=True)
class Compared:
    """One of the two.

    Attributes:
        result: of its job.
        layers: layer -> SQNR in dB of an error analysis of the same recipe; none where none ran.
        time_ms: estimated, where it is known.
        median_ms: measured, where it is known.
    """

    record: JobRecord
    result: Values
    layers: Mapping[str, float] = field(default_factory=dict)
    time_ms: float | None = None
    median_ms: float | None = None


def comparison(before: Compared, after: Compared, width: int) -> list[Line]:
    """The lines, wrapped to a width."""
    outputs = _changes(output_decibels(before.result), output_decibels(after.result))
    times = [SHORT_MOMENT.text(side.record.started) for side in (before, after)]
    lines: list[Line] = [[(f"{times[0]} → {times[1]}", "head")]]
    for sign, style, text in _verdicts(before, after, outputs):
        lines += wrapped(f"{sign} {text}", width, style)
    lines += _table("Outputs, dB (simulated)", outputs, width, "no output in common")
    lines += _layer_lines(before, after, width)
    lines += _figure_lines(before, after)
    lines += _option_lines(recipe_of(before.record), recipe_of(after.record), width)
    return lines + _finding_lines(before.result, after.result, width)


# -- what became better or worse -------------------------------------------------------------------

Change = tuple[str, float | None, float | None]
"""Name, value before, value after."""


def _changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[Change]:
    """The largest loss first."""
    rows = [(name, before.get(name), after.get(name)) for name in {**before, **after}]
    return sorted(rows, key=lambda row: (_gain(row), row[0]))


def _gain(row: Change) -> float:
    """Added dB; of what only one has none."""
    _, old, new = row
    if old is None or new is None or old == new:
        return 0.0
    return new - old if math.isfinite(new - old) else math.copysign(_UNEQUAL, new - old)


def _verdicts(
    before: Compared, after: Compared, outputs: Sequence[Change]
) -> list[tuple[str, str, str]]:
    lost = [row for row in outputs if _gain(row) <= -WORSE_DB]
    won = [row for row in outputs if _gain(row) >= WORSE_DB]
    said = []
    if lost:
        worst = "; ".join(_words(row) for row in lost[:3])
        said.append(("✗", "bad", f"regression: {worst}"))
    if won:
        best = "; ".join(_words(row) for row in reversed(won[-3:]))
        said.append(("✓", "good", f"better: {best}"))
    for name, old, new, _ in _figures(before, after):
        if old and new and new > old * (1 + _WORSE_SHARE) and "time" in name:
            said.append(("!", "warn", f"slower: {name} {CHANGE.text(new / old - 1)}"))
    if not said:
        said.append(("=", "", f"no output changed by {WORSE_DB:g} dB or more"))
    return said


def _words(row: Change) -> str:
    name, old, new = row
    return f"{sanitize(name, 60)} {sqnr_text(old)} → {sqnr_text(new)}"


# -- sections --------------------------------------------------------------------------------------


def _head(title: str) -> list[Line]:
    return [[], [(title, "head")]]


def _table(title: str, rows: Sequence[Change], width: int, nothing: str) -> list[Line]:
    if not rows:
        return [*_head(title), [(f"  {nothing}", "dim")]]
    room = min(max(cell_len(sanitize(name)) for name, _, _ in rows), max(12, width - 34))
    lines = _head(title)
    for row in rows:
        name, *values = row
        gain = _gain(row)
        style = "bad" if gain <= -WORSE_DB else "good" if gain >= WORSE_DB else "dim"
        old, new = ("–" if value is None else sqnr_text(value, unit=False) for value in values)
        change = gain_text(gain, unit=False) if TOLD_DB <= abs(gain) < _UNEQUAL else ""
        figures = f"{old:>8} → {new:>7}"
        lines.append([(f"  {fit(sanitize(name), room)}{figures}", ""), (f" {change:>8}", style)])
    return lines


def _layer_lines(before: Compared, after: Compared, width: int) -> list[Line]:
    title = "Layers by difference, dB (simulated)"
    if before.layers and after.layers:
        rows = [row for row in _changes(before.layers, after.layers) if abs(_gain(row)) >= TOLD_DB]
        rows.sort(key=lambda row: -abs(_gain(row)))
        more = len(rows) - _LAYERS
        lines = _table(title, rows[:_LAYERS], width, "no layer changed")
        return [*lines, [(f"  and {more} more", "dim")]] if more > 0 else lines
    worst = [_worst(side.result) for side in (before, after)]
    rows = [row for row in _changes(*worst) if None not in row]
    lines = _table("Worst layers of both, dB (simulated)", rows, width, "none in common")
    text = "all layers: an error analysis of both builds is needed (Layers)"
    return [*lines, *wrapped(text, width, "dim", "  ")]


def _worst(result: Values) -> dict[str, float]:
    rows = [row for row in dicts(result.get("worst")) if isinstance(row.get("layer"), str)]
    values = [number(row.get("sqnr_db")) for row in rows]
    return {
        row["layer"]: math.inf if value is None else value
        for row, value in zip(rows, values, strict=True)
    }


Figure = tuple[str, float | None, float | None, Callable[[float], str]]
"""Name, value before, value after, how it is written."""


def _figures(before: Compared, after: Compared) -> list[Figure]:
    sizes = [number(side.result.get("container_bytes")) for side in (before, after)]
    return [
        ("size", sizes[0], sizes[1], human_bytes),
        ("time (estimated)", before.time_ms, after.time_ms, _milliseconds),
        ("time (measured)", before.median_ms, after.median_ms, _milliseconds),
    ]


def _milliseconds(value: float) -> str:
    return f"{MILLISECONDS.text(value)} ms"


def _figure_lines(before: Compared, after: Compared) -> list[Line]:
    lines = _head("Size and time")
    for name, old, new, text in _figures(before, after):
        if (old, new) != (None, None):
            was, now = ("–" if value is None else text(value) for value in (old, new))
            apart = CHANGE.text(new / old - 1) if old and new is not None else ""
            lines.append([(f"  {name:<18}{was} → {now}  ", ""), (apart, "dim")])
    return lines if len(lines) > 2 else []


def _option_lines(before: Values, after: Values, width: int) -> list[Line]:
    lines = _head("Options")
    for option, old, new in changed_options(before, after):
        names = changed_entries(old, new)
        if names is None:
            was, now = value_text(option, old), value_text(option, new)
            lines += wrapped(f"{option.name}: {was} → {now}", width, "", "  ")
            continue
        lines += wrapped(option.name, width, "", "  ")
        for name in names:
            sides = (str((side or {}).get(name, "as the model")) for side in (old, new))
            was, now = (sanitize(side, 60) for side in sides)
            lines += wrapped(f"{sanitize(name, 80)}: {was} → {now}", width, "", "    ")
    return lines if len(lines) > 2 else [*lines, [("  the same", "dim")]]


def _finding_lines(before: Values, after: Values, width: int) -> list[Line]:
    old, new = _findings(before), _findings(after)
    lines = _head("Findings")
    for key in new.keys() - old.keys():
        lines += wrapped(f"+ {new[key]}", width, "warn", "  ")
    for key in old.keys() - new.keys():
        lines += wrapped(f"− {old[key]} (gone)", width, "good", "  ")
    return lines if len(lines) > 2 else [*lines, [("  the same", "dim")]]


def _findings(result: Values) -> dict[tuple[str, str], str]:
    return {
        (str(row.get("code")), str(row.get("where"))): sanitize(str(row.get("what")), 300)
        for row in dicts(result.get("findings"))
    }
