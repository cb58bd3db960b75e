"""What Bench says of a board, the views Facts and Examine, and what stands below tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on

from engine import human_bytes, rounding_lines, sanitize
from engine.wire.board import About
from engine.wire.board_tables import BOARDS, state_sign
from engine.wire.devices import EXAMINED
from engine.wire.doctor import Checks
from engine.wire.formats import CELSIUS, CHANGE, CLOCK, MICROSECONDS, MILLISECONDS
from rknntui.keys.actions import key_text, with_keys
from rknntui.widgets.findings import finding_lines, told, wrapped
from rknntui.widgets.line_list import SidePane

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from engine import Finding
    from engine.wire.board import BoardFacts, BoardState, VersionRow
    from engine.wire.compare import Comparison
    from engine.wire.devices import BoardMemory, Device, PerfLook, Performance
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


def fact(name: str, value: str, width: int, style: str = "") -> list[Line]:
    """A named fact, wrapped; what goes on stands below its value."""
    rows = wrapped(value or "–", width - LABEL, style)
    return [[(f"{name if i == 0 else '':<{LABEL}}", "dim"), *row] for i, row in enumerate(rows)]


def device_lines(device: Device, chosen: bool, width: int) -> list[Line]:
    """How a board is reached and in what state it is, with cause and remedy."""
    sign, style = state_sign(device.state)
    lines: list[Line] = [
        [(sanitize(device.id, width), "head")],
        [(f"{sign} {device.state}", style), *_use(device, chosen)],
    ]
    if device.state != "ready":
        lines += wrapped(sanitize(device.what), width, "")
    if device.cause:
        lines += wrapped(f"Cause: {sanitize(device.cause)}", width, "dim", "  ")
    if device.remedy:
        lines += wrapped(f"Fix: {sanitize(device.remedy, 1000)}", width, "dim", "  ")
    for warning in device.warnings:
        lines += wrapped(f"! {sanitize(warning)}", width, "warn")
    return lines


def _use(device: Device, chosen: bool) -> Line:
    if chosen:
        return [("   ● used", "accent")]
    use = key_text("bench.use")
    return [("   ", ""), (f" {use} ", "key"), ("uses it", "")] if device.usable else []


def notice_lines(notices: Sequence[Finding], width: int) -> list[Line]:
    """What a look found that belongs to no board."""
    if not notices:
        return []
    return [[], [("Notices", "head")], *finding_lines(notices, width, "bench.run")]


def about_lines(about: About, model: str, width: int) -> list[Line]:
    """What a board is, what runs models there, what it does now, and whether ``model`` fits."""
    lines = [*_board(about.facts, width), *_versions(about.versions, width)]
    lines += _state(about.state, about.facts.label, width)
    if about.fit:
        lines += [[], [(f"Fit of {sanitize(model, 80) or 'the open recipe'}", "head")]]
        lines += check_lines(about.fit, width)
    return lines


def _board(facts: BoardFacts, width: int) -> list[Line]:
    cores = f", {facts.cores} NPU core{'s' if facts.cores != 1 else ''}" if facts.cores else ""
    rows = {
        "chip": f"{facts.chip or 'not known'}{cores}",
        "model": facts.model,
        "serial": facts.serial,
        "system": facts.system,
        "kernel": facts.kernel,
    }
    lines: list[Line] = [[], [("Board", "head")]]
    for name, value in rows.items():
        lines += fact(name, sanitize(value, 300), width)
    return lines


def _versions(rows: Iterable[VersionRow], width: int) -> list[Line]:
    lines: list[Line] = [[], [("Versions", "head")]]
    for row in rows:
        version = "  ".join(part for part in (row.version, row.path, row.note) if part)
        lines += fact(sanitize(row.name, LABEL - 1), sanitize(version, 400), width)
    return lines


def _state(state: BoardState, label: str, width: int) -> list[Line]:
    load = ", ".join(f"{round(percent)} %" for percent in state.npu_load or ())
    clock = "" if state.npu_clock is None else CLOCK.text(state.npu_clock)
    if clock and state.npu_governor:
        clock += f"  {sanitize(state.npu_governor, 40)}"
    ddr = "" if state.ddr_clock is None else CLOCK.text(state.ddr_clock)
    cpu = ", ".join(f"{sanitize(n, 20)} {CLOCK.text(hz)}" for n, hz in state.cpu_clocks or ())
    warmth = ", ".join(
        f"{sanitize(t.zone, 40)} {CELSIUS.text(t.celsius)}" for t in (state.temperatures or ())[:16]
    )
    lines: list[Line] = [[], [("State now", "head"), (f"  {label}", "dim")]]
    for name, attribute, value in (
        ("NPU load", "npu_load", load),
        ("NPU clock", "npu_clock", clock),
        ("DDR clock", "ddr_clock", ddr),
        ("CPU clocks", "cpu_clocks", cpu),
        ("temperature", "temperatures", warmth),
        ("memory", "memory", _memory(state)),
    ):
        lines += fact(name, value or sanitize(state.reason(attribute), 300), width)
    return lines


def _memory(state: BoardState) -> str:
    memory = state.memory
    if memory is None or memory.total is None:
        return ""
    parts = [f"{human_bytes(memory.total)} in all"]
    if memory.available is not None:
        parts.append(f"{human_bytes(memory.available)} free")
    if memory.cma_total:
        free = "" if memory.cma_free is None else f", {human_bytes(memory.cma_free)} free"
        parts.append(f"CMA {human_bytes(memory.cma_total)}{free}")
    return ", ".join(parts)


def memory_lines(memory: BoardMemory | None, width: int) -> list[Line]:
    """What the model takes on the board."""
    if memory is None:
        return []
    rows = {"weights": memory.weight, "internal": memory.internal, "other": memory.other}
    lines: list[Line] = [[], [("Memory", "head")]]
    for name, size in {**rows, "all": memory.total}.items():
        lines += fact(name, human_bytes(size), width)
    return [*lines, *wrapped(sanitize(memory.note), width, "dim")]


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


class FactsPane(SidePane):
    """One board, and the notices of the list."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._answers: dict[str, About | Exception] = {}
        self._device: Device | None = None
        self._used = False
        self._model = ""
        self._memory: BoardMemory | None = None
        self._notices: Sequence[Finding] = ()
        self.asked = ""

    def show(
        self,
        device: Device | None,
        notices: Sequence[Finding],
        *,
        used: bool,
        model: str | None,
        memory: BoardMemory | None = None,
    ) -> None:
        """Show a board.

        Args:
            device: the one under the cursor.
            notices: of the list as a whole.
            used: whether it is the board that runs use.
            model: path of the compiled model that is open.
            memory: what the model takes on it, as measured.
        """
        same = self._device is not None and device is not None and self._device.id == device.id
        self._device, self._notices, self._used = device, notices, used
        self._model = Path(model).name if model else ""
        self._memory = memory if used else None
        self._lay_out(keep_cursor=same)

    def wants(self, device: Device) -> bool:
        """Whether a board is to be asked what it is, unasked by the user."""
        return device.state == "ready" and device.id not in {*self._answers, self.asked}

    def waiting(self, device: str) -> None:
        """A board is being asked."""
        self.asked = device
        self._lay_out(keep_cursor=True)

    def take(self, device: str, told: About | Exception) -> None:
        """Take what a board told, or why it did not."""
        self._answers[device] = told
        if self.asked == device:
            self.asked = ""

    def forget(self, device: str | None = None) -> None:
        """Forget what a board told, or all of them."""
        if device is None:
            self._answers.clear()
        else:
            self._answers.pop(device, None)

    @on(SidePane.Resized)
    def _rewrap(self) -> None:
        self._lay_out(keep_cursor=True)

    def _lay_out(self, *, keep_cursor: bool) -> None:
        width = self.text_width
        lines: list[Line] = []
        if self._device is not None:
            lines += device_lines(self._device, self._used, width)
            lines += self._told_of(self._device, width)
        lines += notice_lines(self._notices, width)[0 if lines else 1 :]
        self.set_lines(lines, keep_cursor=keep_cursor)

    def _told_of(self, device: Device, width: int) -> list[Line]:
        answer = self._answers.get(device.id)
        if self.asked == device.id and not isinstance(answer, About):
            return [[], [("asking the board…", "dim")]]
        if isinstance(answer, About):
            return [*about_lines(answer, self._model, width), *memory_lines(self._memory, width)]
        if isinstance(answer, Exception):
            parts = (getattr(answer, "what", str(answer)), getattr(answer, "remedy", ""))
            text = " ".join(sanitize(str(part), 1000) for part in parts if part)
            return [[], *wrapped(f"✗ {text}", width, "bad")]
        if device.usable:
            return [[], [(f" {key_text('bench.use')} ", "key"), ("asks what it is", "")]]
        return []


# The view Examine: a board examined step by step; what would mend it is listed, never run.


@dataclass
class _Examination:
    """What was found so far; ``error`` says why there is no more."""

    job: JobView
    checks: list[Check] = field(default_factory=list)
    error: str = ""


class ExaminePane(SidePane):
    """The last examination of each board; it grows while it runs."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._known: dict[str, _Examination] = {}
        self._shown = ""
        self._model = ""

    @property
    def running(self) -> list[str]:
        """Ids of the jobs that have not ended."""
        return [
            examination.job.id for examination in self._known.values() if examination.job.running
        ]

    def show(self, device: str, model: str) -> None:
        """Show the examination of a board; empty for none.

        Args:
            device: id of the board.
            model: name of the compiled model that would be run there; empty for none.
        """
        again = device == self._shown
        self._shown, self._model = device, model
        self._lay_out(keep_cursor=again)

    def follow(self, device: str, job: JobView) -> None:
        """Its job was started."""
        self._known[device] = _Examination(job)
        self.changed(job)

    def changed(self, job: JobView) -> None:
        """Take the steps that a job has told."""
        for device, examination in self._known.items():
            if examination.job is job:
                checks = [EXAMINED.of(event) for event in job.partials]
                examination.checks = [check for check in checks if check is not None]
                if device == self._shown:
                    self._lay_out(keep_cursor=True)

    def ended(self, job: JobView, result: object) -> None:
        """A job is over."""
        for examination in self._known.values():
            if examination.job is job and isinstance(result, Checks):
                examination.checks = list(result.checks)
            elif examination.job is job and job.error is not None:
                message = " ".join(str(job.error.get(part) or "") for part in ("what", "remedy"))
                examination.error = message.strip()
        self._lay_out(keep_cursor=True)

    @on(SidePane.Resized)
    def _rewrap(self) -> None:
        self._lay_out(keep_cursor=True)

    def _lay_out(self, *, keep_cursor: bool) -> None:
        self.set_lines(self._made(self.text_width), keep_cursor=keep_cursor)

    def _made(self, width: int) -> list[Line]:
        run, name = key_text("bench.examine"), sanitize(self._shown, 80)
        if not self._shown:
            return [[("No board is in the list.", "dim")]]
        examination = self._known.get(self._shown)
        if examination is None:
            text = (
                "examines the board from the cable to the driver; settings and system files are "
                "not changed"
            )
            if self._model:
                text += f". Runs {sanitize(self._model, 80)} there once, with zeros"
            first, *rest = wrapped(text, width - len(run) - 2, "")
            return [[(f" {run} ", "key"), *first], *rest]
        bad = sum(check.state == "bad" for check in examination.checks)
        verdict = f"{bad} problem{'s' if bad != 1 else ''}" if bad else "no problem found"
        if examination.job.running:
            head = ("  examining…", "accent")
        elif examination.error:
            head = ("  ✗ not examined to its end", "bad")
        else:
            head = (f"  {verdict}", "bad" if bad else "good")
        lines: list[Line] = [[(name, "head"), head], *check_lines(examination.checks, width)]
        if examination.error:
            lines += wrapped(f"✗ {sanitize(examination.error, 1000)}", width, "bad")
        if any(check.commands for check in examination.checks):
            hint = f"{key_text('bench.copy')} copies the command under the cursor; none is run."
            lines += [[], *wrapped(hint, width, "dim")]
        return lines

    def line_text(self) -> str:
        """What stands under the cursor: of a command without its sign."""
        if not self.lines:
            return ""
        return "".join(text for text, _ in self.lines[self.cursor]).strip().removeprefix("$ ")


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
        "the simulator is marked. The first calibration sample is taken."
    ),
    "Runs": "No run is kept yet: {bench.run} measures, and keeps what it measured.",
}
"""View -> what its table says before there is something."""
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
        times = (
            f"{MILLISECONDS.text(point.before / 1000)} → {MILLISECONDS.text(point.after / 1000)} ms"
        )
        style = "bad" if point.clear and (point.change or 0) > 0 else "good" if point.clear else ""
        name = f"cores {point.cores}, threads {point.threads}: "
        lines.append([(name, "dim"), (f"{times}  {change}", style), (f"  {clear}", "dim")])
    lines += told([f"Not equal: {text}" for text in found.differs], width, "warn")
    both = [r for r in found.layers if r.before is not None and r.after is not None]
    both.sort(key=lambda row: -abs((row.after or 0) - (row.before or 0)))
    for row in both[:_MANY]:
        before, after = (MICROSECONDS.text(t or 0.0) for t in (row.before, row.after))
        lines.append([(f"{sanitize(row.layer, 40)}  {before} → {after} µs", "")])
    return lines
