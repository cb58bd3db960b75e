"""What Bench says of a board, of its examination, and below tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import board_facts, comparison_facts, difference_facts, sanitize
from engine.wire.board import About
from engine.wire.board_tables import BOARDS, state_sign
from engine.wire.devices import EXAMINED
from rknntui.keys.actions import key_text, with_keys
from rknntui.widgets.wrap import error_text, finding_lines, told, wrapped

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.wire.compare import Comparison
    from engine.wire.devices import Device
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
            lines += told([device.what], width, "")
            causes = {"Cause": device.cause, "Fix": device.remedy}
            lines += told((f"{name}: {text}" for name, text in causes.items() if text), width)
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
    lines: list[Line] = []
    for title, rows in board_facts(about).items():
        label = f"  {about.facts.label}" if title == "State now" else ""
        lines += [[], [(title, "head"), (label, "dim")]]
        for name, value in rows:
            texts = wrapped(value or "–", width - LABEL, "")
            named = [name[: LABEL - 1], *[""] * len(texts)]
            lines += [[(f"{n:<{LABEL}}", "dim"), *t] for n, t in zip(named, texts, strict=False)]
    if about.fit:
        lines += [[], [(f"Fit of {sanitize(model, 80) or 'the open recipe'}", "head")]]
        lines += check_lines(about.fit, width)
    return lines


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


def compared_lines(found: Comparison | None, width: int) -> list[Line]:
    """The verdict, then what is to be known of the comparison."""
    if found is None:
        return []
    verdict, *more = comparison_facts(found)
    return [*told([verdict], width, "bad" if found.first else "good"), *told(more, width)]


def runs_lines(found: RunsCompared | None, width: int) -> list[Line]:
    """Two runs of the history: what differs, and whether that is faster or slower."""
    if found is None:
        return told([with_keys("{bench.compare} compares this run with the newest.")], width)
    styles = {True: "bad", False: "good", None: ""}
    return [
        line
        for text, slower in difference_facts(found)
        for line in told(text, width, styles[slower])
    ]
