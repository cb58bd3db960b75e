"""Workspace Result with a board as the target, by keys alone; the board's answers are prepared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import click
import pytest

from engine.wire.codec import encode
from engine.wire.model import Tensor
from rknntui.app import Workbench
from rknntui.cli.root import cli
from rknntui.screens.result.requests import SIDES, Subject, side_of
from rknntui.screens.result.words import reason
from rknntui.screens.result.workspace import Result
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session
from tests.tui.board_answers import BOARD, BoardAnswers, ran
from tests.tui.conftest import Driver, screen_text, until
from tests.tui.flow import model_view, opened

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> BoardAnswers:
    return BoardAnswers(monkeypatch)


@asynccontextmanager
async def on_board(recipe: Path) -> AsyncIterator[tuple[Workbench, Driver, Result]]:
    """Result's view Board, with a board as the target and a file for the input."""
    async with opened(recipe, Result) as (app, pilot, workspace):
        workspace.results.bar.choose("Board")
        await pilot.sees("no board is the target")
        assert "chooses one" in workspace.disabled_reason("run")
        app.session.boards.choose(BOARD)
        await pilot.sees(f"on {BOARD}")
        yield app, pilot, workspace


async def test_a_run_on_a_board_stands_beside_the_simulator(
    digits: Path, board: BoardAnswers
) -> None:
    async with on_board(digits) as (app, pilot, workspace):
        await pilot.press("r", sees="Outputs (emulated)")
        text = screen_text(app)
        assert "simulated" not in text
        assert "1.250 ms (emulated)" in text
        assert "is not that of an NPU" in text
        method, params = board.asked[-1]
        assert (method, params.device, params.layers) == ("board.run", BOARD, False)
        assert params.recipe == app.session.recipe
        assert params.path is None
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui run ")
        assert f"--device {BOARD} --input" in app.clipboard
        workspace.results.bar.choose("Simulated")
        await pilot.press("r", sees="Outputs (simulated)")
        workspace.results.bar.choose("Board")
        said = lambda: " ".join(workspace.results.told.text().split())  # noqa: E731
        await until(pilot, lambda: "31.25 dB from float (emulated), simulated" in said(), "both")
        assert "The largest value is at 3: 4.5; in float at 3: 4.75; in the simulator" in said()
        top = workspace.results.query_one("#top").records[0]
        assert (top["value"], top["float"], type(top["simulated"])) == (4.5, 4.75, float)
        app.session.choose_compiled("/tmp/digits-rk3588.rknn")
        await pilot.sees("changed since")
        await pilot.press("r", until=lambda: board.asked[-1][1].path is not None)
        app.session.boards.choose(None)
        await pilot.press("r")
        assert workspace.disabled_reason("run")


async def test_a_run_belongs_to_the_side_and_file_that_gave_it() -> None:
    session = Session(lambda _message: None)
    x = Tensor("x", (1, 3), "float32")
    session.model_opened(model_view("m.onnx", inputs=(x,), recipe={"model": "m.onnx"}), "r.yaml")
    session.boards.choose(BOARD)

    def job(subject: Subject) -> JobView:
        return JobView("a", "run", "run", 0.0, encode(subject.request(())))

    subjects = [Subject(session, side, form) for side in SIDES for form in ("integer", "reference")]
    for subject in subjects:
        assert side_of(job(subject)) == subject.key
    build = job(Subject(session, "Board"))
    assert not Subject(session, "Board").outdated(build)
    session.choose_compiled("a.rknn")
    assert Subject(session, "Board").outdated(build)
    assert not Subject(session, "Simulated").outdated(job(Subject(session)))


async def test_what_cannot_run_says_why() -> None:
    session = Session(lambda _message: None)
    assert "no model" in reason("run", Subject(session))
    session.model, session.path = model_view("a.rknn", kind="rknn"), "a.rknn"
    assert not reason("run", Subject(session))
    assert "dataset" in reason("step_sample", Subject(session))
    assert "no board" in reason("export", Subject(session, "Board"))
    assert "own arithmetic" in reason("arithmetic", Subject(session, "Board"))
    session.model = model_view("a.rknn", kind="rknn_vendor")
    assert "only on its NPU" in reason("run", Subject(session))


@pytest.mark.long
async def test_names_of_strangers_steer_nothing(digits: Path, board: BoardAnswers) -> None:
    bad = "[bold red]x[/] \x1b[31m\x07" + "宽" * 300
    hostile = ran(device=bad, runtime=bad, notes=(bad,))
    output = replace(hostile.outputs[0], name=bad, label=bad)
    board.answers["board.run"] = replace(hostile, outputs=(output,))
    async with on_board(digits) as (app, pilot, _):
        await pilot.press("r", sees=("宽", "[bold red]"))
        text = screen_text(app)
        assert not {"\x1b", "\x07"} & set(text)
        assert len(text.splitlines()) == SIZE[1]


async def test_the_copied_command_is_one_that_the_command_line_takes() -> None:
    session = Session(lambda _message: None)
    x = Tensor("x", (1, 3), "float32")
    session.model_opened(model_view("m.onnx", inputs=(x,), recipe={"model": "m.onnx"}), "r.yaml")
    session.boards.choose(BOARD)
    for compiled in (None, "compiled.rknn"):
        session.choose_compiled(compiled)
        words = Subject(session, "Board").command_line({"x": "a b.npy"}, "")
        assert words[:2] == ["rknntui", "run"]
        command = cli.get_command(click.Context(cli), "run")
        told = command.make_context("run", words[2:]).params
        assert told["param_device"] == BOARD
        assert told["param_inputs"] == (str(Path("a b.npy").absolute()),)
        if compiled:
            assert Path(told["target"]).absolute() == Path(compiled).absolute()
    session.choose_compiled(None)
    session.set_value("target_platform", "rk3588")
    words = Subject(session, "Board").command_line({"x": "a.npy"}, "")
    assert words[:5] == ["rknntui", "run", "m.onnx", "--target-platform", "rk3588"], "not saved"
