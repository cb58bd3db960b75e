"""Workspace Bench over its own workers, a real adb server and emulated boards."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from engine.base.process import ProcessId
from rknntui.app import Workbench
from rknntui.screens.bench.workspace import Bench
from rknntui.workspaces import WORKSPACES, keys_of
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards, Equip, adb_server, board, emulated, equip
from tests.safety import PATIENCE
from tests.tui.conftest import driven, screen_text, until, workbench
from tests.tui.flow import choose_path
from tests.tui.terminal import Terminal

__all__ = ["adb_server", "board", "emulated", "equip"]

pytestmark = [pytest.mark.usefixtures("own_workers"), pytest.mark.long, pytest.mark.adb]


async def ended(workers: list[ProcessId]) -> None:
    for _ in range(3000):
        if not any(worker.alive for worker in workers):
            return
        await asyncio.sleep(0.02)
    pytest.fail("a worker is left")


async def test_boards_are_listed_asked_examined_watched_and_recorded(
    board: Boards, adb_server: AdbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ready = board("rk3588")
    locked = board("rk3566", auth=True, connect=False)
    adb_server.adb("connect", locked.address)
    async with workbench(size=(120, 40)) as (app, pilot):
        await pilot.press(keys_of("bench")[0], sees=("1 ready · 2", "✗ unauthorized"))
        workspace = app.workspace
        assert isinstance(workspace, Bench)
        name = f"adb:{ready.address}"
        await until(pilot, lambda: workspace.table.select_record("id", name), "the ready one")
        await pilot.press("v", "v", "v", sees=("rk3588, 3 NPU cores", "State now  emulated"))
        ready.set_load([10, 90, 40])
        await pilot.press("enter")
        assert app.session.boards.chosen == name
        await pilot.sees("NPU 1  90 %")
        await pilot.press("d", sees="✓ transport")

        await pilot.press("plus", "plus", "plus", "x")
        await choose_path(pilot, tmp_path / "seen.jsonl", "ctrl+s")
        await pilot.sees("recording to seen.jsonl (w stops)")
        await until(pilot, lambda: workspace.watch_job.at > 0.5, "some looks")
        assert app.session.running is None
        await pilot.sees("NPU 0  10 %", "NPU 2  40 %")
        ready.set_load([0, 0, 0])
        await pilot.sees("NPU 1   0 %")
        await pilot.press("w", sees="recorded in")
        looks = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
        assert len(looks) > 2

        await pilot.press("R", sees="Show a recording")
        await pilot.press("enter")  # the one that was made last
        # it is as short as the watch was: its beginning may not be seen
        await pilot.sees("end of the recording")
        track = workspace.watch_job.boards[name].tracks["NPU 1"]
        assert (track.minimum, track.maximum) == (0.0, 90.0)


async def test_a_watch_ends_with_the_workbench_and_a_board_that_goes_is_said(
    board: Boards,
) -> None:
    made = board("rk3588")
    async with workbench() as (app, pilot):
        await pilot.press(keys_of("bench")[0], sees="1 ready · 1")
        await pilot.press("enter", until=lambda: "memory" in workspace_text(app))
        made.unplug()
        await pilot.sees("0 ready")
        await until(pilot, lambda: "✗" in workspace_text(app), "the monitor knows")
        pids = [ProcessId.of(w.pid) for w in app.bridge._workers.values() if w.pid]
        assert len(pids) == 3
        await pilot.press("q")
    await ended(pids)


async def test_a_closed_terminal_ends_a_watch_too(board: Boards) -> None:
    board("rk3588")
    with Terminal() as terminal:
        terminal.type(keys_of("bench")[0])
        terminal.wait_for("1 ready · 1")
        terminal.type("w")
        terminal.wait_for("temperature")
        tasks = Path(f"/proc/{terminal.process.pid}/task").glob("*/children")
        pids = [ProcessId.of(int(pid)) for task in tasks for pid in task.read_text().split()]
        assert len(pids) == 3
        terminal.hang_up()
        terminal.process.wait(PATIENCE)
    await ended(pids)


def workspace_text(app: Workbench) -> str:
    workspace = app.workspace
    return workspace.lines.text()


async def test_a_busy_main_worker_delays_no_list(board: Boards) -> None:
    board("rk3588")
    async with workbench() as (app, pilot):
        await until(pilot, lambda: app.bridge.state == "ready", "the main worker")
        main = ProcessId.of(app.bridge._workers["main"].pid or 0)
        os.kill(main.pid, signal.SIGSTOP)
        try:
            await pilot.press(keys_of("bench")[0], sees=("1 ready · 1", "rk3588 rk3588"))
        finally:
            os.kill(main.pid, signal.SIGCONT)


async def test_a_board_that_is_lost_is_told_in_every_step_and_taken_up_again(
    board: Boards, equip: Equip, digits: Path
) -> None:
    made = equip(board("rk3588"))
    digits.write_text(f"{digits.read_text()}target: {{target_platform: rk3588}}\n")
    app = Workbench(str(digits), state_kept=False)

    def top(line: int) -> str:
        return screen_text(app).splitlines()[line]

    async with driven(app, (120, 40), notices=True) as pilot:
        await until(pilot, lambda: app.session.model is not None, "the model")
        await pilot.press(keys_of("bench")[0], sees="1 ready · 1")
        await pilot.press("enter", "r", until=lambda: app.session.bench and app.session.bench.fps)
        for name in ("bench", "model"):  # in its own step, and in another one
            await pilot.press(keys_of(name)[0], until=lambda: "Bench ▶" in top(1))
            made.unplug()
            await until(pilot, lambda: "The board is lost" in top(0), f"{name}: a line says it")
            for step in WORKSPACES:
                await pilot.press(keys_of(step)[0])
                await until(pilot, lambda step=step: app.current == step, step)
                assert "Bench ✗" in top(1), step
                assert len(app.screen_stack) == 1, "nothing stands before it"
                await pilot.press("down", "question_mark", until=lambda: len(app.screen_stack) == 2)
                await pilot.press("escape")
            made.replug()
        await until(pilot, lambda: "Bench ▶" in top(1), "it goes on")
