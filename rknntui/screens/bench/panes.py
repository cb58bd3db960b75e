"""The views Monitor and Doctor: boards watched or replayed, and a board examined."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from engine import sanitize
from engine.wire.devices import EXAMINED
from engine.wire.doctor import Checks
from engine.wire.monitor import (
    BOARD,
    MONITOR_REPLAY,
    MONITOR_WATCH,
    NOTE,
    SAMPLE,
    Monitored,
    ReplayParams,
    WatchParams,
)
from rknntui.keys.actions import key_text
from rknntui.screens.bench.boards import BoardTrack, Track
from rknntui.screens.bench.words import check_lines
from rknntui.widgets.charts import bars
from rknntui.widgets.findings import wrapped
from rknntui.widgets.line_list import SidePane, TextRows
from rknntui.widgets.one_line import Fact, FactsLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine import Event
    from engine.wire.doctor import Check
    from engine.wire.method import Task
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

HERTZ = (1.0, 2.0, 5.0, 10.0)
"""Looks a second to choose from."""
LONGEST_SECONDS = 24 * 3600.0
"""A watch ends after a day: one whose workbench was killed does not go on for ever."""
_NAME, _NOW, _SPAN = 12, 11, 34
"""Cells of a name, of the figure of now, and of the extremes so far."""
_ROOMY = 72
_TRACE = 1e-9


class MonitorPane(Vertical):
    """Shows what a watch or a recording tells; its job is started and stopped by the workspace.

    Attributes:
        wanted: what is being started; None where nothing is. A newer one takes its place.
    """

    DEFAULT_CSS = """
    MonitorPane { height: 1fr; }
    MonitorPane TextRows { height: 1fr; padding: 0 1; }
    """

    class Wanted(Message):
        """A job is to be started in place of the one that runs."""

        def __init__(self, task: Task, params: WatchParams | ReplayParams, title: str) -> None:
            super().__init__()
            self.task = task
            self.params = params
            self.title = title

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.boards: dict[str, BoardTrack] = {}
        self.job: JobView | None = None
        self.hertz = HERTZ[0]
        self.paused = False
        self.stopping = False
        self.wanted: MonitorPane.Wanted | None = None
        self._asked: WatchParams | ReplayParams | None = None  # whose are ``boards``
        self._what: WatchParams | ReplayParams | None = None
        self._seen = 0
        self._at = 0.0
        self._end = ""

    def compose(self) -> ComposeResult:
        yield FactsLine(id="monitor-facts")
        yield TextRows(id="monitor-rows")

    def on_mount(self) -> None:
        self.rows.SHOW_CURSOR = False
        self.draw()

    def on_resize(self) -> None:
        """More or fewer looks fit."""
        self.call_after_refresh(self.draw)

    rows = getters.query_one("#monitor-rows", TextRows)
    """The sparklines."""

    # -- what is watched -----------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether a watch or a recording goes on."""
        return self.job is not None and self.job.running and not self.stopping

    @property
    def going(self) -> bool:
        """The same, or one is being started."""
        return self.running or self.wanted is not None

    @property
    def _now(self) -> WatchParams | ReplayParams | None:
        """What is being started, else what goes on."""
        if self.wanted is not None:
            return self.wanted.params
        return self._what if self.running else None

    @property
    def recording(self) -> str:
        """The file that is being written; empty for none."""
        what = self._now
        return (what.record or "") if isinstance(what, WatchParams) else ""

    @property
    def replaying(self) -> bool:
        """Whether it is a recording that goes on."""
        return self.running and isinstance(self._what, ReplayParams)

    def command(self, devices: Sequence[str]) -> list[str]:
        """The command line that shows the same: what goes on, or a watch of ``devices``."""
        what = self._now
        if isinstance(what, ReplayParams):
            return ["rknntui", "monitor", "--replay", what.path]
        names = [word for name in devices for word in ("--device", name)]
        record = ["--record", self.recording] if self.recording else []
        return ["rknntui", "monitor", *names, "--hz", f"{self.hertz:g}", *record]

    def watch_boards(
        self, devices: Sequence[str], record: str | None = None, *, force: bool = False
    ) -> None:
        """Watch boards, from now on."""
        if not isinstance(self._asked, WatchParams) or self._asked.devices != tuple(devices):
            self.boards = {name: BoardTrack(name) for name in devices}
        params = WatchParams(tuple(devices), self.hertz, LONGEST_SECONDS, record, force)
        count = f"{len(devices)} boards" if len(devices) != 1 else devices[0]
        self._want(self.Wanted(MONITOR_WATCH, params, f"watch {sanitize(count, 80)}"))

    def replay(self, path: str) -> None:
        """Show a recording."""
        self.boards = {}
        title = f"replay {sanitize(Path(path).name, 80)}"
        self._want(self.Wanted(MONITOR_REPLAY, ReplayParams(path), title))

    def _want(self, request: Wanted) -> None:
        self.wanted, self._asked = request, request.params
        self.post_message(request)
        self.draw()

    def set_hertz(self, step: int) -> None:
        """Choose the next or the former rate; a watch goes on with it."""
        at = HERTZ.index(self.hertz) + step
        if not 0 <= at < len(HERTZ):
            return
        self.hertz = HERTZ[at]
        if isinstance(what := self._now, WatchParams):
            self.watch_boards(what.devices)
        self.draw()

    def follow(self, job: JobView, what: WatchParams | ReplayParams) -> None:
        """Its job was started."""
        self.job, self._what = job, what
        self._seen, self._at, self._end = 0, 0.0, ""
        self.paused = self.stopping = False
        # thousands of looks of a long watch are of no use twice
        job.partials = deque(job.partials, maxlen=1000)
        self.changed(job)

    def changed(self, job: JobView) -> None:
        """Take what the job has told since."""
        if self.job is not job:
            return
        new = job.told - self._seen
        self._seen = job.told
        for event in list(job.partials)[-new:] if new else ():
            self.take(event)
        if not self.paused:
            self.draw()

    def take(self, event: Event) -> None:
        """Take a piece of a watch."""
        if (facts := BOARD.of(event)) is not None:
            self._of(facts.device).facts = facts
        elif (note := NOTE.of(event)) is not None:
            self._of(note.device).note = note.text
        elif (sample := SAMPLE.of(event)) is not None:
            self._at = sample.at
            self._of(sample.device).take(sample)

    def _of(self, device: str) -> BoardTrack:
        return self.boards.setdefault(device, BoardTrack(device))

    def ended(self, job: JobView, result: object) -> None:
        """The job is over."""
        if self.job is not job:
            return
        self.changed(job)
        self.paused = False
        error = job.error if job.state == "failed" else None
        if error is not None:
            message = " ".join(str(error.get(part) or "") for part in ("what", "remedy"))
            self._end = f"✗ {sanitize(message.strip(), 500)}"
        elif isinstance(self._what, ReplayParams):
            self._end = "✓ end of the recording"
        elif isinstance(result, Monitored) and result.recorded:
            notes = " ".join(result.notes)
            self._end = f"✓ recorded in {sanitize(f'{result.recorded} {notes}'.strip(), 300)}"
        elif isinstance(self._what, WatchParams) and self._what.record:
            self._end = f"✓ recorded in {sanitize(self._what.record, 300)}"
        else:
            self._end = "stopped"
        self.draw()

    # -- drawing -------------------------------------------------------------------------------

    def draw(self) -> None:
        """All figures of now."""
        if not self.is_attached:
            return
        self.query_one("#monitor-facts", FactsLine).show(*self._facts())
        width = max(30, self.rows.scrollable_content_region.width)
        lines: list[Line] = []
        for board in self.boards.values():
            lines += [*([[]] if lines else []), *board_lines(board, width)]
        self.rows.set_lines(lines or self._empty(width), keep_cursor=True)

    def _facts(self) -> list[Fact]:
        start, rate = key_text("bench.run"), f"{self.hertz:g} Hz"
        if self.wanted is not None:
            return [Fact("starting…"), Fact(f"{start} stops", (), 3)]
        if not self.running:
            facts = [Fact(self._end)] if self._end else []
            return [*facts, Fact(f"{start} watches at {rate}", (rate,), 1)]
        held = f"paused ({key_text('bench.pause')} goes on)" if self.paused else ""
        if self.replaying:
            said = Fact(f"▶ {self.job.title if self.job else ''}", ("▶ replay",))
        else:
            said = Fact(f"▶ watching at {rate}", (f"▶ {rate}",))
        facts = [said, Fact(f"{round(self._at)} s", (), 2), *([Fact(held)] if held else [])]
        if self.recording:
            name = sanitize(Path(self.recording).name, 60)
            facts.append(Fact(f"recording to {name}", ("recording",)))
        return [*facts, Fact(f"{start} stops", (), 3)]

    def _empty(self, width: int) -> list[Line]:
        mark, record = key_text("bench.mark"), key_text("bench.record")
        text = (
            f"{key_text('bench.run')} watches the board under the cursor, or those marked with "
            f"{mark}; {key_text('bench.faster')} and {key_text('bench.slower')} change the "
            f"rate. {record} watches and records to a file, {key_text('bench.replay')} shows a "
            "recording again."
        )
        return wrapped(text, width, "dim")


def board_lines(board: BoardTrack, width: int) -> list[Line]:
    """A board's name and one line for each of its figures."""
    facts = board.facts
    what = [facts.chip, facts.label] if facts is not None else []
    missed = f", {board.missed} missed" if board.missed else ""
    count = f"{board.samples} samples{missed}"
    head: Line = [(sanitize(board.device, max(16, width - 30)), "head")]
    head += [(f"  {sanitize(part, 40)}", "dim") for part in (*what, count) if part]
    lines = [head]
    if board.problem:
        lines += wrapped(f"✗ {sanitize(board.problem, 400)}", width, "bad")
    elif not board.samples:
        lines.append([("waiting for the board…", "dim")])
    if board.note:
        lines += wrapped(f"! {sanitize(board.note, 400)}", width, "warn")
    lines += [_track_line(track, width) for track in board.tracks.values()]
    for name, reason in board.reasons.items():
        lines += [
            [(f"{name if at == 0 else '':<{_NAME}}", "dim"), *row]
            for at, row in enumerate(wrapped(sanitize(reason, 300), width - _NAME, "dim"))
        ]
    return lines


def _track_line(track: Track, width: int) -> Line:
    """Name, sparkline, the figure of now, and its extremes where there is room."""
    span = ""
    if track.minimum is not None and track.maximum is not None and width >= _ROOMY:
        span = f"  min {track.show(track.minimum)} max {track.show(track.maximum)}"
    room = max(8, width - _NAME - _NOW - (_SPAN if width >= _ROOMY else 0))
    values = list(track.values)[-room:]
    spark = "".join(
        " " if value is None else bars([max(value, _TRACE)], 1, track.full)[0] for value in values
    )
    now = "–" if track.now is None else track.show(track.now)
    return [
        (f"{track.name:<{_NAME}}", "dim"),
        (f"{spark:>{room}}", "accent"),
        (f"{now:>{_NOW}}", ""),
        (span, "dim"),
    ]


# The view Doctor: a board examined step by step; what would mend it is listed, never run.


@dataclass
class _Examination:
    """What was found so far; ``error`` says why there is no more."""

    job: JobView
    checks: list[Check] = field(default_factory=list)
    error: str = ""


class DoctorPane(SidePane):
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
        width = max(20, (self.scrollable_content_region.width or 40) - 1)
        self.set_lines(self._made(width), keep_cursor=keep_cursor)

    def _made(self, width: int) -> list[Line]:
        run, name = key_text("bench.run"), sanitize(self._shown, 80)
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
