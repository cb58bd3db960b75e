"""What Bench says of a board, of its examination, and below tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine import Finding, rounding_lines, sanitize
from engine.wire.board import About
from engine.wire.board_tables import BOARDS, state_sign
from engine.wire.devices import EXAMINED
from engine.wire.formats import CELSIUS, CHANGE, CLOCK, MICROSECONDS, MILLISECONDS, SIZE, WATTS
from rknntui.keys.actions import key_text, with_keys
from rknntui.widgets.findings import error_text, finding_lines, told, wrapped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from engine.wire.board import BoardState, MemoryReport
    from engine.wire.compare import Comparison
    from engine.wire.devices import Device, PerfLook, Performance
    from engine.wire.doctor import Check
    from engine.wire.measured import RunsCompared
    from engine.wire.table import Record
    from rknntui.session.boards import Boards
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

LABEL = 13
"""Cells of the names in front of facts."""
_CHECKS = {
    "ok": ("✓", "good"),
    "note": ("!", "warn"),
    "bad": ("✗", "bad"),
    "skipped": ("–", "dim"),
}
"""State of a check -> sign and style."""


def device_records(boards: Boards, marked: Collection[str]) -> list[Record]:
    """The rows of boards; those that are marked are to be watched."""
    return [
        BOARDS.record(
            device,
            mark=("●" if device.id == boards.chosen else " ")
            + ("*" if device.id in marked else " "),
            chip=boards.chip_of(device.id) or None,
            aliases=[sanitize(device.serial, 80)],
        )
        for device in boards.devices
    ]


# The view Facts: the state of a board, and what a ready one tells of itself.


def facts_lines(
    device: Device | None, boards: Boards, answer: About | Exception | str, model: str, width: int
) -> list[Line]:
    """How a board is reached, in what state it is, with cause and remedy, and what it is.

    Args:
        device: the one under the cursor.
        boards: has the notices of the list as a whole.
        answer: what the board told, why it did not, or that it is being asked; empty for none.
        model: name of the compiled model that is open.
        width: cells.
    """
    lines: list[Line] = []
    if device is not None:
        sign, style = state_sign(device.state)
        use: Line = [(f"   {key_text('bench.use')} ", "key"), ("uses it, and asks what it is", "")]
        if device.id == boards.chosen:
            use = [("   ● used", "accent")]
        lines += [[(sanitize(device.id, width), "head")], [(f"{sign} {device.state}", style)]]
        lines[-1] += use if device.usable else []
        if device.state != "ready":
            what = Finding("", "error", "", device.what, device.cause, device.remedy)
            lines += finding_lines([what], width, "")
        lines += told([f"! {text}" for text in device.warnings], width, "warn")
        if isinstance(answer, About):
            lines += about_lines(answer, model, width)
        elif answer:
            said = f"✗ {error_text(answer)}" if isinstance(answer, Exception) else answer
            lines += [[], *told([said], width, "dim" if said == answer else "bad")]
    if boards.notices:
        lines += [[], [("Notices", "head")], *finding_lines(boards.notices, width, "bench.run")]
    return lines


def about_lines(about: About, model: str, width: int) -> list[Line]:
    """What a board is, what runs models there, what it does now, and whether ``model`` fits."""
    facts = about.facts
    cores = f", {facts.cores} NPU core{'s' if facts.cores != 1 else ''}" if facts.cores else ""
    board = [
        ("chip", f"{facts.chip or 'not known'}{cores}"),
        ("model", facts.model),
        ("serial", facts.serial),
        ("system", facts.system),
        ("kernel", facts.kernel),
    ]
    versions = [
        (row.name, "  ".join(part for part in (row.version, row.path, row.note) if part))
        for row in about.versions
    ]
    lines: list[Line] = []
    for beside, title, rows in (
        ("", "Board", board),
        ("", "Versions", versions),
        (f"  {facts.label}", "State now", list(_state(about.state))),
    ):
        lines += [[], [(title, "head"), (beside, "dim")]]
        for name, value in rows:
            texts = wrapped(sanitize(value, 400) or "–", width - LABEL, "")
            named = [sanitize(name, LABEL - 1), *[""] * len(texts)]
            lines += [[(f"{n:<{LABEL}}", "dim"), *t] for n, t in zip(named, texts, strict=False)]
    if about.fit:
        lines += [[], [(f"Fit of {sanitize(model, 80) or 'the open recipe'}", "head")]]
        lines += check_lines(about.fit, width)
    return lines


def _state(state: BoardState) -> Iterator[tuple[str, str]]:
    """Each figure of a board, or why there is none."""
    clock = "" if state.npu_clock is None else CLOCK.text(state.npu_clock)
    zones = (state.temperatures or ())[:16]
    memory = state.memory
    sizes = {} if memory is None else {"in all": memory.total, "free": memory.available}
    sizes |= {} if memory is None else {"of CMA": memory.cma_total, "of CMA free": memory.cma_free}
    limit, zone = state.hot
    figures = {
        "npu_load": (f"{round(percent)} %" for percent in state.npu_load or ()),
        "npu_clock": [f"{clock}  {state.npu_governor or ''}".strip()] if clock else (),
        "ddr_clock": () if state.ddr_clock is None else [CLOCK.text(state.ddr_clock)],
        "cpu_clocks": (f"{name} {CLOCK.text(hertz)}" for name, hertz in state.cpu_clocks or ()),
        "temperatures": (f"{zone.zone} {CELSIUS.text(zone.celsius)}" for zone in zones),
        "memory": (f"{SIZE.text(size)} {kind}" for kind, size in sizes.items() if size is not None),
        "powers": (f"{power.sensor} {WATTS.text(power.watts)}" for power in state.powers or ()),
    }
    names = ("NPU load", "NPU clock", "DDR clock", "CPU clocks", "temperature", "memory", "power")
    for name, (attribute, texts) in zip(names, figures.items(), strict=True):
        yield name, ", ".join(texts) or state.reason(attribute)
        if attribute == "temperatures" and zones:
            told = f"the board's own trip point, of {zone}" if zone else "documented"
            yield "hot from", f"{CELSIUS.text(limit)} ({told})"


def check_lines(checks: Sequence[Check], width: int) -> list[Line]:
    """Steps of a look with their findings, remedies and commands."""
    lines: list[Line] = []
    for check in checks:
        sign, style = _CHECKS[check.state]
        name = sanitize(check.name, 60)
        rows = wrapped(f"{name}: {sanitize(check.found, 1000)}", width - 2, "")
        lines += [[(f"{sign} " if i == 0 else "  ", style), *row] for i, row in enumerate(rows)]
        if check.remedy:
            lines += wrapped(f"Fix: {sanitize(check.remedy, 1000)}", width, "dim", "  ")
        for command in check.commands:
            lines += [[("  $ ", "dim"), (sanitize(command, 1000), "accent")]]
    return lines


# The view Examine: a board examined step by step; what would mend it is listed, never run.


def examined_lines(device: str, job: JobView | None, model: str, width: int) -> list[Line]:
    """The newest examination of a board; it grows while it runs.

    Args:
        device: id of the board; empty for none.
        job: that examines it; None before there is one.
        model: name of the compiled model that would be run there; empty for none.
        width: cells.
    """
    if not device:
        return [[("No board is in the list.", "dim")]]
    if job is None:
        text = "{bench.examine} examines the board from the cable to the driver; settings and "
        text += "system files are not changed"
        runs = f". Runs {sanitize(model, 80)} there once, with zeros" if model else ""
        return wrapped(with_keys(text) + runs, width, "")
    checks = [check for event in job.partials if (check := EXAMINED.of(event)) is not None]
    bad = sum(check.state == "bad" for check in checks)
    verdict = f"  {bad} problem{'s' if bad != 1 else ''}" if bad else "  no problem found"
    head = (verdict, "bad" if bad else "good")
    if job.running:
        head = ("  examining…", "accent")
    elif job.error is not None:
        head = ("  ✗ not examined to its end", "bad")
    lines: list[Line] = [[(sanitize(device, 80), "head"), head], *check_lines(checks, width)]
    lines += [] if job.error is None else wrapped(f"✗ {error_text(job.error)}", width, "bad")
    if any(check.commands for check in checks):
        hint = f"{key_text('bench.copy')} copies the command under the cursor; none is run."
        lines += [[], *wrapped(hint, width, "dim")]
    return lines


# What its empty list and its empty tables say.

NO_BOARD = (
    "No board was found.\n\n{bench.add} adds one: an emulated one needs no hardware, and ends with "
    "the workbench; a board on the network has an address, by adb (192.168.0.7:5555) or SSH "
    "(pi@board).\nUSB: connect the board and enable USB debugging (adb) on it."
)
EMPTY = {
    "Layers": "No layer is timed yet: {bench.run} measures the model on the board, its layers too.",
    "Compare": (
        "Nothing is compared yet.\n\n{bench.compare} runs the same bytes three ways: reference "
        "(float), simulator, board. The first layer in which the board does something else than "
        "the simulator is marked. The first calibration sample is taken. A run that goes on is "
        "ended, and kept."
    ),
    "Memory": (
        "{bench.memory} asks what the model takes on the board; {bench.run} tells it, too. A run "
        "that goes on is ended, and kept."
    ),
    "Curve": "{bench.run} measures; its curve grows here.",
    "Runs": "No run is kept yet: {bench.run} measures, and keeps what it measured.",
}
"""View -> what is said before there is something."""
_MANY = 4


def layer_lines(result: PerfLook | Performance | None, width: int) -> list[Line]:
    """How many layers, where they ran, and which of them are the build's."""
    if result is None or not result.layers:
        return []
    rows = result.layers
    known = sum(bool(row.id) for row in rows)
    places = Counter(row.target for row in rows if row.target).most_common(_MANY)
    on = ", ".join(f"{count} on {place}" for place, count in places)
    text = f"{on}{'; ' if on else ''}{known} of {len(rows)} rows are layers of this build."
    timed = "Timed in runs of their own, which are slower."
    return told([f"{text} {timed}", *result.notes], width)


def memory_lines(report: MemoryReport | None, width: int) -> list[Line]:
    """Of which kind the figures are, and what is to be known of them."""
    if report is None:
        return []
    note = report.reason if report.memory is None else report.memory.note
    own = report.allocated
    taken = () if own is None else (("system", own.system_maximum), ("NPU", own.npu_maximum))
    most = [f"Allocated at most, {part}: {SIZE.text(size)}." for part, size in taken]
    head = f"On {report.device}, {report.chip} ({report.label}). {note}".strip()
    return told([head, *most, *report.notes], width)


def compared_lines(found: Comparison | None, width: int) -> list[Line]:
    """The verdict, then what the board did not give, the input, notes."""
    if found is None:
        return []
    lines = told([found.verdict], width, "bad" if found.first else "good")
    first = next((row for row in found.layers if row.id == found.first), None)
    if first is not None and first.inside:
        lines += told([f"Or one that the board did not give: {_some(first.inside)}."], width)
    if found.rounding is not None:
        lines += told(found.judged or rounding_lines(found.rounding), width, "")
    runtime = sanitize(found.runtime, 60).partition(" (")[0]
    sentences = [f"On {found.device}, {found.chip}, runtime {runtime} ({found.label})."]
    if found.missing:
        sentences.append(f"Not given by the board: {_some(found.missing)}.")
    if found.sha256:
        sentences.append(f"Input bytes of all three, SHA-256: {found.sha256}")
    return [*lines, *told([*sentences, *found.notes], width)]


def _some(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(sanitize(name, 80) for name in names[:_MANY]) + more


def runs_lines(found: RunsCompared | None, width: int) -> list[Line]:
    """Two runs of the history: points, then what was not equal, then the layers by difference."""
    if found is None:
        return told([with_keys("{bench.compare} compares this run with the newest.")], width)
    lines: list[Line] = []
    for point in found.points:
        change = "" if point.change is None else CHANGE.text(point.change)
        clear = {True: "clear", False: "within the spread", None: "too few runs"}[point.clear]
        before, after = (MILLISECONDS.text(t / 1000) for t in (point.before, point.after))
        style = "bad" if point.clear and (point.change or 0) > 0 else "good" if point.clear else ""
        name = f"cores {point.cores}, threads {point.threads}: "
        figures = (f"{before} → {after} ms  {change}", style)
        lines.append([(name, "dim"), figures, (f"  {clear}", "dim")])
    lines += told([f"Not equal: {text}" for text in found.differs], width, "warn")
    both = [
        (row.layer, row.before, row.after)
        for row in found.layers
        if row.before is not None and row.after is not None
    ]
    for layer, was, now in sorted(both, key=lambda row: -abs(row[2] - row[1]))[:_MANY]:
        times = f"{MICROSECONDS.text(was)} → {MICROSECONDS.text(now)} µs"
        lines.append([(f"{sanitize(layer, 40)}  {times}", "")])
    return lines
