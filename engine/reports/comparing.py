"""What differs between two builds, in words: outputs first, then layers, figures and options."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.base.plain import Values
from engine.base.text import human_bytes, sanitize
from engine.jobs.history import JobRecord, read_result
from engine.report import Section, gain_text, sqnr_rank, sqnr_text
from engine.reports.builds import (
    BuildRow,
    changed_entries,
    changed_options,
    dicts,
    number,
    output_decibels,
    recipe_of,
    results_of,
    value_text,
)
from engine.wire.build import ACCURACY
from engine.wire.formats import CHANGE, MILLISECONDS, SHORT_MOMENT

TOLD_DB = 0.05
"""Outputs and layers that differ by less are the same to a reader."""
WORSE_DB = 0.5
"""An output that lost more is a regression."""
_WORSE_SHARE = 0.05
_UNEQUAL = 1e9
"""The dB that one has more than another, of which one has no error."""
_LAYERS = 12
_SAME = (("the same",),)

Change = tuple[str, float | None, float | None]
"""Name, value before, value after."""


def compare_builds(
    before: BuildRow, after: BuildRow, jobs: Sequence[JobRecord] = ()
) -> tuple[Section, ...]:
    """What became better or worse from one build to another, and what was changed.

    :func:`engine.sections_text` writes it. A row begins with ``✗`` where something became worse,
    with ``✓`` where it became better. SQNR is simulated, in dB.

    Args:
        before, after: two builds of the history.
        jobs: of the history; where error analyses of both recipes are among them, the layers that
            changed most are told, else the worst ones.
    """
    old, new = (read_result(row.id) or row.record.summary or {} for row in (before, after))
    outputs = _changes(output_decibels(old), output_decibels(new))
    sizes = (number(result.get("container_bytes")) for result in (old, new))
    figures = [
        ("size", human_bytes, *sizes),
        ("time (estimated)", _milliseconds, before.time_ms, after.time_ms),
        ("time (measured)", _milliseconds, before.median_ms, after.median_ms),
    ]
    known = [figure for figure in figures if figure[2:] != (None, None)]
    builds = " → ".join(
        f"{SHORT_MOMENT.text(row.started)} {sanitize(row.note or row.changes, 60)}".strip()
        for row in (before, after)
    )
    sections = [
        Section(builds, (), _verdicts(outputs, known)),
        _decibels("Outputs, dB (simulated)", "output", outputs),
        *_layers(before, after, old, new, jobs),
    ]
    if known:
        columns = "figure", "before", "after", "change"
        sections.append(Section("Size and time", columns, tuple(map(_figure, known))))
    options = _options(recipe_of(before.record), recipe_of(after.record))
    return (*sections, Section("Options", (), options), _findings(old, new))


# -- what became better or worse -------------------------------------------------------------------


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


def _sign(row: Change) -> str:
    gain = _gain(row)
    return "✗" if gain <= -WORSE_DB else "✓" if gain >= WORSE_DB else ""


Figure = tuple[str, Callable[[float], str], float | None, float | None]
"""Name, how it is written, value before, value after."""


def _verdicts(outputs: Sequence[Change], figures: Sequence[Figure]) -> tuple[tuple[str], ...]:
    said = []
    lost = [_words(row) for row in outputs if _sign(row) == "✗"]
    won = [_words(row) for row in reversed(outputs) if _sign(row) == "✓"]
    if lost:
        said.append(f"✗ regression: {'; '.join(lost[:3])}")
    if won:
        said.append(f"✓ better: {'; '.join(won[:3])}")
    for name, _, old, new in figures:
        if old and new and new > old * (1 + _WORSE_SHARE) and "time" in name:
            said.append(f"! slower: {name} {CHANGE.text(new / old - 1)}")
    return tuple((text,) for text in said or [f"= no output changed by {WORSE_DB:g} dB or more"])


def _words(row: Change) -> str:
    name, old, new = row
    return f"{sanitize(name, 300)} {sqnr_text(old)} → {sqnr_text(new)}"


# -- sections --------------------------------------------------------------------------------------


def _decibels(title: str, what: str, rows: Sequence[Change], nothing: str = "none") -> Section:
    """The name stands last: however long it is, the figures stand below each other."""
    out = []
    for row in rows:
        name, *values = row
        gain = _gain(row)
        old, new = ("–" if value is None else sqnr_text(value, unit=False) for value in values)
        change = gain_text(gain, unit=False) if TOLD_DB <= abs(gain) < _UNEQUAL else ""
        out.append((_sign(row), old, new, change, sanitize(name, 300)))
    columns = "", "before", "after", "change", what
    return Section(title, columns if out else (), tuple(out) or ((nothing,),))


def _layers(
    before: BuildRow, after: BuildRow, old: Values, new: Values, jobs: Sequence[JobRecord]
) -> Iterable[Section]:
    known = [_analysed(row, jobs) for row in (before, after)]
    if all(known):
        rows = [row for row in _changes(*known) if abs(_gain(row)) >= TOLD_DB]
        rows.sort(key=lambda row: -abs(_gain(row)))
        title = "Layers by difference, dB (simulated)"
        if len(rows) > _LAYERS:
            title += f": {_LAYERS} of {len(rows)}"
        yield _decibels(title, "layer", rows[:_LAYERS], "no layer changed")
        return
    both = [row for row in _changes(_worst(old), _worst(new)) if None not in row]
    yield _decibels("Worst layers of both, dB (simulated)", "layer", both, "none in common")
    yield Section("All layers", (), (("an error analysis of both builds is needed (Layers)",),))


def _analysed(build: BuildRow, jobs: Sequence[JobRecord]) -> dict[str, float]:
    """Layer -> SQNR in dB of an error analysis of the same recipe; none where none ran."""
    analysis = next(results_of(jobs, ACCURACY, recipe_of(build.record)), None)
    known = () if analysis is None else analysis.layers
    return {one.id: sqnr_rank(one.sqnr) for one in known if not one.inner and one.cumulative}


def _worst(result: Values) -> dict[str, float]:
    rows = [row for row in dicts(result.get("worst")) if isinstance(row.get("layer"), str)]
    values = [number(row.get("sqnr_db")) for row in rows]
    return {
        row["layer"]: math.inf if value is None else value
        for row, value in zip(rows, values, strict=True)
    }


def _milliseconds(value: float) -> str:
    return f"{MILLISECONDS.text(value)} ms"


def _figure(figure: Figure) -> tuple[str, ...]:
    name, text, old, new = figure
    was, now = ("–" if value is None else text(value) for value in (old, new))
    return name, was, now, CHANGE.text(new / old - 1) if old and new is not None else ""


def _options(before: Values, after: Values) -> tuple[tuple[str], ...]:
    rows = []
    for option, old, new in changed_options(before, after):
        names = changed_entries(old, new)
        if names is None:
            was, now = value_text(option, old), value_text(option, new)
            rows.append((f"{option.name}: {was} → {now}",))
            continue
        for name in names:
            sides = (str((side or {}).get(name, "as the model")) for side in (old, new))
            was, now = (sanitize(side, 60) for side in sides)
            rows.append((f"{option.name}: {sanitize(name, 300)}: {was} → {now}",))
    return tuple(rows) or _SAME


def _findings(before: Values, after: Values) -> Section:
    old, new = (
        {
            (str(row.get("code")), str(row.get("where"))): sanitize(str(row.get("what")), 300)
            for row in dicts(result.get("findings"))
        }
        for result in (before, after)
    )
    came = [(f"! {new[key]} (new)",) for key in new if key not in old]
    gone = [(f"✓ {old[key]} (gone)",) for key in old if key not in new]
    return Section("Findings", (), (*came, *gone) or _SAME)
