"""Workspace Run with a board as its target, by keys alone; the board's answers are prepared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest
from textual.pilot import Pilot

from engine.base.errors import DeviceLostError
from engine.wire.codec import encode
from engine.wire.devices import Device, Listing
from engine.wire.model import Tensor
from rknntui.app import Workbench
from rknntui.cli.root import cli
from rknntui.screens.result.requests import Subject
from rknntui.screens.result.words import reason
from rknntui.screens.result.workspace import Run
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session
from tests.tui.board_answers import BOARD, LAYERS, BoardAnswers, comparison, look, memory, ran
from tests.tui.conftest import screen_text, until
from tests.tui.flow import grey_keys, model_view, visited, write_recipe

SIZE = (80, 24)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> BoardAnswers:
    return BoardAnswers(monkeypatch)


@pytest.fixture
def app(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.chdir(tmp_path)
    return Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)


async def on_board(pilot: Pilot[None], demo: Path) -> Run:
    """Run, with the board of Devices as its target and a file for the input."""
    app = pilot.app
    assert isinstance(app, Workbench)
    workspace = await visited(pilot, Run)
    workspace.inputs_pane.files["image"] = str(demo / "calibration" / "005.png")
    app.session.choose_board(BOARD)
    await until(pilot, lambda: f"on {BOARD}" in screen_text(app), "the board is the target")
    return workspace


async def test_the_target_is_the_simulator_or_a_board_that_can_be_used(
    app: Workbench, board: BoardAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Run)
        assert "simulator" in screen_text(app)
        await pilot.press("t")
        await until(pilot, lambda: "Run on" in screen_text(app), "the boards")
        text = screen_text(app)
        assert BOARD in text
        assert "OTHER" not in text  # it is offline
        await pilot.press("escape")
        assert workspace.target is None
        app.session.choose_board(BOARD)
        await pilot.press("t")
        await until(pilot, lambda: "Run on" in screen_text(app), "the boards")
        await pilot.press("enter")  # the session's board has the cursor
        await until(pilot, lambda: f"on {BOARD}" in screen_text(app), "the board is the target")
        assert workspace.target == BOARD
        bad = "adb:[bold red]x[/]" + "宽" * 300
        board.listing = Listing((Device(bad, "adb", "ready", bad, model=bad, warnings=(bad,)),))
        await pilot.press("t")
        await until(pilot, lambda: "[bold red]" in screen_text(app), "a hostile name")
        assert "Enter select" in screen_text(app)
        await pilot.press("up", "enter")
        await until(pilot, lambda: workspace.target == bad, "the hostile board is the target")
        assert f"on {bad[:20]}" in screen_text(app)
        board.listing = Listing(())
        app.session.choose_board(None)
        await until(pilot, lambda: workspace.target is None, "the board is used no more")
        await pilot.press("t")
        await until(pilot, lambda: "No board is in reach" in screen_text(app), "why")
        assert "Devices" in screen_text(app)


async def test_a_run_on_a_board_says_what_its_figures_are(
    app: Workbench, board: BoardAnswers, demo: Path
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await on_board(pilot, demo)
        await pilot.press("r")
        await until(pilot, lambda: "Outputs (emulated)" in screen_text(app), "the outputs")
        text = screen_text(app)
        assert "simulated" not in text
        assert "1.250 ms (emulated)" in text
        assert "is not that of an NPU" in text
        method, params = board.asked[-1]
        assert (method, params.device, params.layers) == ("board.run", BOARD, False)
        assert params.recipe == app.session.recipe
        await pilot.press("C", "down", "enter")
        await until(pilot, lambda: "cores 0" in screen_text(app), "other cores")
        await pilot.press("r")
        await until(pilot, lambda: board.asked[-1][1].cores == "0", "are asked for")
        await pilot.press("Y")
        assert app.clipboard.endswith(" --cores 0")
        assert app.clipboard.startswith("rknntui run ")
        assert f"--device {BOARD} --input" in app.clipboard


@pytest.mark.long
async def test_layers_keep_order_and_cursor_while_they_are_timed_again(
    app: Workbench, board: BoardAnswers, demo: Path
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_board(pilot, demo)
        await pilot.press("v")
        await until(pilot, lambda: "No layer is timed yet" in screen_text(app), "the view")
        table = workspace.results.timed.table
        table.sort_field("microseconds", descending=True)
        await pilot.press("L")
        await until(pilot, lambda: table.total == 4, "the layers")
        assert "Layers (emulated)" in screen_text(app)
        table.select_record("number", 2)
        board.again(look((41.0, 90.0, 300.0)))
        await until(pilot, lambda: table.records[0]["number"] == 3, "the slowest of the next run")
        assert table.record is not None
        assert table.record["number"] == 2
        assert table.sorted_by == "microseconds"
        assert "live on" in screen_text(app)
        assert "2.500 ms with layers timed (emulated)" in screen_text(app)
        assert table.records[-2]["mean"] == 40.5
        assert app.session.running is None or app.session.running.quiet
        await pilot.press("v")
        await until(pilot, lambda: "Memory (emulated)" in screen_text(app), "the memory too")
        await pilot.press("r")  # the board is let go before it is asked for something else
        await until(pilot, lambda: "On adb:" in screen_text(app), "its answer")
        assert [name for name, _ in board.asked][-2:] == ["board.live", "board.memory"]
        await until(pilot, lambda: not board.live, "the live runs end")
        await pilot.press("L")  # the key is of the view Layers
        assert not board.live
        workspace.results.bar.choose("Layers")
        await pilot.press("L")
        await until(pilot, lambda: board.live == 1, "live again")
        await pilot.press("1")
        await until(pilot, lambda: not board.live, "nothing is repeated that nobody sees")
        assert not workspace.live.on
        assert app.session.job is None or app.session.job.method != "board.live"


async def test_keys_that_come_before_the_worker_leave_one_user_of_the_board(
    app: Workbench, board: BoardAnswers, demo: Path
) -> None:
    def asked() -> list[str]:
        return [name for name, _ in board.asked]

    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_board(pilot, demo)
        workspace.results.bar.choose("Layers")
        board.taken.clear()
        await pilot.press("L")
        await until(pilot, lambda: asked() == ["board.live"], "live runs are asked for")
        await pilot.press("L")
        assert not workspace.live.on
        await pilot.press("L")
        assert asked() == ["board.live"]
        board.taken.set()
        await until(pilot, lambda: workspace.live.runs == 1, "the last key is what is done")
        assert asked() == ["board.live"] * 2
        assert board.live == 1
        await pilot.press("L")
        await until(pilot, lambda: not board.live, "they end")
        board.asked.clear()
        board.taken.clear()
        await pilot.press("L")
        await until(pilot, lambda: asked() == ["board.live"], "live runs are asked for")
        await pilot.press("r")
        assert asked() == ["board.live"]
        board.taken.set()
        await until(pilot, lambda: asked() == ["board.live", "board.run"], "then the run")
        await until(pilot, lambda: workspace.results.timed.table.total == 4, "the layers")
        assert not board.live
        board.asked.clear()
        board.taken.clear()
        board.refused = DeviceLostError("The board is gone.")
        await pilot.press("L")
        await until(pilot, lambda: asked() == ["board.live"], "live runs are asked for")
        await pilot.press("r")
        board.taken.set()
        await until(pilot, lambda: asked() == ["board.live", "board.run"], "it is tried anyway")


async def test_what_another_file_or_other_cores_gave_is_not_shown() -> None:
    session = Session(lambda _message: None)
    x = Tensor("x", (1, 3), "float32")
    session.model_opened(model_view("m.onnx", inputs=(x,), recipe={"model": "m.onnx"}), "r.yaml")

    def job(params: object) -> JobView:
        return JobView("a", "board.run", "run", 0.0, encode(params))

    a, b = Subject(session, BOARD, "a.rknn"), Subject(session, BOARD, "b.rknn")
    one = Subject(session, BOARD, "a.rknn", "0")
    build = Subject(session, BOARD)
    subjects = (a, b, one, build)
    for subject in subjects:
        run = job(subject.run((), 1))
        assert [other.started(run) for other in subjects] == [
            other == subject for other in subjects
        ]
    for made in (job(a.memory()), job(a.comparison(None))):
        assert [other.started(made) for other in subjects] == [True, False, True, False]
    simulated = job(Subject(session).simulation((), 1, None, False))
    assert Subject(session, None, "a.rknn", "0").started(simulated), "the simulator has no file"
    assert not a.started(simulated)


@pytest.mark.long
async def test_a_long_live_table_stays_where_it_was_scrolled(
    app: Workbench, board: BoardAnswers, demo: Path
) -> None:
    row = look().layers[0]
    rows = tuple(replace(row, number=i, name=f"Conv:layer{i}", id=f"layer{i}") for i in range(300))
    board.answers["board.live"] = replace(look(), layers=rows)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_board(pilot, demo)
        await pilot.press("v", "L")
        table = workspace.results.timed.table
        await until(pilot, lambda: table.total == 300, "the layers")
        table.scroll_to(y=200, animate=False, force=True)
        await until(pilot, lambda: table.scroll_offset.y == 200, "it is scrolled by the wheel")
        for count in (2, 3):
            board.again(replace(look(), layers=rows))
            await until(pilot, lambda count=count: workspace.live.runs == count, "another run")
            assert table.scroll_offset.y == 200
        await pilot.press("end")
        await until(pilot, lambda: table.record == table.records[299], "the cursor moves")
        board.again(replace(look(), layers=rows[::-1]))
        await until(pilot, lambda: table.cursor == 0, "the row goes to the top")
        await until(pilot, lambda: table.scroll_offset.y == 0, "and is shown")


async def test_a_board_that_is_lost_ends_the_live_table_and_says_why(
    app: Workbench, board: BoardAnswers, demo: Path
) -> None:
    lost = DeviceLostError("The board is gone.", cause="Its cable.", remedy="Plug it in again.")
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_board(pilot, demo)
        board.answers["board.live"] = lost
        await pilot.press("v", "L")
        await until(pilot, lambda: "The board is gone. Its cable" in screen_text(app), "why")
        assert not workspace.live.on
        await pilot.press("R")
        await until(pilot, lambda: workspace.results.timed.table.total == 4, "the layers")
        assert "The board is gone" not in screen_text(app)


async def test_memory_and_the_reason_where_there_is_none(
    app: Workbench, board: BoardAnswers, demo: Path
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await on_board(pilot, demo)
        await pilot.press("v", "v", "r")
        await until(pilot, lambda: "Memory (emulated)" in screen_text(app), "the memory")
        text = screen_text(app)
        assert "whole model" in text
        assert "8.00 GiB" in text
        await pilot.press("y")
        assert app.clipboard == "Total Weight Memory: 1 MiB"
        none = memory(memory=None, reason="Generation 1 has no such query.", text="")
        board.answers["board.memory"] = none
        await pilot.press("r")
        await until(pilot, lambda: "Generation 1 has no such" in screen_text(app), "the reason")
        assert "not available on this runtime" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui memory ")


@pytest.mark.long
async def test_a_comparison_marks_the_first_layer_that_diverges(
    app: Workbench, board: BoardAnswers, demo: Path
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        workspace = await on_board(pilot, demo)
        await pilot.press("v", "v", "v")
        await until(pilot, lambda: "Nothing is compared yet" in screen_text(app), "the view")
        assert "Histograms" in grey_keys(app)
        await pilot.press("r")
        await until(pilot, lambda: "is the first layer that" in screen_text(app), "the verdict")
        table = workspace.results.compared.table
        assert [row["name"] for row in table.records] == list(LAYERS)
        assert [row["sign"] for row in table.records] == ["", "✗", ""]
        assert workspace.results.layer_id == "Conv_1"
        assert "Not given by the board: Relu_9" in screen_text(app)
        await pilot.press("m")
        await until(pilot, lambda: app.current == "model", "the layer in the graph")


async def test_a_container_is_compared_with_nothing() -> None:
    session = Session(lambda _message: None)
    session.model, session.path = model_view("a.rknn", kind="rknn"), "a.rknn"
    assert "open the model" in reason("run", "Compare", Subject(session, BOARD))
    assert "chooses a board" in reason("run", "Memory", Subject(session))
    assert not reason("run", "Memory", Subject(session, BOARD))
    assert Subject(session, BOARD).memory().path == "a.rknn"


@pytest.mark.long
async def test_names_of_strangers_steer_nothing(
    app: Workbench, board: BoardAnswers, demo: Path
) -> None:
    bad = "[bold red]x[/] \x1b[31m\x07" + "宽" * 300
    hostile = ran(device=bad, runtime=bad, notes=(bad,))
    layers = tuple(replace(row, name=bad, id=bad, op=bad, target=bad) for row in hostile.layers)
    hostile = replace(
        hostile, layers=layers, outputs=(replace(hostile.outputs[0], name=bad, label=bad),)
    )
    board.answers["board.run"] = hostile
    board.answers["compare.board"] = replace(comparison(), verdict=bad, missing=(bad,))
    board.answers["board.memory"] = memory(memory=None, reason=bad, runtime=bad)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_board(pilot, demo)
        for view in ("Outputs", "Layers", "Memory", "Compare"):
            workspace.results.bar.choose(view)
            await pilot.press("r")
            await until(pilot, lambda: "宽" in screen_text(app), view)
            text = screen_text(app)
            assert "[bold red]" in text
            assert not {"\x1b", "\x07"} & set(text)
            assert len(text.splitlines()) == SIZE[1]


@pytest.mark.parametrize("view", ["Outputs", "Layers", "Memory", "Compare"])
async def test_the_copied_command_is_one_that_the_command_line_takes(view: str) -> None:
    session = Session(lambda _message: None)
    x = Tensor("x", (1, 3), "float32")
    session.model_opened(model_view("m.onnx", inputs=(x,), recipe={"model": "m.onnx"}), "r.yaml")
    verb = {"Memory": "memory", "Compare": "compare"}.get(view, "run")
    for subject in (Subject(session, BOARD), Subject(session, BOARD, "compiled.rknn")):
        words = subject.command_line(view, {"x": "a b.npy"})
        assert words[:2] == ["rknntui", verb]
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        told = command.make_context(verb, words[2:]).params
        assert told["param_device"] == BOARD
        assert told.get("param_layers", False) in (view == "Layers", ())
        if verb != "memory":
            assert told["param_inputs"] == (str(Path("a b.npy").absolute()),)
        if subject.compiled:
            file = Path("compiled.rknn")
            model = told.get("path") or told.get("model") or told["param_compiled"]
            assert Path(model).absolute() == file.absolute()
    session.set_value("target_platform", "rk3588")
    assert bool(Subject(session, BOARD).command_line(view, {})) == (view == "Compare")
