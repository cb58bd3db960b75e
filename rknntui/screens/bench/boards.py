"""The list of boards, the jobs that watch and examine them, and their figures over time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine import human_bytes, sanitize
from engine.wire.devices import (
    DEVICES_EXAMINE,
    DEVICES_LIST,
    Device,
    DeviceListParams,
    ExamineParams,
    Listing,
)
from engine.wire.formats import CELSIUS
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.bench.words import megahertz
from rknntui.screens.dialogs.picker import ask_new_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from textual.timer import Timer

    from engine.wire.board import BoardFacts, BoardState
    from engine.wire.monitor import BoardSample
    from rknntui.screens.bench.panes import DoctorPane, MonitorPane
    from rknntui.session.state import Session
    from rknntui.shell import Shell

POLL_SECONDS = 1.0


class Looking:
    """Keeps ``session.listing`` fresh while its workspace is shown.

    Args:
        owner: asks for it.
        changed: called when there is something else to show.

    Attributes:
        trouble: why the last look told nothing; empty where it did.
    """

    def __init__(self, owner: Workspace, changed: Callable[[], None]) -> None:
        self._owner = owner
        self._changed = changed
        self._waiting = False
        self._timer: Timer | None = None
        self.trouble = ""

    @property
    def active(self) -> bool:
        """Whether it looks again and again."""
        return self._timer is not None

    def resume(self) -> None:
        """Look now and once a second from now on."""
        self.look()
        if self._timer is None:
            self._timer = self._owner.set_interval(POLL_SECONDS, self.look)

    def pause(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def look(self) -> None:
        """Ask for the list, unless an answer is awaited."""
        if not self._waiting:
            self._ask(False)

    def start_server(self) -> None:
        """Start the adb server, and look."""
        self._ask(True)

    def _ask(self, start_server: bool) -> None:
        self._waiting = True
        params = DeviceListParams(self._owner.session.ssh_boards, start_server)
        self._owner.ask(DEVICES_LIST, params, self._listed, failed=self._failed)

    def _listed(self, listing: Listing) -> None:
        trouble, self._waiting, self.trouble = self.trouble, False, ""
        before, self._owner.session.listing = self._owner.session.listing, listing
        if listing != before or trouble:
            self._changed()

    def _failed(self, error: Exception) -> None:
        named = self._owner.session.ssh_boards
        if _is_refusal(error) and named:  # of a state file that was changed by hand
            self._sift(named, error)
        else:
            self._tell(error)

    def _sift(self, named: tuple[str, ...], error: Exception, dropped: bool = False) -> None:
        """Ask for boards one by one, and drop those whose address is refused, no others.

        Args:
            named: those that were not asked for yet.
            error: why all together were refused.
            dropped: whether one was dropped.
        """
        if not named:
            if dropped:
                self._ask(False)
            else:
                self._tell(error)
            return
        owner, first = self._owner, named[0]
        go_on = partial(self._sift, named[1:], error)

        def failed(of_first: Exception) -> None:
            if not _is_refusal(of_first):  # as that there is no worker: it says nothing of a board
                self._tell(of_first)
                return
            session = owner.session
            session.ssh_boards = tuple(name for name in session.ssh_boards if name != first)
            message = f"{sanitize(first, 80)} is not the address of a board; it was removed."
            owner.notify(message, severity="warning", markup=False)
            go_on(True)

        params = DeviceListParams((first,))
        owner.ask(DEVICES_LIST, params, lambda _: go_on(dropped), failed=failed)

    def _tell(self, error: Exception) -> None:
        self._waiting = False
        trouble = str(getattr(error, "what", error))
        if trouble != self.trouble:
            self.trouble = trouble
            self._changed()

    # -- boards over SSH ---------------------------------------------------------------------------

    def add(self, typed: str, then: Callable[[str], object]) -> None:
        """Add a board by its address; ``then`` is called with its id once it is in the list."""
        text = typed.strip()
        address = text if text.startswith("ssh:") else f"ssh:{text}"
        session = self._owner.session
        known = set(session.ssh_boards)

        def added(listing: Listing) -> None:
            session.ssh_boards = tuple(d.id for d in listing.devices if d.kind == "ssh")
            self._owner.workbench.save_state()
            self._listed(listing)
            for name in session.ssh_boards:
                if name not in known:
                    then(name)

        def refused(error: Exception) -> None:
            self._waiting = False
            self._owner.workbench.show_error(error)

        self._waiting = True
        params = DeviceListParams((*session.ssh_boards, address))
        self._owner.ask(DEVICES_LIST, params, added, failed=refused)

    def forget(self, device: Device) -> None:
        """Take a board over SSH out of the list."""
        session = self._owner.session
        session.ssh_boards = tuple(name for name in session.ssh_boards if name != device.id)
        if session.board == device.id:
            session.choose_board(None)
        self._owner.workbench.save_state()
        self._ask(False)


def _is_refusal(error: Exception) -> bool:
    return getattr(error, "kind", "") == "usage"


# The jobs behind the views, in the background: a watch or a recording, and an examination.


def recipe_chip(session: Session) -> str | None:
    """The chip of the open recipe, which a board is held against where no model is open."""
    return str(session.recipe.get("target_platform") or "").lower() or None


def examine(app: Shell, pane: DoctorPane, device: str) -> None:
    """Examine a board in place of the one that is being examined; with the open compiled model."""

    async def submit() -> None:
        for job_id in pane.running:
            app.bridge.discard(job_id)
        model = app.session.container
        chip = recipe_chip(app.session)
        params = ExamineParams(device, model, test=model is not None, chip=chip)
        title = f"examine {sanitize(device, 80)}"
        pane.follow(device, await app.bridge.submit(DEVICES_EXAMINE, params, title, quiet=True))

    app.do(submit())


class Watching:
    """Starts and stops what the pane shows.

    Args:
        app: has the engine and shows dialogs.
        pane: shows it.
    """

    def __init__(self, app: Shell, pane: MonitorPane) -> None:
        self._app = app
        self._pane = pane

    def start_or_stop(self, devices: Sequence[str]) -> None:
        """Watch boards, or stop what goes on or is about to."""
        if self._pane.going:
            self._stop()
            self._pane.wanted = None
            self._pane.draw()
        elif devices:
            self._pane.watch_boards(devices)

    def start(self, wanted: MonitorPane.Wanted) -> None:
        """Start the job that the pane wants, in place of the one that runs."""
        self._app.do(self._submit(wanted))

    async def _submit(self, request: MonitorPane.Wanted) -> None:
        pane, bridge = self._pane, self._app.bridge
        if pane.wanted is not request:  # another key came
            return
        self._stop()
        try:
            job = await bridge.submit(request.task, request.params, request.title, quiet=True)
        except BaseException:
            if pane.wanted is request:
                pane.wanted = None
                pane.draw()
            raise
        if pane.wanted is not request:  # meanwhile: the next one would wait behind this job
            bridge.discard(job.id)
            return
        pane.wanted = None
        pane.follow(job, request.params)
        self._app.show_state()

    def _stop(self) -> None:
        """Let it end in order: a recording is closed."""
        if self._pane.running and self._pane.job is not None:
            self._app.bridge.finish(self._pane.job.id)
            self._pane.stopping = True

    def pause(self) -> None:
        """Hold what is shown, or go on; a recording waits meanwhile."""
        self._pane.paused = not self._pane.paused
        if self._pane.replaying and self._pane.job is not None:
            self._app.bridge.pause(self._pane.job.id)
        self._pane.draw()

    def record(self, devices: Sequence[str]) -> None:
        """Ask for a file, watch boards and record it."""

        def chosen(path: str, force: bool) -> None:
            self._pane.watch_boards(devices, path, force=force)

        ask_new_file(self._pane.app, "Record the watch to", Path.cwd() / "monitor.jsonl", chosen)

    def replay(self) -> None:
        """Choose a recording and show it."""
        from rknntui.screens.dialogs.picker import PathPicker

        def chosen(path: str | None) -> None:
            if path is not None:
                self._pane.replay(path)

        self._app.push_screen(PathPicker("Show a recording"), chosen)


# The figures of boards that are watched, over time: what the monitor draws.

KEPT = 600
"""Looks whose figures are kept: more than any screen is wide."""
_WARMEST = 100.0
"""Degrees Celsius that fill a sparkline; chips are throttled below."""


@dataclass
class Track:
    """One figure over time.

    Attributes:
        name: in front of it.
        show: its text.
        top: what fills its sparkline; 0 for the greatest value so far.
        values: of the last looks; None where the board did not tell.
        minimum, maximum: of all looks; None before the first figure.
    """

    name: str
    show: Callable[[float], str]
    top: float = 0.0
    values: deque[float | None] = field(default_factory=lambda: deque(maxlen=KEPT))
    minimum: float | None = None
    maximum: float | None = None

    def add(self, value: float | None) -> None:
        """Take the figure of a look."""
        self.values.append(value)
        if value is not None:
            self.minimum = value if self.minimum is None else min(self.minimum, value)
            self.maximum = value if self.maximum is None else max(self.maximum, value)

    @property
    def now(self) -> float | None:
        """The figure of the last look."""
        return self.values[-1] if self.values else None

    @property
    def full(self) -> float:
        """What fills the sparkline."""
        return self.top or self.maximum or 0.0


class BoardTrack:
    """What a watch has seen of one board.

    Attributes:
        device: as the user names it.
        facts: what it is; None until it was reached.
        tracks: its figures, by their names, in their order on the screen.
        samples, missed: looks that it answered, and that it did not.
        problem: why the last look found nothing.
        note: what is to be known of its looks, such as that there are fewer of them.
        reasons: name of a figure -> why the board does not tell it.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.facts: BoardFacts | None = None
        self.tracks: dict[str, Track] = {}
        self.samples = 0
        self.missed = 0
        self.problem = ""
        self.note = ""
        self.reasons: dict[str, str] = {}

    def take(self, sample: BoardSample) -> None:
        """Take a look."""
        state = sample.state
        self.problem = sample.problem
        if state is None:
            self.missed += 1
            for track in self.tracks.values():
                track.add(None)
            return
        figures = {track.name: (track, value) for track, value in _figures(state)}
        for name, (track, _) in figures.items():
            if name not in self.tracks:
                known = max((len(t.values) for t in self.tracks.values()), default=0)
                track.values.extend([None] * known)  # of looks before it was told first
                self.tracks[name] = track
        for name, track in self.tracks.items():
            track.add(figures[name][1] if name in figures else None)
        self.samples += 1
        self.reasons = {
            name: state.reason(attribute)
            for attribute, name in _ATTRIBUTES.items()
            if state.reason(attribute)
        }


_ATTRIBUTES = {
    "npu_load": "NPU load",
    "npu_clock": "NPU clock",
    "ddr_clock": "DDR clock",
    "temperatures": "temperature",
    "memory": "memory used",
}


def _figures(state: BoardState) -> Iterator[tuple[Track, float]]:
    """Each figure that a look told, and an empty track for it."""
    loads = state.npu_load or ()
    for core, load in enumerate(loads):
        name = f"NPU core {core}" if len(loads) > 1 else "NPU load"
        yield Track(name, lambda value: f"{round(value)} %", 100.0), load
    if state.npu_clock is not None:
        yield Track("NPU clock", _clock), float(state.npu_clock)
    if state.ddr_clock is not None:
        yield Track("DDR clock", _clock), float(state.ddr_clock)
    if (celsius := state.npu_celsius) is not None:
        yield Track("temperature", CELSIUS.text, _WARMEST), celsius
    memory = state.memory
    if memory is not None and memory.total and memory.available is not None:
        used = float(memory.total - memory.available)
        yield Track("memory used", lambda value: human_bytes(int(value)), float(memory.total)), used


def _clock(value: float) -> str:
    return megahertz(int(value))
