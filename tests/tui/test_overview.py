"""Overview: every step and its state, the next one by Enter alone, and where to begin."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.wire.build import BuildSummary
from rknntui.app import Workbench
from rknntui.demo import demo_recipe
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session
from rknntui.session.steps import SIGNS, next_step, steps
from tests.tui.conftest import screen_text, settle, until

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
    assert next_step(session).action == "app.open"
    session.now_opening("m.onnx")
    assert by_name(session)["model"] == "…"
    session.now_opening("")
    session.recipe = {"model": "/m.onnx", "dataset": "/photos", "target_platform": "rk3588"}
    assert by_name(session)["dataset"] == "…"
    session.known("dataset", "There is no such folder.")
    assert by_name(session)["dataset"] == "✗"
    assert by_name(session)["estimate"] == "…"
    assert len(set(SIGNS.values())) == len(SIGNS), "each state has a sign"


def test_a_build_is_running_done_or_of_another_recipe() -> None:
    session = Session(lambda message: None)
    session.recipe = {"model": "/m.onnx", "do_quantization": False}
    assert by_name(session)["build"] == "○"
    job = JobView("1", "build", "build", 0.0, {"recipe": dict(session.recipe)})
    session.job_started(job)
    assert by_name(session)["build"] == "▶"
    job.state, job.seconds = "done", 2.5
    session.job_ended(job, summary(quantized=False))
    assert by_name(session)["build"] == "✓"
    session.set_value("mean_values", [[1.0]])
    build = next(step for step in steps(session) if step.name == "build")
    assert (build.sign, build.action, build.seconds) == ("●", "app.build", 2.5)
    assert "mean_values" in build.text


def test_a_problem_of_the_recipe_comes_before_everything_else() -> None:
    session = Session(lambda message: None)
    session.recipe = {"model": "/m.onnx", "do_quantization": False}
    session.set_problems({"inputs": "is needed"}, ())
    config = next(step for step in steps(session) if step.name == "config")
    assert (config.sign, config.figure, config.action) == ("✗", "1", "overview.problem")


@pytest.mark.usefixtures("no_engine")
async def test_with_nothing_open_it_says_where_to_begin(own_home: Path, tmp_path: Path) -> None:
    recent = tmp_path / "recent.onnx"
    recent.write_text("x")
    app = Workbench(state_kept=False)
    app.session.recent = (str(recent), str(tmp_path / "gone.onnx"))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        text = screen_text(app)
        assert "recent.onnx" in text
        assert "gone.onnx" not in text, "files that are gone are left out"
        assert "demo" in text
        assert "No model is open" in text


@pytest.mark.usefixtures("no_engine")
async def test_a_named_file_is_being_opened_from_the_first_paint_on(tmp_path: Path) -> None:
    app = Workbench(str(tmp_path / "m.onnx"), state_kept=False)
    app.opener.open_first = never  # type: ignore[method-assign]
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert "opening m.onnx" in screen_text(app)
        assert "No model is open" not in screen_text(app)


async def never(*_: object) -> None:
    """Opens nothing."""


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("warm")
async def test_enter_alone_builds_and_gains_and_times_come_by_themselves(own_home: Path) -> None:
    app = Workbench(recipe={**demo_recipe(), "target_platform": "rk3588"}, state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        assert app.workspace is not None
        await until(pilot, lambda: next_step(app.session).name == "build", "the build is next")
        await pilot.press("enter")
        await until(pilot, lambda: app.session.summary is not None, "it is built")
        panel = app.workspace.panel("promote")
        await until(pilot, lambda: panel.items, "gains")
        await until(pilot, lambda: app.session.layers.of("estimated"), "times of the chip")
        await until(pilot, lambda: "FPS" in screen_text(app), "frames a second")
        text = screen_text(app)
        assert "simulated" in text
        assert "estimated" in text
        await until(pilot, lambda: next_step(app.session).name == "compile", "the next step")
        await until(pilot, lambda: app.session.layers.of("choice"), "the dtypes of layers")
        await pilot.press("space")
        await settle(pilot)
        assert len(app.session.recipe["quantized_layers"]) == 1
        assert next_step(app.session).name == "build", "the build is of another recipe now"


async def opened(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, Workbench)
    await until(pilot, lambda: app.session.model is not None, "a model is open")
    await until(pilot, lambda: app.session.dataset is not None, "its samples are looked at")
