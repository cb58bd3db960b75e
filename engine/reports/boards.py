"""A board, what it measured and what two runs differ by, in words.

Each text is one fact, and says what its figures are. Names in it are safe for a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from engine.base.text import sanitize, some_of
from engine.report import rounding_lines
from engine.wire.board import About, BoardState, MemoryReport
from engine.wire.board_tables import CLEAR
from engine.wire.compare import Comparison
from engine.wire.devices import ModelOnBoard
from engine.wire.formats import (
    CELSIUS,
    CHANGE,
    CLOCK,
    LOAD,
    MICROSECONDS,
    MILLISECONDS,
    SIZE,
    WATTS,
)
from engine.wire.measured import RunsCompared

_MANY = 4
_ZONES = 16


def board_facts(about: About) -> dict[str, list[tuple[str, str]]]:
    """What a board is, what runs models there, and what it does now.

    Returns:
        ``Board``, ``Versions`` and ``State now`` -> name and text of each fact; empty where the
        board does not tell it, and in the state the reason.
    """
    facts = about.facts
    cores = f", {facts.cores} NPU core{'s' if facts.cores != 1 else ''}" if facts.cores else ""
    named = {"chip": f"{facts.chip or 'not known'}{cores}"}
    named |= {name: getattr(facts, name) for name in ("model", "serial", "system", "kernel")}
    versions = [
        (row.name, "  ".join(part for part in (row.version, row.path, row.note) if part))
        for row in about.versions
    ]
    parts = {"Board": named.items(), "Versions": versions, "State now": _state(about.state)}
    return {
        title: [(sanitize(name, 40), sanitize(text, 400)) for name, text in rows]
        for title, rows in parts.items()
    }


def _state(state: BoardState) -> Iterator[tuple[str, str]]:
    """Each figure of a board, or why there is none."""
    clock = "" if state.npu_clock is None else CLOCK.text(state.npu_clock)
    zones = (state.temperatures or ())[:_ZONES]
    memory = state.memory
    sizes = {} if memory is None else {"in all": memory.total, "free": memory.available}
    sizes |= {} if memory is None else {"of CMA": memory.cma_total, "of CMA free": memory.cma_free}
    limit, zone = state.hot
    told = f"the board's own trip point, of {zone}" if zone else "documented"
    figures = {
        "npu_load": map(LOAD.text, state.npu_load or ()),
        "npu_clock": [f"{clock}  {state.npu_governor or ''}".strip()] if clock else (),
        "ddr_clock": () if state.ddr_clock is None else [CLOCK.text(state.ddr_clock)],
        "cpu_clocks": (f"{name} {CLOCK.text(hertz)}" for name, hertz in state.cpu_clocks or ()),
        "temperatures": (f"{one.zone} {CELSIUS.text(one.celsius)}" for one in zones),
        "memory": (f"{SIZE.text(size)} {kind}" for kind, size in sizes.items() if size is not None),
        "powers": (f"{power.sensor} {WATTS.text(power.watts)}" for power in state.powers or ()),
    }
    names = ("NPU load", "NPU clock", "DDR clock", "CPU clocks", "temperature", "memory", "power")
    for name, (attribute, texts) in zip(names, figures.items(), strict=True):
        yield name, ", ".join(texts) or state.reason(attribute)
        if attribute == "temperatures" and zones:
            yield "hot from", f"{CELSIUS.text(limit)} ({told})"


def measured_facts(answer: ModelOnBoard) -> Iterator[str]:
    """Where the layers of a run ran, which of them are the build's, and its notes."""
    rows = answer.layers
    if rows:
        known = sum(bool(row.id) for row in rows)
        places = Counter(row.target for row in rows if row.target).most_common(_MANY)
        on = ", ".join(f"{count} on {place}" for place, count in places)
        text = f"{on}{'; ' if on else ''}{known} of {len(rows)} rows are layers of this build."
        yield sanitize(f"{text} Timed in runs of their own, which are slower.", 400)
        yield from (sanitize(note, 1000) for note in answer.notes)


def memory_facts(report: MemoryReport) -> Iterator[str]:
    """On which board a model takes what, of which kind the figures are, and what is to be known."""
    note = report.reason if report.memory is None else report.memory.note
    text = f"On {report.device}, {report.chip} ({report.label}). {note}".strip()
    yield sanitize(text, 1000)
    if (own := report.allocated) is not None:
        for part, size in (("system", own.system_maximum), ("NPU", own.npu_maximum)):
            yield f"Allocated at most, {part}: {SIZE.text(size)}."
    yield from (sanitize(text, 1000) for text in report.notes)


def comparison_facts(found: Comparison) -> Iterator[str]:
    """The verdict, then what the board did not give, the input, notes."""
    yield sanitize(found.verdict, 1000)
    first = next((row for row in found.layers if row.id == found.first), None)
    if first is not None and first.inside:
        yield f"Or one that the board did not give: {_some(first.inside)}."
    if found.rounding is not None:
        yield from found.judged or rounding_lines(found.rounding)
    runtime = found.runtime.partition(" (")[0]
    where = f"On {found.device}, {found.chip}, runtime {runtime} ({found.label})."
    yield sanitize(where, 400)
    if found.missing:
        yield f"Not given by the board: {_some(found.missing)}."
    if found.sha256:
        yield f"Input bytes of all three, SHA-256: {found.sha256}"
    yield from (sanitize(note, 1000) for note in found.notes)


def _some(names: Sequence[str]) -> str:
    return some_of([sanitize(name, 80) for name in names], _MANY)


def difference_facts(found: RunsCompared) -> Iterator[tuple[str, bool | None]]:
    """Two runs: points, then what was not equal, then the layers that differ most.

    Yields:
        A text, and whether it is slower (True) or faster; None where neither is clear.
    """
    for point in found.points:
        change = "" if point.change is None else CHANGE.text(point.change)
        before, after = (MILLISECONDS.text(time / 1000) for time in (point.before, point.after))
        text = f"cores {point.cores}, threads {point.threads}: {before} → {after} ms  {change}"
        slower = (point.change or 0.0) > 0 if point.clear else None
        yield f"{text}  {CLEAR[point.clear]}", slower
    yield from ((f"Not equal: {sanitize(text, 400)}", None) for text in found.differs)
    both = [
        (row.layer, row.before, row.after)
        for row in found.layers
        if row.before is not None and row.after is not None
    ]
    for layer, was, now in sorted(both, key=lambda row: -abs(row[2] - row[1]))[:_MANY]:
        yield f"{sanitize(layer, 40)}  {MICROSECONDS.text(was)} → {MICROSECONDS.text(now)} µs", None
