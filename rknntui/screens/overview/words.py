"""What Overview says: its rows as lines of any width; no number of them is cut."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
from rknntui.session.steps import Step, placement
from rknntui.session.target import mismatches
from rknntui.widgets.one_line import Fact, fit_facts
from rknntui.widgets.strips import bar, cells, fit
from rknntui.widgets.wrap import SIGNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine import BuildRow
    from engine.wire.hybrid import Ranked
    from engine.wire.layers import LayerFigures
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

LABELS = {"config": "recipe"}
"""Names of steps as people read them, where they are others."""
_NAME = 9


def step_line(step: Step, width: int, *, lit: bool) -> Line:
    """A step; the one that is lit says what Enter does. Facts at the end give way first."""
    name = LABELS.get(step.name, step.name)
    line: Line = [("▸ " if lit else "  ", "key"), (f"{name:<{_NAME}}", "head" if lit else "")]
    line += [(f"{step.sign} ", step.style)]
    does: Line = []
    if lit and (step.does or step.state == "running"):
        about = "" if step.seconds is None else f", about {DURATION.text(step.seconds)}"
        does = [("  Enter ", "key"), (f"{step.does or 'show it'}{about} ", "")]
    least = 2 if step.state in ("failed", "finding") else 1
    parts = step.text.split(" · ")
    room = width - cells(line)
    if cell_len(" · ".join(parts[:least])) > room - cells(does):
        does = does[:1]
    facts = tuple(Fact(part, rank=max(0, at - least)) for at, part in enumerate(parts, 1))
    text = fit_facts(facts, max(8, room - cells(does)))
    return [*line, (text, ""), *does]


def findings(session: Session) -> list[Finding]:
    """Those of the model, the recipe, its samples and the build; only what can be mended."""
    problems = session.all_problems.items()
    known = [Finding("problem", "error", name, why) for name, why in problems]
    known += () if session.model is None else session.model.findings
    known += [*session.findings, *(() if session.dataset is None else session.dataset.findings)]
    if session.summary is not None and not session.stale:
        known += session.summary.findings
    known += [
        Finding(one.kind, "warning", "target", with_keys(one.text))
        for one in mismatches(session)
        if one.kind != "build"  # its step says so
    ]
    known += [*session.joins, *placement(session)]
    own = {(f.code, f.where, f.what): f for f in known if f.severity != "info" or f.changes}
    return sorted(own.values(), key=lambda finding: [*SIGNS].index(finding.severity))


_MENDS = {"problem": "overview.problem", "placement": "go.chips", "compiler": "go.chips"}
"""Action that leads to where a finding is mended, where no change of the recipe mends it."""

# -- the panes -------------------------------------------------------------------------------------

Row = Callable[[Any, bool], "Line"]
"""The parts of the line of an item, in a wide pane or a narrow one."""


class Content(NamedTuple):
    """What a pane shows: ``empty`` stands there where there are no items."""

    title: str
    items: Sequence[Any]
    line: Row
    empty: str = ""


def promotions(session: Session, ranked: Sequence[Ranked], asked: Mapping[str, str]) -> Content:
    """What each layer gains."""
    table, job = session.layers.table, session.jobs.newest("hybrid.propose")
    whole = None if table is None else table.time_ms
    if session.container is not None:
        empty = "– built already: open its model"
    elif session.summary is None:
        empty = "known after a build"
    elif not session.summary.quantized:
        empty = "the build is not quantized"
    elif job is not None and job.running:
        empty = "… what each layer gains is being computed"
    else:
        known = session.layers.of("proposed")
        empty = "✓ no layer gains enough" if known else "– not known yet"
    title = "Promote: dB simulated" + (", time estimated" if whole else "")
    return Content(title, ranked, partial(promotion_line, asked=asked, whole=whole), empty)


def promotion_line(
    row: Ranked, wide: bool, *, asked: Mapping[str, str], whole: float | None
) -> Line:
    """``Conv_10  ● float16  +3.40  +0.9 %``: its dtype where it is promoted in the recipe."""
    dtype = asked.get(row.id, "")
    cost = "" if row.promote_ms is None else f"{ADDED_MS.text(row.promote_ms)} ms"
    if row.promote_ms is not None and whole:
        cost = CHANGE.text(row.promote_ms / whole)
    style, sign = ("accent", f"● {dtype if wide else ''}".strip()) if dtype else ("", "")
    more = f"and {len(row.together)} more" if wide and row.together else ""
    gain = gain_text(row.gain_db, unit=False)
    return [(row.id, style), (more, "dim"), (sign, style), (gain, ""), (cost, "")]


def times(session: Session, ranked: Sequence[LayerFigures]) -> Content:
    """Where the time goes."""
    costs = [row.estimated.time_ms for row in ranked if row.estimated is not None]
    if not session.chip:
        empty = f"– no chip is chosen ({key_text('app.target')} chooses it)"
    elif why := session.asked.get("estimate"):
        empty = f"✗ {sanitize(why, 200)}"
    else:
        empty = "… estimating" if "estimate" in session.asked else "– not known yet"
    line = partial(time_line, whole=sum(costs), longest=max(costs, default=0.0))
    return Content(f"Time on {session.chip or 'the target'}, estimated", ranked, line, empty)


def slowest(layers: Iterable[LayerFigures]) -> list[LayerFigures]:
    """Layers on the target's chip, those that take most of the time first."""
    known = [(row.estimated.time_ms, row) for row in layers if row.estimated]
    return [row for _, row in sorted(known, key=lambda pair: -pair[0])]


def time_line(row: LayerFigures, wide: bool, *, whole: float, longest: float) -> Line:
    """Name, where it runs, milliseconds; where it is wide what bounds it, a bar and the share."""
    cost = row.estimated
    if cost is None:
        return []
    why = cost.target if cost.target != "NPU" else cost.bound if wide else ""
    return [
        (row.id, ""),
        (why, "warn" if cost.target == "CPU" else "dim"),
        (f"{MILLISECONDS.text(cost.time_ms)} ms", ""),
        (bar(cost.time_ms / longest, 12) if wide and longest else "", "accent"),
        (PROGRESS.text(cost.time_ms / whole) if wide and whole else "", ""),
    ]


def builds(session: Session) -> Content:
    """The newest builds of the model."""
    rows = session.builds or ()
    title = "Builds: lowest output dB, simulated"
    if any(row.median_ms is not None for row in rows):
        title = "Builds: dB simulated, ms measured"
    empty = "– none yet" if session.builds is not None or session.container else "… reading"
    return Content(title, rows, build_line, empty)


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
    return [(f"{when} {sanitize(what, 300)}", ""), *figures]


def known_findings(session: Session) -> Content:
    """What is found, and the key that mends it."""
    rows = findings(session)
    mends = f", {key_text('overview.apply-remedy')} mends" if any(r.changes for r in rows) else ""
    title = f"Findings {len(rows) or ''}".rstrip() + mends
    return Content(title, rows, finding_line, "✓ none")


def finding_line(finding: Finding, wide: bool) -> Line:
    """Sign, where and what; and that a key mends it."""
    sign, style = SIGNS[finding.severity]
    where = f"{sanitize(finding.where, 40)}: " if finding.where else ""
    mends = "overview.apply-remedy" if finding.changes else _MENDS.get(finding.code, "")
    fix = key_text(mends) if mends else ""
    return [(f"{sign} {where}{sanitize(finding.what, 300)}", style if sign == "✗" else ""),
            (fix, "key")]  # fmt: skip


def aligned(lines: list[Line], width: int) -> tuple[list[Line], bool]:
    """Rows whose parts stand below each other, and whether they are whole.

    The first part is as wide as the others leave it: a sentence loses its end, a name its middle.

    Args:
        lines: with as many parts each.
        width: cells.
    """
    if not lines:
        return [], True
    first, *widths = (
        max(cell_len(part) for part, _ in column) for column in zip(*lines, strict=True)
    )
    room = max(6, min(first, width - sum(size + 2 for size in widths if size)))
    out: list[Line] = []
    for (name, name_style), *parts in lines:
        row: Line = [(fit(fit_facts((Fact(name),), room), room), name_style)]
        for (text, style), size in zip(parts, widths, strict=True):
            if size:
                pad = " " * (size - cell_len(text))
                number = text[:1].isdigit() or text[:1] in "+-"
                row.append((f"  {pad}{text}" if number else f"  {text}{pad}", style))
        out.append(row)
    return out, room == first
