"""Overview: every step and its state, the next one by Enter alone, and where to begin."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from engine import Finding, human_bytes
from engine.wire.build import BuildSummary
from engine.wire.dataset import DatasetFacts, FileProblem
from engine.wire.devices import Device, Listing
from engine.wire.requests import Checked, Problem
from rknntui.app import Workbench
from rknntui.demo import demo_folder, demo_recipe
from rknntui.screens.overview import words
from rknntui.session.background import Background
from rknntui.session.job_view_model import JobView
from rknntui.session.kept import State
from rknntui.session.state import Session
from rknntui.session.steps import STATES, next_step, steps
from rknntui.widgets.header_footer import step_tabs
from rknntui.workspaces import WORKSPACES
from scripts.tasks import TASKS
from tests.tui.conftest import Driver, driven, residual_model, screen_text, settle, until, workbench
from tests.tui.flow import model_view

SIZE = (80, 24)


def summary(**changes: object) -> BuildSummary:
    fields: dict[str, object] = {
        "key": "k", "name": "m", "quantized": True, "quantized_dtype": "w8a8",
        "quantized_algorithm": "normal", "quantized_method": "channel", "samples": 3,
        "float_bytes": 10, "quantized_bytes": 5, "container_bytes": 20, "nodes": 1, "layers": (),
        "outputs": (), "worst": (), "findings": (), "stages": (), "next_command": "",
    }  # fmt: skip
    return BuildSummary(**{**fields, **changes})  # type: ignore[arg-type]


def by_name(session: Session) -> dict[str, str]:
    return {step.name: step.sign for step in steps(session)}


def test_absent_loading_and_failed_have_signs_of_their_own() -> None:
    session = Session(lambda message: None)
    assert set(by_name(session).values()) == {"–"}
    assert next_step(steps(session)).action == "app.open"
    session.now_opening("m.onnx")
    assert by_name(session)["model"] == "…"
    session.now_opening("")
    session.recipe = {"model": "/m.onnx", "dataset": "/photos", "target_platform": "rk3588"}
    assert by_name(session)["dataset"] == "…"
    session.known("dataset", "There is no such folder.")
    assert by_name(session)["dataset"] == "✗"
    assert by_name(session)["estimate"] == "…"
    assert len({sign for sign, _ in STATES.values()}) == len(STATES), "each state has a sign"
    assert words.builds(session).empty == "… reading"
    session.builds = ()
    assert words.builds(session).empty == "– none yet"


def test_a_build_is_running_done_or_of_another_recipe() -> None:
    session = Session(lambda message: None)
    session.recipe = {"model": "/m.onnx", "do_quantization": False}
    assert by_name(session)["build"] == "○"
    job = JobView("1", "build", "build", 0.0, {"recipe": dict(session.recipe)})
    session.jobs.started(job)
    assert by_name(session)["build"] == "▶"
    job.state, job.seconds = "done", 2.5
    session.job_ended(job, summary(quantized=False))
    assert by_name(session)["build"] == "✓"
    build = next(step for step in steps(session) if step.name == "build")
    assert f"container {human_bytes(20)}" in build.text, "the size that Builds has"
    again = JobView("2", "build", "build", 1.0, {"recipe": dict(session.recipe)})
    session.jobs.started(again)
    again.state = "cancelled"
    assert by_name(session)["build"] == "✓", "the build before stands"
    again.state = "failed"
    assert by_name(session)["build"] == "✗"
    again.state = "cancelled"
    session.set_value("mean_values", [[1.0]])
    build = next(step for step in steps(session) if step.name == "build")
    assert (build.sign, build.action, build.seconds) == ("●", "app.build", 2.5)
    assert "mean_values" in build.text
    session.recipe_path = "/m.yaml"
    config = next(step for step in steps(session) if step.name == "config")
    assert (config.sign, "not saved" in config.text) == ("●", True)
    session.set_value("do_quantization", True)
    session.set_value("quantized_layers", {"Conv": "float16", "Conv_1": "int16"})
    config = next(step for step in steps(session) if step.name == "config")
    assert "2 layers promoted" in config.text
    session.undo()
    session.undo()
    found = {step.name: replace(step, state="done") for step in steps(session)}
    ready = (*steps(session)[1:], found["model"])
    assert next_step(ready).name == "build", "a change that is not saved holds nothing up"
    layers = next(tab for tab in step_tabs(session) if tab.name == "layers")
    assert (layers.sign, layers.figure) == ("●", "float"), "not the size of the build"


def test_a_problem_of_the_recipe_comes_before_everything_else() -> None:
    session = Session(lambda message: None)
    session.recipe = {"model": "/m.onnx", "do_quantization": False}
    session.set_problems(Checked((Problem("inputs", "is needed"),), (), ""))
    config = next(step for step in steps(session) if step.name == "config")
    assert (config.sign, config.figure, config.action) == ("✗", "1", "overview.problem")
    session.set_value("do_quantization", True)
    session.set_value("dataset", "/photos")
    gone = FileProblem(4, "gone.png", "gone.png does not exist.")
    many = Finding("many", "warning", "dataset", "There are many.")
    session.set_dataset(DatasetFacts(4, 4, (gone,), (), (many,)))
    dataset = next(step for step in steps(session) if step.name == "dataset")
    assert "photos · line 4: gone.png does not exist." in dataset.text
    first, second, third = words.findings(session)
    assert [one.where for one in (first, second)] == ["dataset", "inputs"], "problems stand first"
    assert "gone.png" in first.what
    assert third is many


async def test_an_answer_that_was_cut_short_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rknntui.session.background.REST", 0.0)
    background = Background(Session(lambda message: None), None)  # type: ignore[arg-type]
    recipe, asked, begun = "first", list[str](), asyncio.Event()

    async def question() -> None:
        asked.append(recipe)
        if recipe == "second":
            begun.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(background, "_needs", lambda: iter([("estimate", recipe, question)]))
    await background.work()
    await background.work()
    assert asked == ["first"], "what is known is not asked for again"
    recipe = "second"
    task = asyncio.ensure_future(background.work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    recipe = "first"  # as after an undo: some figures are those of the second now
    await background.work()
    assert asked == ["first", "second", "first"]


def test_a_board_by_ssh_is_possible_until_it_told_its_chip() -> None:
    session = Session(lambda message: None)
    session.boards.choose("ssh:pi@bench")
    session.boards.listing = Listing(
        (Device("ssh:pi@bench", "ssh", "not asked", "Not asked yet."),)
    )
    assert by_name(session)["board"] == "○"
    session.boards.chips["ssh:pi@bench"] = "rk3588"
    assert by_name(session)["board"] == "✓"


async def test_with_nothing_open_it_says_where_to_begin(own_home: Path, tmp_path: Path) -> None:
    recent = tmp_path / "recent.onnx"
    recent.write_text("x")
    app = Workbench(state_kept=False)
    app.session.recent = (str(recent), str(tmp_path / "gone.onnx"))
    async with driven(app) as pilot:
        await settle(pilot)
        await pilot.sees("recent.onnx")
        text = screen_text(app)
        assert "gone.onnx" not in text, "files that are gone are left out"
        assert "demo" in text
        assert "No model is open" in text


async def test_a_finding_in_the_same_words_brings_its_own_changes() -> None:
    app = Workbench(state_kept=False)
    async with app.run_test(size=SIZE):
        panel = app.workspace.panel("findings")
        for value in (1, 2):
            found = Finding("c", "warning", "w", "what", changes={"optimization_level": value})
            panel.show(words.Content("Findings", [found], words.finding_line))
            assert panel.item is found


async def test_a_named_file_is_being_opened_from_the_first_paint_on(tmp_path: Path) -> None:
    app = Workbench(str(tmp_path / "m.onnx"), state_kept=False)
    app.opener.open_first = never  # type: ignore[method-assign]
    async with driven(app) as pilot:
        await settle(pilot)
        assert "opening m.onnx" in screen_text(app)
        assert "No model is open" not in screen_text(app)
        for name in WORKSPACES:
            await app.show(name)
            await settle(pilot)
            assert "opening m.onnx" in "".join(screen_text(app).splitlines()[2:]), name
        app.session.now_opening("")
        await settle(pilot)
        assert "opening m.onnx" not in screen_text(app)


async def never(*_: object) -> None:
    """Opens nothing."""


@pytest.mark.usefixtures("warm")
async def test_enter_alone_builds_and_gains_and_times_come_by_themselves(own_home: Path) -> None:
    async with workbench(recipe={**demo_recipe(), "target_platform": "rk3588"}) as (app, pilot):
        await opened(pilot)
        assert app.workspace is not None
        await until(pilot, lambda: next_step(steps(app.session)).name == "build")
        await pilot.press("enter", until=lambda: app.session.summary is not None)
        panel = app.workspace.panel("promote")
        await until(pilot, lambda: panel.items, "gains")
        await until(pilot, lambda: app.session.layers.of("estimated"), "times of the chip")
        await pilot.sees("FPS", "simulated", "estimated")
        await until(pilot, lambda: next_step(steps(app.session)).name == "compile", "the next step")
        await until(pilot, lambda: app.session.layers.of("choice"), "the dtypes of layers")
        await settle(pilot)
        first, second, *_ = panel.items
        await pilot.press("space", rests=True)
        assert screen_text(app).splitlines()[0].strip().startswith("Promoted: "), "it is said"
        assert panel.items[0] == second, "what is promoted already stands last"
        assert panel.items[-1] == first
        assert set(app.session.recipe["quantized_layers"]) == {first.id, *first.together}
        assert next_step(steps(app.session)).name == "build", "the build is of another recipe now"
        await pilot.press("x", until=lambda: len(app.screen_stack) == 2)
        assert str(demo_folder()) not in app.screen.query_one("Input").value, "it is not ours"


async def opened(pilot: Driver) -> None:
    app = pilot.app
    await until(pilot, lambda: app.session.model is not None, "a model is open")
    await until(pilot, lambda: app.session.dataset is not None, "its samples are looked at")


@pytest.mark.usefixtures("warm")
async def test_two_promotions_and_an_export_with_four_keys(
    own_home: Path, zoo: Path, tmp_path: Path
) -> None:
    recipe = TASKS["b"].file(tmp_path, zoo, demo_folder())
    async with workbench(recipe) as (app, pilot):
        await opened(pilot)
        await pilot.press("b", until=lambda: app.session.summary is not None)
        panel = app.workspace.panel("promote")
        await until(pilot, lambda: len(panel.items) > 1 and panel.items[0].promote_ms, "gains")
        best = {name for row in panel.items[:2] for name in (row.id, *row.together)}
        assert len({row.id for row in app.workspace.panel("time").items}) == len(
            app.workspace.panel("time").items
        ), "steps of a layer are one row"
        await pilot.press("space", "space", "x", until=lambda: len(app.screen_stack) == 2)
        await pilot.press("enter")
        await until(pilot, recipe.with_suffix(".rknn").is_file, "the export")
        assert set(app.session.recipe["quantized_layers"]) == best, "these and no others"


@pytest.mark.usefixtures("warm")
async def test_the_model_of_the_open_recipe_is_opened_without_it(
    own_home: Path, tmp_path: Path
) -> None:
    model = residual_model(1, tmp_path / "m.onnx")
    recipe = tmp_path / "m.yaml"
    recipe.write_text(
        "version: 1\nsource:\n  model: m.onnx\npreprocess:\n  mean_values: [[1, 1, 1, 1]]\n"
    )
    async with workbench(recipe) as (app, pilot):
        await until(pilot, lambda: app.session.recipe_path == str(recipe), "the recipe is open")
        app.open_path(str(model))
        await until(pilot, lambda: app.session.path == str(model), "the model is open")
        assert app.session.recipe_path is None
        assert "mean_values" not in app.session.recipe
        assert app.session.recent == (str(model), str(recipe))


def test_where_no_toolkit_is_an_export_stands_for_the_compilation() -> None:
    session = Session(lambda message: None)
    session.recipe = {"model": "/m.onnx", "do_quantization": False, "target_platform": "rk3588"}
    session.summary = summary(quantized=False)
    session.built = dict(session.recipe)
    compiled = {step.name: step for step in steps(session)}["compile"]
    assert (compiled.sign, compiled.action) == ("○", "overview.compile")
    session.toolkits = ()
    compiled = {step.name: step for step in steps(session)}["compile"]
    assert (compiled.sign, compiled.action) == ("○", "overview.export")
    job = JobView("1", "export", "export", 0.0, {"recipe": dict(session.recipe), "path": "/m.rknn"})
    job.state = "done"
    session.jobs.started(job)
    compiled = {step.name: step for step in steps(session)}["compile"]
    assert compiled.sign == "!"
    assert "m.rknn exported" in compiled.text


def test_files_that_were_open_are_kept() -> None:
    session = Session(lambda message: None)
    session.restore(State(recent=("/a.onnx", "/b.onnx")))
    assert session.recent == ("/a.onnx", "/b.onnx")
    assert session.to_state().recent == ("/a.onnx", "/b.onnx")


def test_a_container_says_what_needs_its_model() -> None:
    session = Session(lambda message: None)
    session.path = "/m.rknn"
    session.model = model_view("/m.rknn", kind="rknn")
    compiled = {step.name: step for step in steps(session)}["compile"]
    assert (compiled.sign, compiled.text) == ("–", "open the model to compile it")
    empty = words.promotions(session, (), {}).empty
    assert "open its model" in empty
    assert len(empty) < 39, "a pane at 80 columns has it whole"
