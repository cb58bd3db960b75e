"""The list of boards, kept fresh, and the watch of boards: their figures over time."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from engine import EMULATED_CHIPS, sanitize
from engine.wire.codec import encode
from engine.wire.devices import (
    DEVICES_ADD,
    DEVICES_EXAMINE,
    DEVICES_LIST,
    DEVICES_REMOVE,
    AddBoardParams,
    Device,
    DeviceListParams,
    ExamineParams,
    Listing,
    NamedBoard,
)
from engine.wire.flags import words_of
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
from rknntui.screens.bench.tracks import BoardTrack
from rknntui.screens.dialogs.picker import PathPicker, ask_new_file
from rknntui.screens.dialogs.request import Form

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.timer import Timer

    from rknntui.screens.base.workspace import Workspace
    from rknntui.screens.bench.workspace import Bench
    from rknntui.session.job_view_model import JobView

POLL_SECONDS = 1.0
_ADDRESS = re.compile(r"ssh:[\w.@:%\[\]-]{1,300}")
NEW_BOARD = Form("Add a board", (AddBoardParams,))


class Looking:
    """Keeps ``session.boards.listing`` fresh while its workspace is shown.

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
        params = DeviceListParams(self._owner.session.boards.over_ssh, start_server)
        self._owner.ask(DEVICES_LIST, params, self._listed, failed=self._failed)

    def _listed(self, listing: Listing) -> None:
        trouble, self._waiting, self.trouble = self.trouble, False, ""
        before, self._owner.session.boards.listing = self._owner.session.boards.listing, listing
        if listing != before or trouble:
            self._changed()

    def _failed(self, error: Exception) -> None:
        session = self._owner.session
        named = tuple(name for name in session.boards.over_ssh if _ADDRESS.fullmatch(name))
        if getattr(error, "kind", "") == "usage" and named != session.boards.over_ssh:
            session.boards.over_ssh = named  # of a state file that was changed by hand
            self._owner.notify("What is no address of a board was removed.", severity="warning")
            self._ask(False)
        else:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        self._waiting = False
        trouble = str(getattr(error, "what", error))
        if trouble != self.trouble:
            self.trouble = trouble
            self._changed()

    # -- boards that the user names ----------------------------------------------------------------

    def ask_board(self, then: Callable[[str], object]) -> None:
        """Ask which board to add; ``then`` is called with its id."""
        session = self._owner.session
        chip = session.chip if session.chip in EMULATED_CHIPS else "rk3588"
        now = AddBoardParams("adb" if session.boards.devices else "emulated", chip=chip)
        NEW_BOARD.ask(
            self._owner.app,
            now,
            then=lambda params: self._add(params, then),
            check=_addressed,
            choices={"chip": EMULATED_CHIPS},
        )

    def _add(self, params: AddBoardParams, then: Callable[[str], object]) -> None:
        owner, session = self._owner, self._owner.session

        def added(board: NamedBoard) -> None:
            if params.over == "ssh":
                session.boards.add(board.device)
            owner.workbench.save_state()
            for note in board.notes:
                owner.notify(note, severity="warning", timeout=15, markup=False)
            then(board.device)
            self._ask(False)

        if params.over == "emulated":
            owner.notify(f"Starting an emulated {params.chip}…", markup=False)
        owner.ask(DEVICES_ADD, params, added)

    def forget(self, device: Device) -> None:
        """Let a board on the network go; an emulated one ends."""
        self._owner.session.boards.forget(device.id)
        self._owner.workbench.save_state()
        self._owner.ask(DEVICES_REMOVE, NamedBoard(device.id), lambda _: self._ask(False))


def _addressed(params: AddBoardParams) -> AddBoardParams:
    """The same; ValueError where there is no address and it needs one, or one that it lacks."""
    if params.over != "emulated" and not params.address.strip():
        raise ValueError("address: it is needed, as 192.168.0.7:5555 or pi@board.")
    if params.over == "emulated" and params.address.strip():
        raise ValueError("address: an emulated board has none; it is over adb or ssh.")
    return params


async def examine(bench: Bench, device: str) -> None:
    """Examine a board with the open model, in place of what is being examined.

    Raises:
        EngineError: there is no worker.
    """
    pane, bridge = bench.views.examined, bench.bridge
    for job_id in pane.running:
        bridge.discard(job_id)
    test = bench.file is not None and not bench.run.going  # a board runs one model at a time
    params = ExamineParams(device, bench.file, test, bench.chip)
    title = f"examine {sanitize(device, 80)}"
    pane.follow(device, await bridge.submit(DEVICES_EXAMINE, params, title, quiet=True))


# Why a key cannot act now.

_ON_BOARD = ("use", "run", "mark", "watch", "record", "examine", "compare")


def reason(bench: Bench, method: str) -> str:
    """Why an action of Bench cannot run now, keys as in help texts; empty when it can."""
    device, watch, session, runs = bench.device, bench.watch_job, bench.session, bench.views.runs
    if method in ("run", "edit", "watch") and (bench.run.going or watch.now is not None):
        return ""
    if method == "compare" and bench.view == "Runs":
        return "" if runs.pair else "there are no two runs ({bench.run} measures)."
    if method in _ON_BOARD and device is None and (method == "use" or not bench.board):
        return "no board is in the list ({bench.add} adds one)."
    if method in ("run", "compare") and session.model is None:
        return "no model is open ({app.open} opens one)."
    if method == "compare" and session.container is not None:
        return "a comparison needs the model itself, not its container; open the model."
    if method == "forget" and (device is None or not _removable(device)):
        return "only boards that were added ({bench.add}) are removed."
    served = all(notice.code != "adb-server" for notice in session.boards.notices)
    if method == "server" and served:
        return "the adb server is up, or there is none to start."
    if method == "pause" and not watch.running:
        return "nothing is watched ({bench.watch} watches)."
    if method in ("faster", "slower") and watch.recording:
        return "a recording has one rate; stop it first ({bench.watch})."
    if method in ("node", "drill") and not bench.views.layer_id:
        return "no layer of the build is under the cursor."
    return ""


def _removable(device: Device) -> bool:
    """Whether it is in the list because somebody named it, not plugged in."""
    return device.kind == "ssh" or (device.kind == "adb" and ":" in device.id[len("adb:") :])


# The job that watches boards or shows a recording; it goes on while other views are shown.

HERTZ = (1.0, 2.0, 5.0, 10.0)
"""Looks a second to choose from."""
LONGEST_SECONDS = 24 * 3600.0
"""A watch ends after a day: one whose workbench was killed does not go on for ever."""


class Watch:
    """Boards watched, or a recording shown again.

    Args:
        owner: whose job it is.
        changed: called when there is something else to show.

    Attributes:
        boards: what was seen of each; those of the watch before stay where they are watched again.
        job: of the newest watch.
        hertz: looks a second.
        paused: whether what is shown is held.
        end: why it goes on no more.
    """

    def __init__(self, owner: Workspace, changed: Callable[[], None]) -> None:
        self._owner, self._changed = owner, changed
        self.boards: dict[str, BoardTrack] = {}
        self.job: JobView | None = None
        self.hertz = HERTZ[0]
        self.paused = self._stopping = False
        self.at, self.end = 0.0, ""
        self._wanted: WatchParams | ReplayParams | None = None  # until the worker has taken it
        self._what: WatchParams | ReplayParams | None = None
        self._seen = 0

    @property
    def running(self) -> bool:
        """Whether a watch or a recording goes on."""
        return self.job is not None and self.job.running and not self._stopping

    @property
    def now(self) -> WatchParams | ReplayParams | None:
        """What is being started, else what goes on."""
        return self._wanted or (self._what if self.running else None)

    @property
    def recording(self) -> str:
        """The file that is being written; empty for none."""
        return (self.now.record or "") if isinstance(self.now, WatchParams) else ""

    def watch(
        self, devices: Sequence[str], record: str | None = None, *, force: bool = False
    ) -> None:
        """Watch boards, from now on."""
        self.boards = {name: self.boards.get(name) or BoardTrack(name) for name in devices}
        params = WatchParams(tuple(devices), self.hertz, LONGEST_SECONDS, record, force)
        count = f"{len(devices)} boards" if len(devices) != 1 else devices[0]
        self._start(params, f"watch {sanitize(count, 80)}")

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
                self._start(ReplayParams(path), f"replay {sanitize(Path(path).name, 80)}")

        self._owner.app.push_screen(PathPicker("Show a recording"), chosen)

    def set_hertz(self, step: int) -> None:
        """Choose the next or the former rate; a watch goes on with it."""
        at = HERTZ.index(self.hertz) + step
        if not 0 <= at < len(HERTZ):
            return
        self.hertz = HERTZ[at]
        if isinstance(now := self.now, WatchParams):
            self.watch(now.devices)
        self._changed()

    def pause(self) -> None:
        """Hold what is shown, or go on; a recording waits meanwhile."""
        self.paused = not self.paused
        if isinstance(self._what, ReplayParams) and self.job is not None:
            self._owner.bridge.pause(self.job.id)
        if self.job is not None:
            self.told(self.job)  # what came meanwhile
        self._changed()

    def drop(self, board: str) -> None:
        """A board goes: a watch of it ends, and what that still tells is not taken."""
        if self.boards.pop(board, None) is not None:
            self.stop()
            self.job = None
            if self.boards:
                self.watch(tuple(self.boards))

    def stop(self) -> None:
        """Let it end in order: a recording is closed."""
        self._wanted = None
        if self.running and self.job is not None:
            self._owner.bridge.finish(self.job.id)
            self._stopping = True
        self._changed()

    def _start(self, params: WatchParams | ReplayParams, title: str) -> None:
        self._wanted = params
        self._owner.workbench.do(self._submit(params, title))
        self._changed()

    async def _submit(self, params: WatchParams | ReplayParams, title: str) -> None:
        bridge = self._owner.bridge
        if self._wanted is not params:  # another key came
            return
        if self.running and self.job is not None:
            bridge.finish(self.job.id)
            self._stopping = True
        try:
            if isinstance(params, WatchParams):
                job = await bridge.submit(MONITOR_WATCH, params, title, quiet=True)
            else:
                job = await bridge.submit(MONITOR_REPLAY, params, title, quiet=True)
        except BaseException:
            if self._wanted is params:
                self._wanted = None
                self._changed()
            raise
        if self._wanted is not params:  # meanwhile: the next one would wait behind this job
            bridge.discard(job.id)
            return
        self._wanted, self._what, self.job = None, params, job
        self._seen, self.at, self.end = 0, 0.0, ""
        self.paused = self._stopping = False
        # thousands of looks of a long watch are of no use twice
        job.partials = deque(job.partials, maxlen=1000)
        self.told(job)

    def told(self, job: JobView) -> None:
        """A job of the session moved on; take what it has told since where it is this one."""
        if self.job is not job or self.paused:
            return
        new = job.told - self._seen
        self._seen = job.told
        for event in list(job.partials)[-new:] if new else ():
            if (facts := BOARD.of(event)) is not None:
                self._of(facts.device).facts = facts
            elif (note := NOTE.of(event)) is not None:
                self._of(note.device).note = note.text
            elif (sample := SAMPLE.of(event)) is not None:
                self.at = sample.at
                self._of(sample.device).take(sample)
        self._changed()

    def _of(self, device: str) -> BoardTrack:
        return self.boards.setdefault(device, BoardTrack(device))

    def ended(self, job: JobView, result: object) -> None:
        """A job of the session is over."""
        if self.job is not job:
            return
        self.paused = False
        self.told(job)
        error = job.error if job.state == "failed" else None
        if error is not None:
            message = " ".join(str(error.get(part) or "") for part in ("what", "remedy"))
            self.end = f"✗ {sanitize(message.strip(), 500)}"
        elif isinstance(self._what, ReplayParams):
            self.end = "✓ end of the recording"
        elif isinstance(result, Monitored) and result.recorded:
            notes = " ".join(result.notes)
            self.end = f"✓ recorded in {sanitize(f'{result.recorded} {notes}'.strip(), 300)}"
        elif isinstance(self._what, WatchParams) and self._what.record:
            self.end = f"✓ recorded in {sanitize(self._what.record, 300)}"
        else:
            self.end = ""
        self._changed()

    def command(self, devices: Sequence[str]) -> list[str]:
        """The command line that shows the same: what goes on, or a watch of ``devices``."""
        now = self.now
        if not isinstance(now, ReplayParams):
            now = WatchParams(tuple(devices), self.hertz, record=self.recording or None)
        return ["rknntui", "monitor", *words_of(type(now), encode(now))]
