"""What is kept from one start to the next, also where a file is damaged or the disk is full."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine import JobProgress, StageStarted, StageTimes, state_folder
from engine.base.events import Finished, StageFinished
from rknntui.output import CLIPBOARD_LIMIT
from rknntui.screens.dialogs.dialogs import ConfirmDialog, ErrorDialog
from rknntui.session.kept import LIMIT, Draft, Drafts, State, load_state, save_state
from tests.tui.conftest import screen_text, until, workbench
from tests.tui.flow import model_view
from tests.tui.terminal import Terminal

SIZE = (100, 30)
DAMAGED: dict[str, str | bytes] = {
    "cut": '{"version": 1, "pa',
    "a list": "[]",
    "a newer version": '{"version": 2}',
    "of another kind": '{"version": 1, "recipe": 3, "dividers": {"a": 140}}',
    "deep": '{"version": 1, "recipe": ' + "[" * 50_000,
    "bytes": b"\x00\xff\xfe" * 100,
    "empty": "",
    "too long": '{"version": 1, "path": "' + "x" * LIMIT + '"}',
}


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may have a byte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def damage(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
async def test_a_damaged_state_is_set_aside_and_told(content: str | bytes, own_home: Path) -> None:
    file = state_folder() / "interface.json"
    damage(file, content)
    async with workbench(size=SIZE, notices=True, kept=True) as (app, pilot):
        assert "No model is open" in screen_text(app)
        (line,) = app.told_files
        assert line.startswith("interface.json cannot be read, and is interface.damaged now: ")
        assert line.isprintable()
        await pilot.sees("interface.damaged")
        await pilot.press("q")
    aside = file.with_suffix(".damaged").read_bytes()
    assert aside == (content if isinstance(content, bytes) else content.encode()), "nothing is lost"
    assert load_state(pytest.fail).workspace == "overview"


async def test_a_pipe_as_the_state_file_does_not_stop_the_start(own_home: Path) -> None:
    state_folder().mkdir(parents=True)
    os.mkfifo(state_folder() / "interface.json")
    async with workbench(size=SIZE, kept=True) as (app, _):
        assert app.theme == "dark"


def test_texts_of_the_state_file_are_cleaned(own_home: Path) -> None:
    state = own_home / ".local" / "state" / "rknntui"
    state.mkdir(parents=True)
    hurt = {"a\x9b31m": ["b\u202e\nc\x7f"]}
    recipe = {"model": [1, None, {"d": "e\x1b[2J"}]}
    content = json.dumps({"version": 1, "views": hurt, "recipe": recipe})
    (state / "interface.json").write_text(content)
    found = load_state(pytest.fail)
    assert found.views == {"a31m": ("b\nc",)}
    assert found.recipe == {"model": [1, None, {"d": "e[2J"}]}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_draft_is_set_aside_and_told(content: str | bytes, tmp_path: Path) -> None:
    told: list[str] = []
    Drafts(tmp_path).keep(Draft("/m.onnx", {"model": "/m.onnx"}))
    (file,) = tmp_path.iterdir()
    damage(file, content)
    drafts = Drafts(tmp_path, told.append)
    assert drafts.of("/m.onnx") is drafts.of("/m.onnx") is None
    assert len(told) == 1
    assert [path.suffix for path in tmp_path.iterdir()] == [".damaged"]


def test_times_of_stages_that_cannot_be_read_or_written_are_learnt_again(tmp_path: Path) -> None:
    file, job = tmp_path / "times.json", JobProgress(method="build", params={"path": "/m"})
    job.apply(StageStarted("load", "load", 1, 1))
    job.apply(StageFinished("load", 3.0, False))
    job.apply(Finished("done", 3.0, None))
    for content in DAMAGED.values():
        damage(file, content)
        times = StageTimes(file)
        assert times.left(JobProgress(method="build", params={"path": "/m"})) is None
        with full_disk():
            times.learn(job)
        assert times.left(JobProgress(method="build", params={"path": "/m"})) == 3.0


WRITES: dict[str, Callable[[Path, list[str]], object]] = {
    "state": lambda folder, told: save_state(State(path="/m.onnx"), told.append),
    "draft": lambda folder, told: Drafts(folder, told.append).keep(Draft("/m", {"model": "/m"})),
    "claim": lambda folder, told: Drafts(folder, told.append).claim("/m"),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_full_disk_is_told_and_what_was_there_stays(
    name: str, tmp_path: Path, own_home: Path
) -> None:
    told: list[str] = []
    WRITES[name](tmp_path, told)
    before = {path: path.read_bytes() for path in (*tmp_path.iterdir(), *own_home.rglob("*.json"))}
    with full_disk():
        WRITES[name](tmp_path, told)
    assert {path: path.read_bytes() for path in before} == before
    assert [line.startswith("Not kept for the next start: ") for line in told] == (
        [] if name == "claim" else [True]
    )


async def test_unsaved_changes_that_cannot_be_kept_are_asked_about(own_home: Path) -> None:
    state_folder().parent.mkdir(parents=True)
    state_folder().write_text("no folder")
    async with workbench(size=SIZE, notices=True, kept=True) as (app, pilot):
        app.session.model_opened(model_view("/m.onnx"), "/m.onnx")
        app.session.set_value("optimization_level", 1)
        await until(pilot, lambda: app.told_files, "it is told when the model is opened")
        app.output.copy("x" * (CLIPBOARD_LIMIT + 1))
        await until(pilot, lambda: isinstance(app.screen, ErrorDialog), "a long text is not copied")
        await pilot.press("escape", "q", until=lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("escape", rests=True)
        assert app.is_running
        await pilot.press("q", "l", until=lambda: not app.is_running)


def test_a_run_on_a_full_disk_ends_in_order_and_says_so(own_home: Path) -> None:
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "from rknntui.launch import open_workbench\n"
        "sys.exit(open_workbench())\n"
    )
    with Terminal(code=code) as terminal:
        for key in "12345670q":
            terminal.type(key)
            terminal.pump(0.2)
        assert terminal.ended() == 0
        assert terminal.not_restored() == []
        said = bytes(terminal.raw).decode().rpartition("\x1b")[2]
        assert "Not kept for the next start" in said
        assert "Traceback" not in bytes(terminal.raw).decode()


async def test_of_two_runs_whose_terminal_is_gone_both_keep_their_changes(own_home: Path) -> None:
    async with workbench(size=SIZE, kept=True) as (app, _):
        app.session.model_opened(model_view("/m.onnx"), "/m.onnx")
        app.session.set_value("optimization_level", 1)
        app.stopping.last_words()
        save_state(State(path="/other.onnx"), pytest.fail)  # the other one ends after it
        draft = Drafts(state_folder() / "drafts").of("/m.onnx")
        assert draft.recipe["optimization_level"] == 1
