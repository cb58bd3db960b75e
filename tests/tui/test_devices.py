"""Workspace Devices by keys alone, over a list of boards that the test makes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import DeviceError, JobCancelledError, UsageError, WorkerError
from engine.base.findings import Finding
from engine.wire.board import (
    About,
    BoardFacts,
    BoardState,
    SystemMemory,
    Temperature,
    VersionRow,
)
from engine.wire.devices import EXAMINED, Device, DeviceListParams, ExamineParams, Listing
from engine.wire.doctor import Check, Checks
from engine.wire.monitor import BOARD, NOTE, SAMPLE, BoardNote, BoardSample
from rknntui.app import Workbench
from rknntui.bridge import Bridge
from rknntui.screens.bench.workspace import Devices
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session
from rknntui.workspaces import keys_of
from tests.tui.conftest import screen_text, settle, until
from tests.tui.flow import choose_path, model_view

SIZE = (80, 24)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("no_engine")]

READY = Device("adb:ready1", "adb", "ready", "The board ready1 is ready.", model="rk3588_evb")
LOCKED = Device(
    "adb:locked",
    "adb",
    "unauthorized",
    "The board locked does not know this machine.",
    cause="Its screen asks whether it trusts this machine.",
    remedy="Confirm it there.",
)
ABOUT = About(
    BoardFacts("adb:ready1", "emulated", "RK3588", "an EVB", "ready1", "Debian 11", "5.10", 3),
    BoardState(
        npu_load=(10.0, 0.0, 50.0),
        npu_clock=1_000_000_000,
        temperatures=(Temperature("npu-thermal", 45.2),),
        memory=SystemMemory(8 << 30, 6 << 30),
        missing=(("ddr_clock", "this kernel has no node for it"),),
    ),
    (VersionRow("driver", "0.9.8"), VersionRow("runtime", note="there is none")),
    (Check("chip", "bad", "the model is for rk3566", "compile it for rk3588"),),
)


class Answers:
    """What the worker would say; a test changes it."""

    def __init__(self) -> None:
        self.listing: Listing | Exception = Listing((LOCKED, READY))
        self.asked: list[tuple[str, Any]] = []
        self.of: dict[str, Any] = {"board.about": ABOUT}

    def times(self, method: str) -> int:
        return sum(name == method for name, _ in self.asked)

    async def call(self, bridge: Bridge, method: Any, params: Any) -> Any:
        self.asked.append((method.name, params))
        answer = self.of.get(method.name)
        if method.name == "devices.list":
            answer = self.listing
            if isinstance(params, DeviceListParams) and isinstance(answer, Listing):
                if any(" " in address for address in params.ssh):
                    raise UsageError("It is not the address of a board.")
                named = [Device(n, "ssh", "not asked", "Not asked yet.") for n in params.ssh]
                answer = replace(answer, devices=(*answer.devices, *named))
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None, method.name
        return answer


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    told = Answers()

    async def call(bridge: Bridge, method: Any, params: Any) -> Any:
        return await told.call(bridge, method, params)

    monkeypatch.setattr(Bridge, "call", call)
    return told


async def devices(pilot: Any) -> Devices:
    await pilot.press(keys_of("bench")[0])
    await until(pilot, lambda: isinstance(pilot.app.workspace, Devices), "Devices")
    workspace = pilot.app.workspace
    assert isinstance(workspace, Devices)
    return workspace


async def test_boards_are_listed_with_their_state_and_its_remedy(answers: Answers) -> None:
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await devices(pilot)
        await until(pilot, lambda: "2 boards, 1 ready" in screen_text(app), "the list")
        text = screen_text(app)
        assert "✗ unauthorized" in text
        assert "✓ ready" in text
        assert "Fix: Confirm it there." in text
        await pilot.press("enter")
        assert app.session.board is None, "what is not ready is not used"
        await pilot.press("down")
        await until(pilot, lambda: "Debian 11" in screen_text(app), "what the board is")
        await pilot.press("enter")
        await until(pilot, lambda: "used in Run: adb:ready1" in screen_text(app), "it is used")
        assert app.session.board == "adb:ready1"
        assert app.session.device == READY


async def test_what_a_board_is_stands_below_it_with_why_something_is_missing(
    answers: Answers,
) -> None:
    answers.listing = Listing((READY,))
    app = Workbench(state_kept=False)
    async with app.run_test(size=(120, 60)) as pilot:
        await devices(pilot)
        await until(pilot, lambda: "Debian 11" in screen_text(app), "what the board is")
        text = screen_text(app)
        for told in (
            "RK3588, 3 NPU cores",
            "State now  emulated",
            "10 %, 0 %, 50 %",
            "1000 MHz",
            "this kernel has no node for it",
            "npu-thermal 45.2 °C",
            "8.00 GiB in all, 6.00 GiB free",
            "0.9.8",
            "there is none",
            "✗ chip: the model is for rk3566",
            "Fix: compile it for rk3588",
        ):
            assert told in text, told
        answers.of["board.about"] = DeviceError("It went away.", remedy="Plug it in.")
        await pilot.press("r")
        await until(pilot, lambda: "✗ It went away. Plug it in." in screen_text(app), "why not")


@pytest.mark.long
async def test_what_a_board_told_of_the_former_model_is_asked_again(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers.listing = Listing(())
    arrived = asyncio.Event()

    async def call(bridge: Bridge, method: Any, params: Any) -> Any:
        if method.name == "graph":
            raise JobCancelledError("Nobody looks at the graph in this test.")
        told = await answers.call(bridge, method, params)
        if method.name == "board.about":
            await arrived.wait()
            name = Path(params.model).stem
            told = replace(told, fit=(Check("chip", "bad", f"{name} is for rk3566"),))
        return told

    monkeypatch.setattr(Bridge, "call", call)
    app = Workbench(state_kept=False)
    async with app.run_test(size=(120, 60)) as pilot:
        await devices(pilot)
        app.session.model_opened(model_view("one.rknn", kind="rknn"), "one.rknn")
        answers.listing = Listing((READY,))
        await until(pilot, lambda: answers.times("board.about") == 1, "it is asked")
        app.session.model_opened(model_view("two.rknn", kind="rknn"), "two.rknn")
        arrived.set()
        await until(pilot, lambda: "two is for rk3566" in screen_text(app), "its answer")
        assert "one is for" not in screen_text(app)
        models = [params.model for name, params in answers.asked if name == "board.about"]
        assert models == ["one.rknn", "two.rknn"]


async def test_without_a_model_the_open_recipes_chip_is_held_against_the_board(
    answers: Answers,
) -> None:
    answers.listing = Listing((READY,))
    app = Workbench(state_kept=False)
    async with app.run_test(size=(120, 60)) as pilot:
        await devices(pilot)
        await until(pilot, lambda: "Fit of the open recipe" in screen_text(app), "the answer")
        asked = answers.times("board.about")
        app.session.set_value("target_platform", "rk3562")
        await until(pilot, lambda: answers.times("board.about") > asked, "it is asked again")
        chips = [params.chip for name, params in answers.asked if name == "board.about"]
        assert chips[-1] == "rk3562"


async def test_it_looks_only_while_it_is_shown_and_the_cursor_stays_on_its_board(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rknntui.screens.bench.boards.POLL_SECONDS", 0.2)
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await devices(pilot)
        await until(pilot, lambda: "2 boards" in screen_text(app), "the list")
        await pilot.press("down")
        assert workspace.device == READY
        answers.listing = Listing((Device("adb:a", "adb", "offline", "Off."), LOCKED, READY))
        await until(pilot, lambda: "3 boards" in screen_text(app), "the next look")
        assert workspace.device == READY
        answers.listing = WorkerError("The worker ended.")
        await until(pilot, lambda: "✗ The worker ended." in screen_text(app), "no answer")
        answers.listing = Listing((READY,))
        await until(pilot, lambda: "1 board, 1 ready" in screen_text(app), "an answer again")
        await pilot.press("1")
        await settle(pilot)
        assert not workspace._looking.active, "nobody looks while it is hidden"


@pytest.mark.parametrize("size", [SIZE, (200, 60)])
async def test_a_hostile_board_is_shown_as_text(answers: Answers, size: tuple[int, int]) -> None:
    evil = "[bold red]x[/]\x1b[31m" + "n" * 300
    answers.listing = Listing(
        (replace(READY, id="adb:" + evil, model=evil, what=evil, warnings=(evil,)),),
        (Finding("odd", "warning", evil, evil, evil, evil),),
    )
    facts = replace(ABOUT.facts, model=evil, system=evil, kernel=evil)
    answers.of["board.about"] = replace(
        ABOUT, facts=facts, versions=(VersionRow(evil, evil, evil, evil),)
    )
    app = Workbench(state_kept=False)
    async with app.run_test(size=size) as pilot:
        workspace = await devices(pilot)
        await until(pilot, lambda: "Versions" in workspace.pane.text(), "what it is")
        await pilot.press("tab", "G")
        await settle(pilot)
        assert "[bold red]x[/]" in workspace.pane.text()
        assert "adb:[bold" in screen_text(app)
        assert "\x1b" not in screen_text(app)
        assert len(screen_text(app).splitlines()) == size[1]


@pytest.mark.long
async def test_boards_over_ssh_are_added_kept_and_removed(answers: Answers) -> None:
    app = Workbench()
    async with app.run_test(size=SIZE) as pilot:
        workspace = await devices(pilot)
        await until(pilot, lambda: "2 boards" in screen_text(app), "the list")
        await pilot.press("a", *"a b", "enter")
        await until(pilot, lambda: type(app.screen).__name__ == "ErrorDialog", "it is refused")
        await pilot.press("escape", "a", *"pi", "enter")
        await until(pilot, lambda: workspace.device is not None, "a board")
        await until(pilot, lambda: "? not asked" in screen_text(app), "the new board")
        assert workspace.device is not None
        assert workspace.device.id == "ssh:pi"
        assert not answers.times("board.about"), "nobody logs in unasked"
        await pilot.press("enter")
        await until(pilot, lambda: app.session.board == "ssh:pi", "it is used")
        await pilot.press("q")
    again = Workbench()
    assert again.session.ssh_boards == ("ssh:pi",)
    assert again.session.board == "ssh:pi"
    async with again.run_test(size=SIZE) as pilot:
        workspace = await devices(pilot)
        await until(pilot, lambda: "ssh:pi" in screen_text(again), "it is still there")
        await until(pilot, lambda: workspace.table.select_record("id", "ssh:pi"), "its row")
        await pilot.press("delete")
        await until(pilot, lambda: not again.session.ssh_boards, "it is removed")
        assert again.session.board is None


async def test_of_kept_boards_only_those_that_are_refused_are_dropped(answers: Answers) -> None:
    app = Workbench(state_kept=False)
    app.session.ssh_boards = ("ssh:pi", "ssh:a b", "ssh:pa", "ssh:c d")
    async with app.run_test(size=SIZE) as pilot:
        await devices(pilot)
        await until(pilot, lambda: "4 boards, 1 ready" in screen_text(app), "the list")
        assert app.session.ssh_boards == ("ssh:pi", "ssh:pa")
        answers.listing = WorkerError("The worker ended.")
        await until(pilot, lambda: "✗ The worker ended." in screen_text(app), "no answer")
        assert app.session.ssh_boards == ("ssh:pi", "ssh:pa")


async def test_an_empty_list_says_what_to_do_and_the_server_is_started(answers: Answers) -> None:
    no_server = Finding("adb-server", "warning", "adb", "There is no adb server.", "", "Start it.")
    answers.listing = Listing((), (no_server,))
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await devices(pilot)
        await until(pilot, lambda: "No board was found." in screen_text(app), "what to do")
        text = screen_text(app)
        assert "rknntui devices emulate rk3588" in text
        assert "There is no adb server." in text
        assert "t Start adb" in text.splitlines()[-1]
        await pilot.press("t")
        await until(pilot, lambda: any(p.start_server for _, p in answers.asked), "it is started")


class Watches:
    """In the place of the worker's jobs: what was started, and what they tell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[JobView] = []
        self.params: list[Any] = []
        self.discarded: list[str] = []
        self.taken = asyncio.Event()
        """Cleared by a test: the worker has not taken the jobs yet."""
        self.taken.set()
        self.refused: Exception | None = None
        watches = self

        async def submit(
            bridge: Bridge, method: Any, params: Any, title: str, *, quiet: bool = False
        ) -> JobView:
            number = len(watches.jobs)
            view = JobView(f"job{number}", method.name, title, 0.0, background=True, quiet=quiet)
            watches.jobs.append(view)
            watches.params.append(params)
            await watches.taken.wait()
            if watches.refused is not None:
                raise watches.refused
            bridge._session.job_started(view)
            return view

        def finish(bridge: Bridge, job_id: str) -> None:
            watches.end(bridge._session, bridge._session.jobs[job_id], "done")

        monkeypatch.setattr(Bridge, "submit", submit)
        monkeypatch.setattr(Bridge, "finish", finish)
        monkeypatch.setattr(Bridge, "discard", lambda bridge, job: self.discarded.append(job))

    def end(self, session: Session, view: JobView, state: str, result: object = None) -> None:
        view.state = state
        session.job_ended(view, result)

    def tell(self, session: Session, *pieces: BoardFacts | BoardSample) -> None:
        for piece in pieces:
            self.jobs[-1].apply(
                BOARD.event(piece) if isinstance(piece, BoardFacts) else SAMPLE.event(piece)
            )
        session.job_changed(self.jobs[-1])


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> Watches:
    return Watches(monkeypatch)


def sample(at: float, load: float, device: str = READY.id) -> BoardSample:
    return BoardSample(device, at, replace(ABOUT.state, npu_load=(load, 0.0, 50.0)))


async def test_the_doctor_tells_each_step_and_its_commands_are_copied(
    answers: Answers, watches: Watches
) -> None:
    answers.listing = Listing((READY,))
    checks = (
        Check("transport", "ok", "adb"),
        Check("driver", "bad", "it is older than the runtime", "Update it.", ("adb reboot",)),
        Check("memory", "skipped", "there is no driver"),
    )
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await devices(pilot)
        await until(pilot, lambda: "1 ready" in screen_text(app), "the list")
        await pilot.press("v")
        await until(pilot, lambda: "settings and system files" in screen_text(app), "what it does")
        await pilot.press("r")
        await until(pilot, lambda: "examining…" in screen_text(app), "it begins")
        assert watches.params == [ExamineParams(READY.id)]
        watches.jobs[0].apply(EXAMINED.event(checks[0]))
        app.session.job_changed(watches.jobs[0])
        await until(pilot, lambda: "✓ transport: adb" in screen_text(app), "the first step")
        watches.end(app.session, watches.jobs[0], "done", Checks(checks))
        await until(pilot, lambda: "1 problem" in screen_text(app), "what it found")
        text = screen_text(app)
        assert "✗ driver: it is older than the runtime" in text
        assert "– memory: there is no driver" in text
        assert "Fix: Update it." in text
        await pilot.press("Y")
        assert app.clipboard == "rknntui doctor --device adb:ready1"
        await pilot.press("tab")
        assert workspace.doctor.has_focus
        await pilot.press("down", "down", "down", "down", "y")
        assert app.clipboard == "adb reboot"
        await pilot.press("r")
        await until(pilot, lambda: len(watches.jobs) == 2, "once more")
        watches.jobs[1].error = DeviceError("It went away.").to_dict()
        watches.end(app.session, watches.jobs[1], "failed")
        await until(pilot, lambda: "✗ It went away." in screen_text(app), "why not")


async def test_a_board_is_watched_with_extremes_and_why_it_was_lost(
    answers: Answers, watches: Watches
) -> None:
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await devices(pilot)
        await until(pilot, lambda: "2 boards" in screen_text(app), "the list")
        await pilot.press("down", "v", "v")
        await until(pilot, lambda: "watches the board" in screen_text(app), "what it does")
        await pilot.press("r")
        await until(pilot, lambda: "waiting for the board" in screen_text(app), "a watch")
        assert watches.params[0].devices == (READY.id,)
        assert app.session.running is None, "it is no job that one waits for"
        facts = ABOUT.facts
        watches.tell(app.session, facts, sample(0, 10), sample(1, 95), sample(2, 40))
        await until(pilot, lambda: "3 samples" in screen_text(app), "what it saw")
        lines = {line[:12].strip(): line for line in screen_text(app).splitlines()}
        assert "▁█▃" in lines["NPU core 0"]
        assert "40 %  min 10 % max 95 %" in lines["NPU core 0"]
        assert "1000 MHz" in lines["NPU clock"]
        assert "45.2 °C" in lines["temperature"]
        assert "2.00 GiB" in lines["memory used"]
        assert "no node for it" in lines["DDR clock"]
        assert "RK3588  emulated" in screen_text(app)
        watches.tell(app.session, BoardSample(READY.id, 3, None, "It was unplugged; it is tried."))
        await until(pilot, lambda: "✗ It was unplugged" in screen_text(app), "why")
        assert "3 samples, 1 missed" in screen_text(app)
        watches.jobs[-1].apply(NOTE.event(BoardNote(READY.id, "It is asked less often.")))
        watches.tell(app.session)
        await until(pilot, lambda: "! It is asked less often." in screen_text(app), "a note")
        await pilot.press("p")
        watches.tell(app.session, sample(4, 20))
        await settle(pilot)
        assert "paused" in screen_text(app)
        assert "✗ It was unplugged" in screen_text(app), "it is held"
        await pilot.press("p")
        await until(pilot, lambda: "4 samples" in screen_text(app), "what came meanwhile")
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running, "nothing is asked")


@pytest.mark.long
async def test_marked_boards_are_watched_at_another_rate_and_recorded(
    answers: Answers, watches: Watches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = replace(READY, id="adb:other")
    answers.listing = Listing((other, READY))
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await devices(pilot)
        await until(pilot, lambda: "2 boards" in screen_text(app), "the list")
        await pilot.press("v", "v", "space", "down", "space", "plus", "plus", "r")
        await until(pilot, lambda: watches.jobs, "a watch")
        assert watches.params[0].devices == (other.id, READY.id)
        assert watches.params[0].hertz == 5
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui monitor --device adb:other --device adb:ready1")
        await pilot.press("minus")
        await until(pilot, lambda: len(watches.jobs) == 2, "the watch at the other rate")
        assert watches.jobs[0].state == "done"
        assert watches.params[1].hertz == 2
        watches.tell(app.session, sample(0, 1), sample(0, 2, other.id))
        await until(pilot, lambda: screen_text(app).count("1 samples") == 2, "both")
        await pilot.press("w")
        await choose_path(pilot, tmp_path / "seen.jsonl")
        await until(pilot, lambda: "recording to seen.jsonl" in screen_text(app), "a recording")
        assert watches.params[2].record == str(tmp_path / "seen.jsonl")
        assert workspace.disabled_reason("faster")
        await pilot.press("r")
        await until(pilot, lambda: "recorded in" in screen_text(app), "its end")
        (tmp_path / "seen.jsonl").write_text("x")
        await pilot.press("R")
        await choose_path(pilot, tmp_path / "seen.jsonl")
        await until(pilot, lambda: "replay seen.jsonl" in screen_text(app), "it is shown again")
        watches.tell(app.session, sample(0, 77))
        await until(pilot, lambda: "77 %" in screen_text(app), "what was recorded")
        watches.end(app.session, watches.jobs[-1], "done")
        await until(pilot, lambda: "end of the recording" in screen_text(app), "its end")


async def test_a_watch_that_failed_says_why(answers: Answers, watches: Watches) -> None:
    answers.listing = Listing((READY,))
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await devices(pilot)
        await until(pilot, lambda: "1 ready" in screen_text(app), "the list")
        await pilot.press("v", "v", "r")
        await until(pilot, lambda: watches.jobs, "a watch")
        watches.jobs[0].error = DeviceError("The disk is full.", remedy="Make room.").to_dict()
        watches.end(app.session, watches.jobs[0], "failed")
        await until(pilot, lambda: "✗ The disk is full. Make room." in screen_text(app), "why")


async def test_keys_that_come_before_the_worker_leave_one_watch_or_none(
    answers: Answers, watches: Watches
) -> None:
    answers.listing = Listing((READY,))
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await devices(pilot)
        await until(pilot, lambda: "1 ready" in screen_text(app), "the list")
        monitor = workspace.monitor
        watches.taken.clear()
        await pilot.press("v", "v", "r")
        await until(pilot, lambda: len(watches.jobs) == 1, "a watch is asked for")
        assert "starting" in screen_text(app)
        await pilot.press("plus")
        await until(pilot, lambda: len(watches.jobs) == 2, "one at the other rate")
        watches.taken.set()
        await until(pilot, lambda: monitor.running, "the watch")
        assert [params.hertz for params in watches.params] == [1, 2]
        assert monitor.job is watches.jobs[1]
        assert watches.discarded == ["job0"]
        await pilot.press("r")
        assert not monitor.going
        watches.taken.clear()
        await pilot.press("r")
        await until(pilot, lambda: len(watches.jobs) == 3, "one more is asked for")
        await pilot.press("r")
        assert not monitor.going
        watches.taken.set()
        await until(pilot, lambda: watches.discarded == ["job0", "job2"], "it is not wanted")
        assert not monitor.running
        watches.refused = DeviceError("There is no worker.")
        await pilot.press("r")
        await until(pilot, lambda: type(app.screen).__name__ == "ErrorDialog", "it is refused")
        assert not monitor.going
