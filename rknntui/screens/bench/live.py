"""Jobs on boards that go on while other views are shown: a watch, and a model measured there."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine import sanitize
from engine.wire.codec import Above, Whole
from engine.wire.devices import (
    CORES,
    DEVICES_PERF,
    PERF_LOOK,
    Cores,
    MeasuredPoint,
    PerfLook,
    Performance,
    PerfParams,
)
from engine.wire.flags import Flag
from engine.wire.formats import CELSIUS, CLOCK, DURATION, MILLISECONDS, RATE
from engine.wire.monitor import (
    BOARD,
    MONITOR_REPLAY,
    MONITOR_WATCH,
    NOTE,
    SAMPLE,
    ReplayParams,
    WatchParams,
)
from engine.wire.record import record
from rknntui.keys.actions import key_text
from rknntui.screens.bench.tracks import BoardTrack, Track
from rknntui.screens.dialogs.picker import PathPicker, ask_new_file
from rknntui.screens.dialogs.request import Form
from rknntui.session.messages import Bench
from rknntui.widgets.wrap import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine import Partial
    from engine.wire.devices import Device
    from engine.wire.method import Task
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView


class BoardJob:
    """The newest job of a kind; one that is started in its place ends the one before.

    Args:
        owner: whose job it is.
        tell: called when there is something else to show.

    Attributes:
        params: of the newest one.
        job: that goes on, or is being ended; None while there is none.
        starting: whether the worker has not taken it yet.
    """

    def __init__(self, owner: Workspace, tell: Callable[[], None]) -> None:
        self._owner, self.tell = owner, tell
        self.params: Any = None
        self.job: JobView | None = None
        self.starting = self._ending = False
        self._then: Callable[[], None] | None = None

    def take(self, event: Partial) -> None:
        """What the job told."""
        raise NotImplementedError

    def took(self, job: JobView, result: object) -> None:
        """The job is over."""
        raise NotImplementedError

    def begin(self, method: Task[Any, Any], params: object, title: str) -> None:
        """Start a job, in place of the one that goes on."""
        self.params, self.starting = params, True
        self._owner.workbench.do(self._submit(method, params, title))
        self.tell()

    async def _submit(self, method: Task[Any, Any], params: object, title: str) -> None:
        bridge, wanted = self._owner.bridge, False
        if self.params is not params or not self.starting:  # another key came
            return
        self._finish()
        try:
            job = await bridge.submit(method, params, title, quiet=True)
        finally:
            if wanted := self.params is params and self.starting:
                self.starting = False
            self.tell()
        if wanted:
            self.job, self._ending = job, False
            self.told(job)
        else:  # meanwhile: the next one would wait behind this job
            bridge.discard(job.id)

    def stop(self, then: Callable[[], None] = lambda: None) -> None:
        """Let it end in order: what it measured is kept, and a recording is closed.

        Args:
            then: called once the board is free, which is at once where nothing runs.
        """
        self.starting = False
        self._finish()
        if self.job is None:
            then()
        else:
            self._then = then
        self.tell()

    def _finish(self) -> None:
        if self.job is not None and not self._ending:
            self._owner.bridge.finish(self.job.id)
            self._ending = self.job is not None

    def told(self, job: JobView) -> None:
        """A job of the session moved on."""
        if self.job is job:
            events = list(job.partials)
            job.partials.clear()  # thousands of looks of a long job are of no use twice
            for event in events:
                self.take(event)
            self.tell()

    def ended(self, job: JobView, result: object) -> bool:
        """A job of the session is over; True where it is this one."""
        if self.job is not job:
            return False
        self.told(job)
        self.job = None
        self.took(job, result)
        self._ending = False
        self.tell()
        if self._then is not None:
            self._then()
        self._then = None
        return True


# Boards watched: the sparklines.

HERTZ = (1.0, 2.0, 5.0, 10.0)
"""Looks a second to choose from."""
LONGEST_SECONDS = 24 * 3600.0
"""A watch ends after a day: one whose workbench was killed does not go on for ever."""


class Watch(BoardJob):
    """Boards watched, or a recording shown again.

    Args:
        owner: whose job it is.
        changed: called when there is something else to show.

    Attributes:
        boards: what was seen of each; those of the watch before stay where they are watched again.
        hertz: looks a second.
        paused: whether what is shown is held.
        at: seconds of its newest look.
        end: why it goes on no more.
    """

    def __init__(self, owner: Workspace, changed: Callable[[], None]) -> None:
        super().__init__(owner, changed)
        self.boards: dict[str, BoardTrack] = {}
        self.hertz = HERTZ[0]
        self.paused = False
        self.at, self.end = 0.0, ""

    @property
    def now(self) -> WatchParams | ReplayParams | None:
        """What is watched or shown again."""
        going = self.starting or (self.job is not None and not self._ending)
        return self.params if going else None

    @property
    def recording(self) -> str:
        """The file that is being written; empty for none."""
        return getattr(self.now, "record", None) or ""

    def watch(
        self, devices: Sequence[str], record: str | None = None, *, force: bool = False
    ) -> None:
        """Watch boards, from now on."""
        self.boards = {name: self.boards.get(name) or BoardTrack(name) for name in devices}
        params = WatchParams(tuple(devices), self.hertz, LONGEST_SECONDS, record, force)
        count = f"{len(devices)} boards" if len(devices) != 1 else devices[0]
        self._restart(MONITOR_WATCH, params, f"watch {sanitize(count, 80)}")

    def _restart(self, method: Task[Any, Any], params: object, title: str) -> None:
        self.at, self.end, self.paused = 0.0, "", False
        self.begin(method, params, title)

    def record(self, devices: Sequence[str]) -> None:
        """Ask for a file, watch boards and record it."""

        def chosen(path: str, force: bool) -> None:
            self.watch(devices, path, force=force)

        ask_new_file(self._owner.app, "Record the watch to", Path.cwd() / "monitor.jsonl", chosen)

    def replay(self) -> None:
        """Choose a recording and show it."""

        def chosen(path: str | None) -> None:
            if path is not None:
                self.boards = {}
                title = f"replay {sanitize(Path(path).name, 80)}"
                self._restart(MONITOR_REPLAY, ReplayParams(path), title)

        last = getattr(self.params, "record", None) or getattr(self.params, "path", None)
        self._owner.app.push_screen(PathPicker("Show a recording", last or ""), chosen)

    def set_hertz(self, step: int) -> None:
        """Choose the next or the former rate; a watch goes on with it."""
        at = HERTZ.index(self.hertz) + step
        if 0 <= at < len(HERTZ):
            self.hertz = HERTZ[at]
            if isinstance(now := self.now, WatchParams):
                self.watch(now.devices)
            self.tell()

    def pause(self) -> None:
        """Hold what is shown, or go on; a recording waits meanwhile."""
        self.paused = not self.paused
        if self.job is not None:
            if isinstance(self.params, ReplayParams):
                self._owner.bridge.pause(self.job.id)
            self.told(self.job)  # what came meanwhile
        self.tell()

    def drop(self, board: str) -> None:
        """A board goes: a watch of it ends, and what that still tells is not taken."""
        if self.boards.pop(board, None) is not None:
            self.stop()
            self.job = None
            if self.boards:
                self.watch(tuple(self.boards))

    def told(self, job: JobView) -> None:
        if not (self.paused and job.running):
            super().told(job)

    def take(self, event: Partial) -> None:
        if (facts := BOARD.of(event)) is not None:
            self._of(facts.device).facts = facts
        elif (note := NOTE.of(event)) is not None:
            self._of(note.device).note = note.text
        elif (sample := SAMPLE.of(event)) is not None:
            self.at = sample.at
            self._of(sample.device).take(sample)

    def _of(self, device: str) -> BoardTrack:
        return self.boards.setdefault(device, BoardTrack(device))

    def took(self, job: JobView, result: object) -> None:
        self.paused = False
        recorded = getattr(result, "recorded", "") or getattr(self.params, "record", None)
        if job.state == "failed":
            self.end = f"✗ {error_text(job.error)}"
        elif isinstance(self.params, ReplayParams):
            self.end = "✓ end of the recording"
        elif recorded:
            notes = " ".join(getattr(result, "notes", ()))
            self.end = f"✓ recorded in {sanitize(f'{recorded} {notes}'.strip(), 300)}"

    def asked(self, devices: Sequence[str]) -> tuple[Task[Any, Any], object]:
        """What asks for the same: for what goes on, or for a watch of ``devices``."""
        if isinstance(self.now, ReplayParams):
            return MONITOR_REPLAY, self.now
        watch = WatchParams(tuple(devices), self.hertz, record=self.recording or None)
        return MONITOR_WATCH, watch


# A model measured on a board.

RETRY_SECONDS = 5.0
"""A board that was lost is left alone for so long."""
_LOST = ("device lost", "device timeout")


@record
class RunSettings:
    """How the model is measured."""

    cores: Annotated[Cores, Flag(help=f"NPU cores that run the model: {', '.join(CORES)}.")] = (
        "auto"
    )
    threads: Annotated[
        Annotated[int, Whole(1, 32)], Flag(help="Threads that run the model at the same time.")
    ] = 1
    minutes: Annotated[
        Annotated[float, Above(0, 1440)],
        Flag(help="How long; hours are a thermal soak, whose curve is a view (Curve)."),
    ] = 1.0
    fix_clocks: Annotated[
        bool, Flag(help="Fix the clocks while it runs, where the board lets you.")
    ] = False

    @property
    def words(self) -> str:
        """In few words."""
        parts = {
            DURATION.text(60 * self.minutes): True,
            f"cores {self.cores}": self.cores != "auto",
            f"{self.threads} threads": self.threads > 1,
            "fixed clocks": self.fix_clocks,
        }
        return ", ".join(part for part, said in parts.items() if said)


SETTINGS = Form("Measure on the board", (RunSettings,))


class Measuring(BoardJob):
    """The job of ``perf``: it also goes on where its board was lost.

    Args:
        owner: whose job it is.
        changed: called when there is something else to show; True where layers were timed.

    Attributes:
        settings: of the next run.
        look: the newest look of the newest run.
        result: of the newest run that ended; None while one goes on.
        curve: its figures from its begin on.
        layers: number of a row of the runtime's table -> its times.
        error: why it ended or waits; empty where it did not.
        waiting: whether its board was lost, and is waited for.
    """

    def __init__(self, owner: Workspace, changed: Callable[[bool], None]) -> None:
        super().__init__(owner, self._tell)
        self._changed = changed
        self.settings = RunSettings()
        self.waiting, self._lost_at = False, 0.0
        self._before = 0.0  # seconds that were measured before the board was lost
        self._timed = False
        self.forget()

    def forget(self) -> None:
        """What is known is of another model."""
        self.look: PerfLook | None = None
        self.result: Performance | None = None
        self.error = ""
        self.curve: dict[str, Track] = {}
        self.layers: dict[int, Track] = {}

    @property
    def going(self) -> bool:
        """Whether it measures, is about to, or waits for its board."""
        return self.starting or self.job is not None or self.waiting

    @property
    def measuring(self) -> bool:
        """Whether there are figures already of a run that goes on."""
        return self.job is not None and self.look is not None

    @property
    def at(self) -> float:
        """Seconds that were measured."""
        return self._before + (0.0 if self.look is None else self.look.at)

    @property
    def whole(self) -> float:
        """Seconds that are to be measured."""
        return self._before + (0.0 if self.params is None else self.params.seconds)

    @property
    def stage(self) -> str:
        """What it does before there are figures."""
        stage = None if self.job is None else self.job.stage
        return "starting" if stage is None else stage.title.lower()

    @property
    def point(self) -> PerfLook | MeasuredPoint | None:
        """The figures to be shown: of the run that goes on, else of the last one."""
        return self.look if self.result is None else self.result.points[0]

    @property
    def answer(self) -> PerfLook | Performance | None:
        """The same with what is told beside: board, versions, layers."""
        return self.look if self.result is None else self.result

    def asked(self, board: str, model: dict[str, object]) -> PerfParams:
        """The request for a model on a board, with what is set."""
        wanted = self.settings
        return PerfParams(
            **model,  # type: ignore[arg-type]
            device=board,
            cores=(wanted.cores,),
            threads=(wanted.threads,),
            seconds=wanted.minutes * 60,
            layers=True,
            fix_clocks=wanted.fix_clocks,
        )

    def start(self, board: str, model: dict[str, object]) -> None:
        """Measure a model on a board with what is set."""
        params = self.asked(board, model)
        if not self._owner.workbench.asks_first(DEVICES_PERF.name, params):
            self.forget()
            self._before = 0.0
            self._go(params)

    def _go(self, params: PerfParams) -> None:
        self.waiting = False
        self.begin(DEVICES_PERF, params, f"perf on {sanitize(str(params.device), 80)}")

    def set(self, settings: RunSettings) -> None:
        """Measure so from the next run on."""
        self.settings = settings
        self.tell()

    def stop(self, then: Callable[[], None] = lambda: None) -> None:
        self.waiting = False
        super().stop(then)

    def drop(self, board: str) -> None:
        """A board goes: a run there ends, and what is said of it goes along."""
        if self.params is not None and self.params.device == board:
            self.stop()
            self.job = self.params = None
            self._owner.session.bench_is(None)
            self.forget()
            self._changed(True)

    def _tell(self) -> None:
        if self.params is not None:
            fps = None if self.point is None else self.point.frames_per_second
            label = "" if self.answer is None else self.answer.label
            board = str(self.params.device)
            self._owner.session.bench_is(Bench(board, fps, label, self.going, self.error))
        timed, self._timed = self._timed, False
        self._changed(timed)

    def take(self, event: Partial) -> None:
        if (look := PERF_LOOK.of(event)) is None:
            return
        self.look, self.error = look, ""
        for name, show, value in (
            ("FPS", RATE.text, look.frames_per_second),
            ("p99 ms", MILLISECONDS.text, look.p99 / 1000),
            ("warmest zone", CELSIUS.text, max(look.celsius.values(), default=None)),
            ("NPU clock", CLOCK.text, look.clocks.get("NPU")),
        ):
            if value is not None:
                self.curve.setdefault(name, Track(show, whole=True)).add(value)
        for row in look.layers:
            self.layers.setdefault(row.number, Track(str, whole=True)).add(row.microseconds)
            self._timed = True

    def took(self, job: JobView, result: object) -> None:
        self._timed = True
        if isinstance(result, Performance):
            self.result, self.error = result, ""
        elif job.state == "failed":
            self._failed(job.error or {})

    def _failed(self, error: Any) -> None:
        self.error = error_text(error)
        left = self.params.seconds - (0.0 if self.look is None else self.look.at)
        lost = error.get("kind") in _LOST and not self._ending
        if lost and self.at > 0 and left > 1:
            self._before, self.look = self.at, None
            self.waiting, self._lost_at = True, time.monotonic()
            self.params = replace(self.params, seconds=left)
            self.error += f" What was measured is kept; it goes on when the board is back, \
{key_text('bench.run')} stops."
            text = f"The board is lost: {error.get('what', '')}"
            self._owner.notify(text, severity="warning", markup=False)

    def seen(self, devices: Sequence[Device]) -> None:
        """The list was looked at: go on where the board is back."""
        back = any(one.id == self.params.device and one.usable for one in devices)
        if back and time.monotonic() > self._lost_at + RETRY_SECONDS:
            self._go(self.params)
