"""Workspace Bench by keys alone, over a list of boards that the test makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import DeviceError, JobCancelledError, UsageError, WorkerError
from engine.base.errors import DeviceLostError
from engine.base.findings import Finding
from engine.wire.board import MemoryParams, MemoryReport, Power, Temperature, VersionRow
from engine.wire.devices import (
    EXAMINED,
    PERF_LOOK,
    BoardMemory,
    Device,
    ExamineParams,
    Listing,
    NamedBoard,
    PerfLook,
)
from engine.wire.doctor import Check, Checks
from engine.wire.measured import (
    KeptRun,
    KeptRuns,
    LayerChange,
    PointChange,
    RunPair,
    RunsCompared,
)
from engine.wire.monitor import NOTE, BoardNote, BoardSample
from rknntui.app import Workbench
from rknntui.bridge import Bridge
from rknntui.screens.bench.workspace import Bench
from rknntui.session.job_view_model import JobView
from rknntui.workspaces import keys_of
from tests.tui.bench_answers import (
    ABOUT,
    HEAD,
    LOCKED,
    READY,
    Answers,
    Watches,
    answers,
    perf_look,
    sample,
    watches,
)
from tests.tui.board_answers import ran
from tests.tui.conftest import Driver, driven, screen_text, settle, until, workbench
from tests.tui.flow import choose_path, model_view

__all__ = ["answers", "watches"]

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("answers", "watches")


@asynccontextmanager
async def bench(
    shown: str = "1 ready", **more: Any
) -> AsyncIterator[tuple[Workbench, Driver, Bench]]:
    """Bench, with the list of boards."""
    async with workbench(**more) as (app, pilot):
        await pilot.press(keys_of("bench")[0], sees=shown)
        assert isinstance(app.workspace, Bench)
        yield app, pilot, app.workspace


async def running(pilot: Any, watches: Watches) -> JobView:
    """The run of a model that is opened for it; a watch is started, too."""
    model = model_view("m.onnx", recipe={"model": "m.onnx"})
    pilot.app.session.model_opened(model, "r.yaml")
    await pilot.press("r", until=lambda: len(watches.jobs) == 2)
    return next(job for job in watches.jobs if job.method == "devices.perf")


def tell(app: Workbench, job: JobView, look: PerfLook) -> None:
    job.apply(PERF_LOOK.event(look))
    app.session.jobs.changed(job)


async def test_boards_are_listed_with_their_state_and_its_remedy(answers: Answers) -> None:
    answers.listing = Listing((LOCKED, READY))
    async with bench("Boards, 1 ready · 2") as (app, pilot, _):
        await pilot.press("v", "v", "v")
        await pilot.sees("Fix: Confirm it there.", "✗ unauthorized", "✓ ready")
        await pilot.press("enter")
        assert app.session.boards.chosen is None, "what is not ready is not used"
        await pilot.press("down", until=lambda: "✓ ready   ● used" not in screen_text(app))
        await pilot.press("enter", sees="✓ ready   ● used")
        assert app.session.boards.chosen == "adb:ready1"
        assert app.session.boards.device == READY
        assert app.session.boards.chips == {"adb:ready1": "RK3588"}


async def test_what_a_board_is_stands_below_it_with_why_something_is_missing(
    answers: Answers,
) -> None:
    async with bench("ready · 1", size=(120, 60)) as (_, pilot, _):
        await pilot.press("v", "v", "v", sees=("Debian 11", "RK3588, 3 NPU cores"))
        await pilot.sees(
            "State now  emulated", "10 %, 0 %, 50 %", "1000 MHz", "npu-thermal 45.2 °C"
        )
        await pilot.sees("this kernel has no node for it", "8.00 GiB in all, 6.00 GiB free")
        await pilot.sees("0.9.8", "there is none")
        await pilot.sees("✗ chip: the model is for rk3566", "Fix: compile it for rk3588")
        answers.of["board.about"] = DeviceError("It went away.", remedy="Plug it in.")
        await pilot.press("enter", sees="✗ It went away. Plug it in.")


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
    async with bench("No board was found.", size=(120, 60)) as (app, pilot, workspace):
        workspace.views.bar.choose("Facts")
        app.session.model_opened(model_view("one.rknn", kind="rknn"), "one.rknn")
        answers.listing = Listing((READY,))
        await until(pilot, lambda: answers.times("board.about") == 1, "it is asked")
        app.session.model_opened(model_view("two.rknn", kind="rknn"), "two.rknn")
        arrived.set()
        await pilot.sees("two is for rk3566")
        assert "one is for" not in screen_text(app)
        models = [params.model for name, params in answers.asked if name == "board.about"]
        assert models == ["one.rknn", "two.rknn"]


async def test_without_a_model_the_open_recipes_chip_is_held_against_the_board(
    answers: Answers,
) -> None:
    async with bench(size=(120, 60)) as (app, pilot, _):
        await until(pilot, lambda: answers.times("board.about"), "it is asked")
        app.session.set_value("target_platform", "rk3588")
        await pilot.press("v", "v", "v", sees="Fit of the open recipe")
        asked = answers.times("board.about")
        app.session.set_value("target_platform", "rk3562")
        await until(pilot, lambda: answers.times("board.about") > asked, "it is asked again")
        chips = [params.chip for name, params in answers.asked if name == "board.about"]
        assert chips[-1] == "rk3562"


async def test_it_looks_only_while_it_is_shown_and_the_cursor_stays_on_its_board(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rknntui.screens.bench.boards.POLL_SECONDS", 0.2)
    answers.listing = Listing((LOCKED, READY))
    async with bench("ready · 2") as (_, pilot, workspace):
        await pilot.press("down")
        assert workspace.device == READY
        answers.listing = Listing((Device("adb:a", "adb", "offline", "Off."), LOCKED, READY))
        await pilot.sees("ready · 3")
        assert workspace.device == READY
        answers.listing = WorkerError("The worker ended.")
        await pilot.sees("✗ The worker ended.")
        answers.listing = Listing((READY,))
        await pilot.sees("Boards, 1 ready · 1")
        await pilot.press("1")
        looking = workspace._looking.timer._active
        await until(pilot, lambda: not looking.is_set(), "nobody looks while it is hidden")


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
    async with bench(size=size) as (app, pilot, workspace):
        await until(pilot, lambda: "Versions" in workspace.views.facts.text(), "what it is")
        await pilot.press("tab", "G", rests=True)
        assert "[bold red]x[/]" in workspace.views.facts.text()
        assert "adb:[bold" in screen_text(app)
        assert "\x1b" not in screen_text(app)
        assert len(screen_text(app).splitlines()) == size[1]


@pytest.mark.long
async def test_boards_over_ssh_are_added_kept_and_removed(answers: Answers) -> None:
    async with bench(kept=True) as (app, pilot, workspace):
        answers.of["devices.add"] = UsageError("It is not the address of a board.")
        await pilot.press("a", "right", "down", *"a b", "enter")
        await until(pilot, lambda: type(app.screen).__name__ == "ErrorDialog", "it is refused")
        answers.of["devices.add"] = NamedBoard("ssh:pi")
        await pilot.press("escape", "a", "right", "down", *"pi", "enter")
        await until(pilot, lambda: app.session.boards.chosen == "ssh:pi", "it is used: none was")
        await pilot.sees("? not asked")
        assert "Not asked yet." in workspace.views.facts.text().splitlines(), "which is no error"
        assert workspace.table.record["id"] == "ssh:pi"
        await pilot.press("q")
    async with bench("ssh:pi", kept=True) as (again, pilot, workspace):
        assert again.session.boards.over_ssh == ("ssh:pi",)
        assert again.session.boards.chosen == "ssh:pi"
        await until(pilot, lambda: workspace.table.select_record("id", "ssh:pi"), "its row")
        answers.of["devices.remove"] = NamedBoard("ssh:pi")
        await pilot.press("delete", until=lambda: not again.session.boards.over_ssh)
        assert again.session.boards.chosen is None


async def test_of_kept_boards_only_those_that_are_refused_are_dropped(answers: Answers) -> None:
    answers.listing = Listing((LOCKED, READY))
    app = Workbench(state_kept=False)
    app.session.boards.over_ssh = ("ssh:pi", "ssh:a b", "ssh:pa", "ssh:c d")
    async with driven(app) as pilot:
        await pilot.press(keys_of("bench")[0], sees="Boards, 1 ready · 4")
        answers.listing = WorkerError("The worker ended.")
        await pilot.sees("✗ The worker ended.")
        assert app.session.boards.over_ssh == ("ssh:pi", "ssh:pa")


async def test_an_empty_list_says_what_to_do_and_the_server_is_started(answers: Answers) -> None:
    no_server = Finding("adb-server", "warning", "adb", "There is no adb server.", "", "Start it.")
    answers.listing = Listing((), (no_server,))
    async with bench("No board was found.") as (app, pilot, workspace):
        await pilot.sees("a adds one", "There is no adb server.")
        app.session.boards.choose("adb:gone")  # of a run before this one
        for method in ("next_view", "run", "watch"):
            assert "no board is in the list" in workspace.disabled_reason(method)
        await pilot.press("T", until=lambda: any(p.start_server for _, p in answers.asked))


async def test_the_examination_tells_each_step_and_its_commands_are_copied(
    watches: Watches,
) -> None:
    checks = (
        Check("transport", "ok", "adb"),
        Check("driver", "bad", "it is older than the runtime", "Update it.", ("adb reboot",)),
        Check("memory", "skipped", "there is no driver"),
    )
    async with bench() as (app, pilot, workspace):
        await pilot.press("d", sees="examining…")
        assert watches.params == [ExamineParams(READY.id)]
        watches.jobs[0].apply(EXAMINED.event(checks[0]))
        app.session.jobs.changed(watches.jobs[0])
        await pilot.sees("✓ transport: adb")
        for check in checks[1:]:
            watches.jobs[0].apply(EXAMINED.event(check))
        watches.end(app.session, watches.jobs[0], "done", Checks(checks))
        await pilot.sees("1 problem", "✗ driver: it is older than the runtime")
        await pilot.sees("– memory: there is no driver", "Fix: Update it.")
        await pilot.press("Y")
        assert app.clipboard == "rknntui doctor --device adb:ready1"
        workspace.views.examination.focus()
        await pilot.press("down", "down", "down", "down", "y")
        assert app.clipboard == "adb reboot"
        await pilot.press("d", until=lambda: len(watches.jobs) == 2)
        watches.jobs[1].error = DeviceError("It went away.").to_dict()
        watches.end(app.session, watches.jobs[1], "failed")
        await pilot.sees("✗ It went away.")


@pytest.mark.parametrize("size", [SIZE, (120, 40)])
async def test_a_board_is_watched_and_why_it_was_lost_is_said(
    watches: Watches, size: tuple[int, int]
) -> None:
    async with bench(size=size) as (app, pilot, workspace):
        await pilot.press("w", until=lambda: watches.jobs)
        assert watches.params[0].devices == (READY.id,)
        assert app.session.running is None, "it is no job that one waits for"
        assert "no model is open" in workspace.disabled_reason("run")
        watches.tell(app.session, ABOUT.facts, sample(0, 10), sample(1, 95), sample(2, 40))
        await pilot.sees("▁█▃", "NPU 0  40 %", "✓ 45.2 °C", "memory 2.00 GiB of 8.00 GiB")
        await pilot.sees("adb:ready1 · RK3588 · emulated ·")
        text = screen_text(app)
        wide = ("hot from 85.0 °C (documented)", "power – (no sensor)", "power ina226 5.12 W")
        assert all(told in text for told in wide[:2]) or size == SIZE
        zones = (Temperature("npu-thermal", 92.0, 91.0),)
        hot = replace(ABOUT.state, temperatures=zones, powers=(Power("ina226", 5.12),))
        watches.tell(app.session, BoardSample(READY.id, 3, hot))
        await pilot.sees("✗ 92.0 °C")
        own = "hot from 91.0 °C (npu-thermal)" in screen_text(app)
        assert (own and wide[2] in screen_text(app)) or size == SIZE
        watches.tell(app.session, BoardSample(READY.id, 3, None, "It was unplugged; it is tried."))
        await pilot.sees("✗ It was unplugged")
        watches.jobs[-1].apply(NOTE.event(BoardNote(READY.id, "It is asked less often.")))
        watches.tell(app.session)
        await pilot.sees("! It is asked less often.")
        await pilot.press("p")
        watches.tell(app.session, sample(4, 20))
        await settle(pilot)
        assert "✗ It was unplugged" in screen_text(app), "it is held"
        await pilot.press("p", sees="NPU 0  20 %")
        watches.jobs[0].error = DeviceError("The disk is full.", remedy="Make room.").to_dict()
        watches.end(app.session, watches.jobs[0], "failed")
        await pilot.sees("✗ The disk is full. Make room.")
        await pilot.press("q", until=lambda: not app.is_running)


@pytest.mark.long
async def test_marked_boards_have_a_line_each_and_another_rate_keeps_what_was_seen(
    answers: Answers, watches: Watches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = replace(READY, id="adb:other")
    answers.listing = Listing((other, READY))
    async with bench("ready · 2") as (app, pilot, workspace):
        await pilot.press("space", "down", "space", until=lambda: len(watches.jobs) == 2)
        assert watches.params[1].devices == (other.id, READY.id)
        watches.tell(app.session, sample(0, 1), sample(0, 2, other.id))
        lines = workspace.lines
        await until(pilot, lambda: "45.2 °C" in lines.text(), "what it saw")
        assert [line.split()[0] for line in lines.text().splitlines()] == [other.id, READY.id]
        await pilot.press("plus", until=lambda: len(watches.jobs) == 3)
        assert watches.params[2].hertz == 2
        assert "45.2 °C" in lines.text(), "the history stays"
        await pilot.press("x")
        await choose_path(pilot, tmp_path / "seen.jsonl")
        await until(pilot, lambda: len(watches.params) == 4, "a recording")
        assert watches.params[3].record == str(tmp_path / "seen.jsonl")
        assert workspace.disabled_reason("step_rate")
        await pilot.press("w", sees="recorded in")
        (tmp_path / "seen.jsonl").write_text("x")
        await pilot.press("R")
        await choose_path(pilot, tmp_path / "seen.jsonl")
        await until(pilot, lambda: len(watches.params) == 5, "it is shown again")
        watches.tell(app.session, sample(0, 77))
        await pilot.sees("77 %")
        watches.end(app.session, watches.jobs[-1], "done")
        await pilot.sees("end of the recording")


async def test_keys_that_come_before_the_worker_leave_one_watch_or_none(watches: Watches) -> None:
    async with bench() as (app, pilot, workspace):
        watch = workspace.watch_job
        watches.taken.clear()
        await pilot.press("w", until=lambda: len(watches.jobs) == 1)
        await pilot.press("plus", until=lambda: len(watches.jobs) == 2)
        watches.taken.set()
        await until(pilot, lambda: watch.job is not None, "the watch")
        assert [params.hertz for params in watches.params] == [1, 2]
        assert watch.job is watches.jobs[1]
        assert watches.discarded == ["job0"]
        await pilot.press("w")
        assert watch.now is None
        watches.taken.clear()
        await pilot.press("w", until=lambda: len(watches.jobs) == 3)
        await pilot.press("w")
        watches.taken.set()
        await until(pilot, lambda: watches.discarded == ["job0", "job2"], "it is not wanted")
        assert watch.job is None
        watches.refused = DeviceError("There is no worker.")
        await pilot.press("w", until=lambda: type(app.screen).__name__ == "ErrorDialog")
        assert watch.now is None


async def test_a_run_goes_on_elsewhere_and_after_its_board_was_lost(
    answers: Answers, watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rknntui.screens.bench.live.RETRY_SECONDS", 0.05)
    async with bench(size=(120, 40)) as (app, pilot, workspace):
        assert "no model is open" in workspace.disabled_reason("run")
        first = await running(pilot, watches)
        params = watches.params[watches.jobs.index(first)]
        assert (params.device, params.seconds, params.layers) == (READY.id, 60.0, True)
        tell(app, first, perf_look(10.0, 191.4, layers=ran().layers))
        await pilot.sees("FPS 191.4")
        text = screen_text(app)
        for told in ("p50 5.180  p90 5.310  p99 6.020  ms", "emulated", "▶ 0:10 of 1:00", "Conv_1"):
            assert told in text, told
        assert app.session.layers.of("measured")
        assert (app.session.bench.fps, app.session.bench.running) == (191.4, True)
        await pilot.press("1")
        tell(app, first, perf_look(20.0, 180.0))
        await until(pilot, lambda: workspace.run.at == 20.0, "it goes on while it is hidden")
        await pilot.sees("▶180.0 FPS")
        first.error = DeviceLostError("The board is gone.").to_dict()
        answers.listing = Listing(())
        watches.end(app.session, first, "failed")
        await pilot.sees("The board is lost")
        await pilot.press(keys_of("bench")[0], sees="✗ The board is gone.")
        answers.listing = Listing((READY,))
        await until(pilot, lambda: watches.jobs[-1].method == "devices.perf", "it goes on")
        again = watches.jobs[-1]
        assert again is not first
        assert watches.params[-1].seconds == 40.0
        tell(app, again, perf_look(5.0, 185.0))
        await pilot.sees("▶ 0:25 of 1:00")
        assert "▶ 0:25 of 1:00, r or = ends it" in screen_text(app), "before it is pressed"
        await pilot.press("M")
        assert again.state == "done", "it ends in order"
        await until(pilot, lambda: watches.jobs[-1].method == "board.memory", "then it is asked")
        await pilot.sees("… memory on adb:")
        assert watches.params[-1] == MemoryParams(recipe=app.session.recipe, device=READY.id)
        told = MemoryReport(**HEAD, memory=BoardMemory(24 << 10, 36 << 10, 296, 60 << 10))
        watches.end(app.session, watches.jobs[-1], "done", told)
        await pilot.sees("internal     36.00 KiB ████████████")
        await pilot.sees("On adb:127.0.0.1:40001, rk3588 (emulated).")


async def test_a_run_that_the_user_ended_does_not_wait_for_its_board(
    watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench() as (app, pilot, workspace):
        job = await running(pilot, watches)
        tell(app, job, perf_look(10.0, 191.4))
        await until(pilot, lambda: workspace.run.at == 10.0, "its figures")
        monkeypatch.setattr(Bridge, "finish", lambda *_: None)  # it takes its time
        await pilot.press("r")
        job.error = DeviceLostError("The board is gone.").to_dict()
        watches.end(app.session, job, "failed")
        await pilot.sees("✗ The board is gone.")
        assert not workspace.run.going


async def test_runs_of_the_history_are_compared_in_words(answers: Answers) -> None:
    runs = [KeptRun(id=f"run{n}", at=1.7e9 + n, title="m.rknn", median=5e3) for n in (2, 1)]
    answers.of["measured.list"] = KeptRuns(tuple(runs))
    point = PointChange("auto", 1, 1, 5000.0, 5500.0, 0.1, True)
    layers = (LayerChange("Conv_0", 40.0, 45.0),)
    answers.of["measured.compare"] = RunsCompared(
        ("measured", "measured"), ("driver: 0.9.6, 0.9.8",), (point,), layers
    )
    async with bench() as (_, pilot, _):
        await pilot.press("V", sees="Runs · 2")
        await pilot.press("equals_sign", sees="5.000 → 5.500 ms  +10.0 %")
        assert ("measured.compare", RunPair("run1", "run2")) in answers.asked
        await pilot.sees("Not equal: driver: 0.9.6, 0.9.8", "40.0 → 45.0 µs")
