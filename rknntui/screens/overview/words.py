"""What Overview says: its rows as lines of any width; no number of them is cut."""

from __future__ import annotations

import math
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from engine import Finding, gain_text, sanitize
from engine.wire.formats import (
    ADDED_MS,
    CHANGE,
    DECIBEL,
    DURATION,
    MILLISECONDS,
    PROGRESS,
    SHORT_MOMENT,
    SIZE,
)
from rknntui.keys.actions import key_text, with_keys
from rknntui.session.steps import STYLES, Step, placement
from rknntui.session.target import mismatches
from rknntui.widgets.findings import SIGNS
from rknntui.widgets.one_line import Fact, fit_facts
from rknntui.widgets.strips import bar, cells, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine import BuildRow
    from engine.wire.cost import LayerCost
    from engine.wire.hybrid import Ranked
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

LABELS = {"config": "recipe"}
"""Names of steps as people read them, where they are others."""
_NAME = 9
WORTH_DB = 0.05
"""A gain below this is not worth a promotion."""
CHEAP = 0.05
"""Share of the time that a promotion may add to stand first."""
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp")
_LOOKED = 200
"""Entries of a folder that are looked at for samples."""


def step_line(step: Step, width: int, *, lit: bool) -> Line:
    """A step; the one that is lit says what Enter does. Facts at the end give way first."""
    name = LABELS.get(step.name, step.name)
    line: Line = [("▸ " if lit else "  ", "key"), (f"{name:<{_NAME}}", "head" if lit else "")]
    line += [(f"{step.sign} ", STYLES[step.state])]
    does: Line = []
    if lit and (step.does or step.state == "running"):
        about = "" if step.seconds is None else f", about {DURATION.text(step.seconds)}"
        does = [("  Enter ", "key"), (f"{step.does or 'show it'}{about} ", "")]
    room = max(8, width - cells(line) - cells(does))
    least = 2 if step.state in ("failed", "finding") else 1
    parts = enumerate(step.text.split(" · "), 1)
    facts = tuple(Fact(part, rank=max(0, at - least)) for at, part in parts)
    return [*line, (fit(fit_facts(facts, room), room), ""), *does]


def findings(session: Session) -> list[Finding]:
    """Those of the model, the recipe, its samples and the build; only what can be mended."""
    known = [] if session.model is None else [*session.model.findings]
    known += [*session.findings, *(() if session.dataset is None else session.dataset.findings)]
    if session.summary is not None and not session.stale:
        known += session.summary.findings
    known += [
        Finding(one.kind, "warning", "target", with_keys(one.text))
        for one in mismatches(session)
        if one.kind != "build"  # its step says so
    ]
    known += [*session.joins, *placement(session)]
    own = {(f.code, f.where): f for f in known if f.severity != "info" or f.changes}
    return sorted(own.values(), key=lambda finding: [*SIGNS].index(finding.severity))


# -- the panes -------------------------------------------------------------------------------------


def worth_promoting(session: Session) -> list[Ranked]:
    """Layers whose promotion gains, the best gain within 5 % of the time first.

    Of layers that gain together only the first has a row: they are promoted together.
    """
    whole = time_of(session)

    def order(row: Ranked) -> tuple[bool, float]:
        gain = math.inf if row.gain_db is None else row.gain_db
        return bool(whole and (row.promote_ms or 0) > CHEAP * whole), -gain

    known = (row.proposed for row in session.layers.rows if row.proposed is not None)
    rows, seen = [], set[str]()
    for row in sorted((r for r in known if r.gain_db is None or r.gain_db >= WORTH_DB), key=order):
        if row.id not in seen:
            rows.append(row)
        seen |= {row.id, *row.together}
    return rows


def time_of(session: Session) -> float | None:
    """Milliseconds of an inference of the build on the target's chip, estimated."""
    return None if session.layers.table is None else session.layers.table.time_ms


def promotion_line(
    row: Ranked, wide: bool, *, asked: Mapping[str, str], whole: float | None
) -> Line:
    """``Conv_10  ● float16  +3.40 dB  +0.9 %``: its dtype where it is promoted in the recipe."""
    dtype = asked.get(row.id, "")
    cost = "" if row.promote_ms is None else f"{ADDED_MS.text(row.promote_ms)} ms"
    if row.promote_ms is not None and whole:
        cost = CHANGE.text(row.promote_ms / whole)
    style, sign = ("accent", f"● {dtype if wide else ''}".strip()) if dtype else ("", "")
    more = f"with {len(row.together)}" if row.together else ""
    return [(row.id, style), (more, "dim"), (sign, style), (gain_text(row.gain_db), ""), (cost, "")]


def slowest(session: Session) -> list[LayerCost]:
    """Layers on the target's chip, those that take most of the time first."""
    known = (row.estimated for row in session.layers.of("estimated") if row.estimated is not None)
    return sorted(known, key=lambda cost: -cost.time_ms)


def time_line(cost: LayerCost, wide: bool, *, whole: float, longest: float) -> Line:
    """Name, where it runs or (where it is wide) what bounds it, milliseconds, a bar, share."""
    why = cost.target if cost.target != "NPU" else cost.bound if wide else ""
    size = 12 if wide else 5
    return [
        (cost.id or cost.name, ""),
        (why, "warn" if cost.target == "CPU" else "dim"),
        (f"{MILLISECONDS.text(cost.time_ms)} ms", ""),
        (bar(cost.time_ms / longest if longest else 0.0, size), "accent"),
        (PROGRESS.text(cost.time_ms / whole) if wide and whole else "", ""),
    ]


def build_line(row: BuildRow, wide: bool) -> Line:
    """When, what changed, lowest SQNR of the outputs, measured time; where it is wide, size."""
    when = SHORT_MOMENT.text(row.started)
    if time.time() - row.started < 12 * 3600:
        when = when[6:]
    lowest = "–" if row.lowest is None else DECIBEL.text(row.lowest)
    size = SIZE.text(row.size) if wide and row.size is not None else ""
    measured = "" if row.median_ms is None else f"{MILLISECONDS.text(row.median_ms)} ms"
    what = row.note or row.changes or "first build"
    score = (row.score or "") if wide else ""
    figures = ((score, ""), (lowest, ""), (size, ""), (measured, "good"))
    return [(f"{when} {sanitize(what, 80)}", ""), *figures]


def finding_line(finding: Finding, wide: bool) -> Line:
    """Sign, where and what; and that a key mends it."""
    sign, style = SIGNS[finding.severity]
    where = f"{sanitize(finding.where, 40)}: " if finding.where else ""
    fix = key_text("overview.apply-remedy") if finding.changes else ""
    return [(f"{sign} {where}{sanitize(finding.what, 300)}", style if sign == "✗" else ""),
            (fix, "key")]  # fmt: skip


def aligned(lines: list[Line], width: int, cut: Callable[[str, int], str]) -> list[Line]:
    """Rows whose parts stand below each other; the first is as wide as the others leave it.

    Args:
        lines: with as many parts each.
        width: cells.
        cut: makes a text so wide that is longer.
    """
    if not lines:
        return []
    widths = [max(cell_len(line[at][0]) for line in lines) for at in range(1, len(lines[0]))]
    first = max(cell_len(line[0][0]) for line in lines)
    room = width - sum(size + 2 for size in widths if size)
    out: list[Line] = []
    for line in lines:
        row: Line = [(cut(line[0][0], max(6, min(first, room))), line[0][1])]
        for (text, style), size in zip(line[1:], widths, strict=True):
            if size:
                pad = " " * (size - cell_len(text))
                number = text[:1].isdigit() or text[:1] in "+-"
                row.append((f"  {pad}{text}" if number else f"  {text}{pad}", style))
        out.append(row)
    return out


def cut_end(text: str, width: int) -> str:
    """A sentence in so many cells; what is too long loses its end."""
    return fit(fit_facts((Fact(text),), width), width)


def cut_begin(text: str, width: int) -> str:
    """A layer in so many cells: names of a network differ at the end."""
    while cell_len(text) > width:
        text = f"…{text.removeprefix('…')[1:]}"
    return fit(text, width)


# -- samples beside a model ------------------------------------------------------------------------


def samples_beside(model: str) -> str:
    """A list or folder of pictures beside a model, or beside its folder; empty where none is."""
    folder = Path(model).parent
    for place in (folder, folder.parent):
        if (listed := place / "dataset.txt").is_file():
            return str(listed)
        for inner in sorted(_looked_at(place)):
            if not inner.name.startswith(".") and _has_pictures(inner):
                return str(inner)
    return str(folder) if _has_pictures(folder) else ""


def _looked_at(folder: Path) -> list[Path]:
    try:
        return list(islice(folder.iterdir(), _LOOKED))
    except OSError:  # it is no folder, too
        return []


def _has_pictures(folder: Path) -> bool:
    return any(path.suffix.lower() in _PICTURES for path in _looked_at(folder))
