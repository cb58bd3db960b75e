"""What differs between two builds, in words: outputs first, then layers, options, findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from engine import OPTIONS, gain_text, human_bytes, sanitize, sqnr_text
from engine.wire.formats import CHANGE, MILLISECONDS, SHORT_MOMENT
from rknntui.session.builds import output_decibels, recipe_of, value_text
from rknntui.widgets.findings import wrapped
from rknntui.widgets.strips import shorten

if TYPE_CHECKING:
    from engine import JobRecord
    from rknntui.session.builds import Values
    from rknntui.widgets.strips import Line

TOLD_DB = 0.05
"""Outputs and layers that differ by less are the same to a reader."""
WORSE_DB = 0.5
"""An output that lost more is a regression."""
_WORSE_SHARE = 0.05
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
    return new - old if math.isfinite(new - old) else math.copysign(1e9, new - old)


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
    for name, old, new in _figures(before, after):
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
        name, old, new = row
        gain = _gain(row)
        style = "bad" if gain <= -WORSE_DB else "good" if gain >= WORSE_DB else "dim"
        shown = shorten(sanitize(name), room)
        texts = ["–" if v is None else sqnr_text(v, unit=False) for v in (old, new)]
        change = ""
        if abs(gain) >= TOLD_DB:
            change = gain_text(gain, unit=False) if abs(gain) < 1e9 else ""
        pad = " " * (room - cell_len(shown))
        lines.append(
            [
                (f"  {shown}{pad}", ""),
                (f"{texts[0]:>8} → {texts[1]:>7}", ""),
                (f" {change:>8}", style),
            ]
        )
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
    rows = result.get("worst")
    found = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("layer"), str):
            value = row.get("sqnr_db")
            found[row["layer"]] = value if isinstance(value, int | float) else math.inf
    return found


def _figures(before: Compared, after: Compared) -> list[tuple[str, Any, Any]]:
    return [
        (name, read(before), read(after))
        for name, read in (
            ("size", lambda side: side.result.get("container_bytes")),
            ("time (estimated)", lambda side: side.time_ms),
            ("time (measured)", lambda side: side.median_ms),
        )
    ]


def _figure_lines(before: Compared, after: Compared) -> list[Line]:
    lines = []
    for name, old, new in _figures(before, after):
        known = [isinstance(value, int | float) for value in (old, new)]
        if not any(known):
            continue
        texts = ["–", "–"]
        for at, value in enumerate((old, new)):
            if known[at]:
                texts[at] = (
                    human_bytes(value) if name == "size" else f"{MILLISECONDS.text(value)} ms"
                )
        apart = CHANGE.text(new / old - 1) if all(known) and old else ""
        lines.append([(f"  {name:<18}{texts[0]} → {texts[1]}  ", ""), (apart, "dim")])
    return [*_head("Size and time"), *lines] if lines else []


def _option_lines(before: Values, after: Values, width: int) -> list[Line]:
    lines = _head("Options")
    for option in OPTIONS:
        old, new = (side.get(option.name, option.default) for side in (before, after))
        if old == new:
            continue
        if isinstance(old or {}, Mapping) and isinstance(new or {}, Mapping):
            lines += wrapped(option.name, width, "", "  ")
            a, b = dict(old or {}), dict(new or {})
            for name in {**a, **b}:
                if a.get(name) != b.get(name):
                    was, now = (
                        sanitize(str(side.get(name, "as the model")), 60) for side in (a, b)
                    )
                    lines += wrapped(f"{sanitize(name, 80)}: {was} → {now}", width, "", "    ")
        else:
            was, now = value_text(option, old), value_text(option, new)
            lines += wrapped(f"{option.name}: {was} → {now}", width, "", "  ")
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
    rows = result.get("findings")
    return {
        (str(row.get("code")), str(row.get("where"))): sanitize(str(row.get("what")), 300)
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    }
