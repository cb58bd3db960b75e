"""Workspace Devices by keys alone, over a list of boards that the test makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine import DeviceError, UsageError, WorkerError
from engine.base.findings import Finding
from engine.wire.board import (
    About,
    BoardFacts,
    BoardState,
    SystemMemory,
    Temperature,
    VersionRow,
)
from engine.wire.devices import Device, DeviceListParams, Listing
from engine.wire.doctor import Check
from rknntui.app import Workbench
from rknntui.bridge import Bridge
from rknntui.screens.devices.workspace import Devices
from tests.tui.conftest import screen_text, settle, until

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
    await pilot.press("7")
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


async def test_it_looks_only_while_it_is_shown_and_the_cursor_stays_on_its_board(
    answers: Answers,
) -> None:
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
        assert workspace._polling is not None
        assert not workspace._polling._active.is_set(), "nobody looks while it is hidden"


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
