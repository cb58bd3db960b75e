"""``rknntui monitor``: Watch boards: load of the NPU, clock, temperature and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine import DeviceError, Event, LogLine, answer_lines, human_bytes
from engine.wire.codec import encode
from engine.wire.formats import CELSIUS, CLOCK, ELAPSED, WATTS
from engine.wire.monitor import (
    BOARD,
    MONITOR_REPLAY,
    MONITOR_WATCH,
    NOTE,
    SAMPLE,
    BoardSample,
    Monitored,
    ReplayParams,
    WatchParams,
)
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.output import LiveLines, emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.cli.verb import described

if TYPE_CHECKING:
    from engine.wire.board import BoardFacts

_SHOWN = {
    "npu_load": "NPU load",
    "npu_clock": "NPU clock",
    "temperatures": "temperature",
    "memory": "memory",
}


@click.command("monitor", **described(MONITOR_WATCH))
@request_flags(MONITOR_WATCH)
@request_flags(MONITOR_REPLAY, optional=True)
@json_flag
@quiet_flag
def command(as_json: bool, quiet: bool, **flags: Any) -> None:
    """Watch boards until Ctrl-C, then print minimum, mean and maximum of each figure.

    A terminal has one line for each board, anything else one for each sample; --json one object a
    line, the last one the summary. What a board does not tell is "-". A board that is lost is
    tried again, and the others go on.
    """
    watched, replayed = values_for(WatchParams, flags), values_for(ReplayParams, flags)
    replay = "path" in replayed
    if replay and watched:
        raise click.UsageError("--replay takes a file in place of boards, and --speed alone.")
    if replayed and not replay:
        raise click.UsageError("--speed is of --replay.")
    view = _View(as_json=as_json, quiet=quiet)

    async def action(session: WorkerSession) -> Monitored:
        view.session = session
        if replay:
            shown = ReplayParams(**replayed)
            return await session.run_until_stopped(MONITOR_REPLAY, shown)
        return await session.run_until_stopped(MONITOR_WATCH, WatchParams(**watched))

    summary = with_worker(action, view)
    emit({"summary": encode(summary)}, answer_lines(summary), as_json=as_json, compact=True)
    if not replay and not any(board.samples for board in summary.boards):
        raise click.exceptions.Exit(DeviceError.exit_code)


class _View:
    """Shows what is told while it comes."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.session: WorkerSession | None = None
        self._as_json, self._quiet = as_json, quiet
        self._narrator = Narrator(quiet=quiet)
        self._live = None if as_json or not LiveLines.possible() else LiveLines()
        self._facts: dict[str, BoardFacts] = {}
        self._lines: dict[str, str] = {}
        self._told: set[tuple[str, str]] = set()
        self._lost: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if (facts := BOARD.of(event)) is not None:
            self._facts[facts.device] = facts
            self._object("board", encode(facts))
        elif (note := NOTE.of(event)) is not None:
            if not self._object("note", encode(note)):
                self._say(f"{note.device}: {note.text}")
        elif (sample := SAMPLE.of(event)) is not None:
            self._sample(sample)
        elif isinstance(event, LogLine) and event.level == "warning":
            self._say(f"warning: {event.text}")

    def _sample(self, sample: BoardSample) -> None:
        facts = self._facts.get(sample.device)
        if sample.state is None:
            facts = None  # what could not be read was not measured
        label = {} if facts is None else {"label": facts.label}
        if self._object("sample", encode(sample), **label):
            return
        if self._live is None:
            line = f"{_name(sample.device, facts)}  {ELAPSED.text(sample.at)}  {_told(sample)}"
            self._go_on(emit(None, line, as_json=False))
        else:
            lost = sample.device in self._lost
            (self._lost.add if sample.problem else self._lost.discard)(sample.device)
            # a line of a terminal is too short for it, and is written again soon
            above = [f"{sample.device}: {sample.problem}"] if sample.problem and not lost else []
            self._lines[sample.device] = f"{_name(sample.device, facts)}  {_told(sample)}"
            self._go_on(self._live.show([*self._lines.values()], above))
        for name, why in [] if sample.state is None else sample.state.missing:
            if name in _SHOWN and (sample.device, name) not in self._told:
                self._told.add((sample.device, name))
                self._say(f"{sample.device}: no {_SHOWN[name]}: {why}")

    def _object(self, kind: str, data: object, **beside: str) -> bool:
        """Write it as JSON where that is wanted."""
        if self._as_json:
            self._go_on(emit({**beside, kind: data}, "", as_json=True, compact=True))
        return self._as_json

    def _say(self, text: str) -> None:
        if self._live is None:
            self._narrator.say(text)
        elif not self._quiet:
            self._go_on(self._live.show([*self._lines.values()], [text]))

    def _go_on(self, read: bool) -> None:
        """A watch that nobody reads any more ends."""
        if not read and self.session is not None:
            self.session.finish()


def _name(device: str, facts: BoardFacts | None) -> str:
    return device if facts is None else f"{device} ({facts.label})"


def _told(sample: BoardSample) -> str:
    """What a look told, within the width of a terminal."""
    state = sample.state
    if state is None:
        return sample.problem
    clock, celsius, memory = state.npu_clock, state.npu_celsius, state.memory
    load = "-" if state.npu_load is None else " ".join(f"{core:3.0f}" for core in state.npu_load)
    used = "-"
    if memory is not None and memory.total is not None and memory.available is not None:
        used = human_bytes(memory.total - memory.available)
    powers = "".join(f"  {WATTS.text(power.watts)}" for power in state.powers or ())
    return f"NPU {load} %  {CLOCK.show(clock)}  {CELSIUS.show(celsius)}  {used}{powers}"
