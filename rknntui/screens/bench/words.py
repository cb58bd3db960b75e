"""What Devices says of a board, the view Facts, and what can be done there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual import on

from engine import human_bytes, sanitize
from engine.wire.board import About
from engine.wire.board_tables import BOARDS, state_sign
from engine.wire.formats import CELSIUS, CLOCK
from rknntui.keys.actions import key_text
from rknntui.widgets.findings import finding_lines, wrapped
from rknntui.widgets.line_list import SidePane

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from engine import Finding
    from engine.wire.board import BoardFacts, BoardState, VersionRow
    from engine.wire.devices import Device
    from engine.wire.doctor import Check
    from engine.wire.table import Record
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


def megahertz(hertz: int) -> str:
    """A clock."""
    return CLOCK.text(hertz)


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
        return [("   ● used in Run", "accent")]
    use = key_text("bench.use")
    return [("   ", ""), (f" {use} ", "key"), ("uses it in Run", "")] if device.usable else []


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
    def told(attribute: str, value: str) -> str:
        return value or sanitize(state.reason(attribute), 300)

    load = ", ".join(f"{round(percent)} %" for percent in state.npu_load or ())
    clock = megahertz(state.npu_clock) if state.npu_clock is not None else ""
    if clock and state.npu_governor:
        clock += f"  {sanitize(state.npu_governor, 40)}"
    ddr = megahertz(state.ddr_clock) if state.ddr_clock is not None else ""
    cpu = ", ".join(f"{sanitize(n, 20)} {megahertz(hz)}" for n, hz in state.cpu_clocks or ())
    warmth = ", ".join(
        f"{sanitize(t.zone, 40)} {CELSIUS.text(t.celsius)}" for t in (state.temperatures or ())[:16]
    )
    lines: list[Line] = [[], [("State now", "head"), (f"  {label}", "dim")]]
    lines += fact("NPU load", told("npu_load", load), width)
    lines += fact("NPU clock", told("npu_clock", clock), width)
    lines += fact("DDR clock", told("ddr_clock", ddr), width)
    lines += fact("CPU clocks", told("cpu_clocks", cpu), width)
    lines += fact("temperature", told("temperatures", warmth), width)
    lines += fact("memory", told("memory", _memory(state)), width)
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


def device_records(
    devices: Sequence[Device],
    chosen: str | None,
    marked: Collection[str],
    known: Mapping[str, About],
) -> list[Record]:
    """The rows of boards.

    Args:
        devices: the boards.
        chosen: id of the one that runs use.
        marked: ids of those that are to be watched.
        known: what boards told of themselves, by their ids.
    """
    return [
        BOARDS.record(
            device,
            mark=("●" if device.id == chosen else " ") + ("*" if device.id in marked else " "),
            chip=known[device.id].facts.chip if device.id in known else None,
            aliases=[sanitize(device.serial, 80)],
        )
        for device in devices
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
        self._notices: Sequence[Finding] = ()
        self.asked = ""

    @property
    def known(self) -> Mapping[str, About]:
        """What boards told of themselves, by their ids."""
        return {name: answer for name, answer in self._answers.items() if isinstance(answer, About)}

    def show(
        self, device: Device | None, notices: Sequence[Finding], *, used: bool, model: str | None
    ) -> None:
        """Show a board.

        Args:
            device: the one under the cursor.
            notices: of the list as a whole.
            used: whether it is the board that runs use.
            model: path of the compiled model that is open.
        """
        same = self._device is not None and device is not None and self._device.id == device.id
        self._device, self._notices, self._used = device, notices, used
        self._model = Path(model).name if model else ""
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
        width = max(20, (self.scrollable_content_region.width or 40) - 1)
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
            return about_lines(answer, self._model, width)
        if isinstance(answer, Exception):
            parts = (getattr(answer, "what", str(answer)), getattr(answer, "remedy", ""))
            text = " ".join(sanitize(str(part), 1000) for part in parts if part)
            return [[], *wrapped(f"✗ {text}", width, "bad")]
        if device.usable:
            return [[], [(f" {key_text('bench.run')} ", "key"), ("asks what it is", "")]]
        return []


# The actions of Devices, and what its empty list says.


NO_BOARD = """No board was found.

USB: connect the board and enable USB debugging (adb) on it.
Network: `adb connect ADDRESS:5555` in a shell, or {bench.add} for a board over SSH.
No board: `rknntui devices emulate rk3588` in a shell emulates one."""
