"""Keys and clicks that mean what they mean in every other program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.events import Key
from textual.widgets import Input

from engine.wire.guide import Answer, Step
from rknntui.app import Workbench
from rknntui.arguments import given_options
from rknntui.screens.dialogs.dialogs import ConfirmDialog
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.screens.layers.workspace import Layers
from rknntui.session.job_view_model import JobView
from rknntui.widgets.records import RecordTable
from tests.cli.conftest import ended, start
from tests.tui.conftest import driven, screen_text, settle, until, workbench
from tests.tui.terminal import Terminal

SIZE = (100, 30)


async def test_esc_in_stop_the_job_keeps_it_running(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    async def cancel(job: str) -> None:
        stopped.append(job)

    app = Workbench()
    monkeypatch.setattr(app.bridge, "cancel", cancel)
    async with driven(app, SIZE) as pilot:
        await settle(pilot)
        app.session.jobs.started(JobView("one", "build", "build m.onnx", 0.0))
        for answer in ("escape", "n"):
            await pilot.press("ctrl+x", until=lambda: isinstance(app.screen, ConfirmDialog))
            assert "Esc again" not in screen_text(app)
            await pilot.press(answer, until=lambda: not isinstance(app.screen, ConfirmDialog))
            await settle(pilot)
            assert stopped == []
        await pilot.press("ctrl+x", until=lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y", until=lambda: stopped == ["one"])


async def test_what_is_typed_behind_a_key_that_opens_a_dialog_is_the_dialogs() -> None:
    async with workbench(size=SIZE) as (app, pilot):
        for key in "ox7y":  # as a terminal sends what was typed ahead
            app.post_message(Key(key, key))
        await until(pilot, lambda: isinstance(app.screen, PathPicker), "it asks")
        await until(pilot, lambda: app.screen.query_one(Input).value.endswith("x7y"), "the text")
        assert app.current == "overview", "7 is a letter of it"
        for key in ("ctrl+u", "a", "b", "backspace", "c", "left", "backspace", "d"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: app.screen.query_one(Input).value == "dc", "in that order")
        for key in ("escape", "3"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: app.current == "layers", "3 is the workspace's")


def guide_step(name: str, title: str) -> Step:
    return Step(id=name, stage="", title=title, source="", did="", found=(), verdict="pass")


@pytest.mark.long
async def test_a_click_on_the_head_sorts_and_again_turns_the_order() -> None:
    async with workbench(size=(140, 40), kept=True) as (app, pilot):
        await pilot.press("3", "D", rests=True)
        layers = app.workspace
        assert isinstance(layers, Layers)
        for name in ("b", "c", "a"):
            layers.guide.take(Answer(guide_step(name, f"step {name}"), None, 3))
        await settle(pilot)
        table = layers.guide.table
        head = screen_text(app).splitlines()[table.region.y]
        at = head.index("step") - table.region.x
        for order in ("abc", "cba"):
            await pilot.click(table, offset=(at, 0))
            await settle(pilot)
            assert table.sorted_by == "title"
            assert [record.title[-1] for record in table.records] == list(order)


@pytest.mark.long
async def test_every_column_that_sorts_has_a_name() -> None:
    async with workbench(size=(140, 40), kept=True) as (app, pilot):
        await pilot.press("3", "D", rests=True)
        layers = app.workspace
        layers.guide.take(Answer(guide_step("a", "A"), None, 1))
        await settle(pilot)
        await pilot.press("s", rests=True)
        assert "by step of the guide ▲" in screen_text(app), "the stage says nothing"
        for number in range(1, 9):
            await pilot.press(str(number), rests=True)
        tables = app.screen.query(RecordTable)
        assert len(tables) >= 8
        for table in tables:
            assert all(column.called for column in table.declared.columns), table.id


async def test_the_picker_says_why_a_path_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    async with workbench(kept=True) as (app, pilot):
        for text, said in (
            (f"{tmp_path}/missing.onnx", "There is no file"),
            (f"{tmp_path}/missing/m.onnx", "There is no folder"),
            (f"{tmp_path}/empty/", "There is no file in"),
            ("", "Type the path of a file"),
        ):
            app.push_screen(PathPicker("Open", text or "x"))
            await until(pilot, lambda: isinstance(app.screen, PathPicker), "it asks")
            if not text:
                await pilot.press("backspace")
            await pilot.press("enter", rests=True)
            assert isinstance(app.screen, PathPicker)
            shown = screen_text(app)
            assert said in shown, shown
            await pilot.press("x")  # typing takes it away
            await settle(pilot)
            assert said not in screen_text(app)
            await pilot.press("escape", rests=True)


@pytest.fixture
def shell() -> Iterator[Terminal]:
    """A shell with job control that runs the workbench, as a script of another shell."""
    python = sys.executable
    code = (
        "import os, subprocess, signal\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        f"group = subprocess.Popen(['sh', '-c', '{python} -m rknntui; :'],"
        " process_group=0)\n"
        "os.tcsetpgrp(0, group.pid)\n"
        "_, status = os.waitpid(group.pid, os.WUNTRACED)\n"
        "os.tcsetpgrp(0, os.getpgrp())\n"
        "print('stopped', os.WIFSTOPPED(status), flush=True)\n"
        "input()\n"
        "os.tcsetpgrp(0, group.pid)\n"
        "os.killpg(group.pid, signal.SIGCONT)\n"
        "_, status = os.waitpid(group.pid, 0)\n"
        "print('ended', os.WEXITSTATUS(status), flush=True)\n"
    )
    with Terminal(code=code) as terminal:
        yield terminal
        listed = ["ps", "-o", "pid=", "-s", str(terminal.process.pid)]
        told = subprocess.run(listed, capture_output=True, text=True, check=False).stdout
        for pid in told.split():
            os.kill(int(pid), signal.SIGKILL)


def test_ctrl_z_gives_the_shell_back_and_fg_the_workbench(shell: Terminal) -> None:
    shell.type("\x1a")
    shell.wait_for("stopped True")
    assert shell.not_restored() == []
    shell.raw.clear()
    shell.type("\n")
    shell.wait_for("Palette")
    shell.type("q")
    shell.wait_for("ended 0")
    assert shell.not_restored() == []


def test_ctrl_z_without_a_shell_says_so() -> None:
    with Terminal() as terminal:
        terminal.type("\x1a")
        terminal.wait_for("No shell is waiting")
        time.sleep(0.2)
        terminal.type("q")
        assert terminal.ended() == 0


def test_flags_behind_a_file_are_those_of_its_source(tmp_path: Path) -> None:
    assert given_options(["--input-size-list=[[1,3,8,8]]"]) == {"input_size_list": [[1, 3, 8, 8]]}
    network = tmp_path / "net.cfg"
    network.write_text("[net]")
    for words, said in (
        ([str(network), "--weight", "x"], "--weights"),
        ([str(network), "--mean-values", "1"], "not an option of the workbench"),
        ([str(network), "--weights"], "needs a value"),
        ([str(network), str(network)], "is a file"),
    ):
        ran = ended(start(*words))
        assert ran.code == 2, ran.err
        assert said in ran.err
    ran = ended(start(network, "--weights", "best.weights"))
    assert "needs a terminal" in ran.err
