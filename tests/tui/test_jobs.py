"""Workspace Jobs, by keys alone at 80x24, over the real worker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine import list_jobs
from engine.wire.build import BUILD, BuildParams
from rknntui.app import Workbench
from rknntui.screens.builds.workspace import differences
from rknntui.session.job_view_model import JobView
from rknntui.workspaces import keys_of
from tests.safety import PATIENCE
from tests.tui.conftest import screen_text, settle, until
from tests.tui.terminal import Terminal

SIZE = (80, 24)


def pane_text(app: Workbench) -> str:
    return "\n".join(line.rstrip() for line in screen_text(app).splitlines()[9:])


@pytest.mark.long
async def test_history_log_rerun_compare_and_stop(demo: Path) -> None:
    app = Workbench(str(demo / "digits_demo.onnx"))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.session.model is not None, "the model is open")
        await pilot.press(keys_of("builds")[0])
        await until(pilot, lambda: "No jobs yet." in screen_text(app), "the empty history")
        app.session.set_value("dataset", str(demo / "dataset.txt"))
        app.start_job(BUILD, BuildParams(recipe=app.session.recipe), "digits_demo.onnx")
        await until(pilot, lambda: app.session.summary is not None, "the build is done")
        await until(pilot, lambda: "done" in screen_text(app), "the history says so")
        assert "✓ Calibrate" in pane_text(app)
        assert "tensors quantized to w8a8" in pane_text(app)

        app.session.set_value("quantized_method", "layer")
        await pilot.press("r")
        await until(pilot, lambda: len(list_jobs(9)) == 2 and app.session.running is None, "rerun")
        await until(pilot, lambda: "from the cache" in pane_text(app), "stages from the cache")

        app.start_job(BUILD, BuildParams(recipe=app.session.recipe), "digits_demo.onnx")
        await until(pilot, lambda: len(list_jobs(9)) == 3 and app.session.running is None, "third")
        states = lambda: [record.state for record in app.workspace._records]  # noqa: E731
        await until(pilot, lambda: states() == ["done"] * 3, "three jobs are shown as done")
        await pilot.press("g", "m", "j", "c")
        await until(pilot, lambda: "quantized_method" in screen_text(app), "the difference")
        await pilot.press("escape")

        await pilot.press("slash", *"nothing like it")
        await settle(pilot)
        assert app.workspace.history.row_count == 0
        await pilot.press("escape")
        assert app.workspace.history.row_count == 3
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui build ")
        assert "--dataset" in app.clipboard


async def test_esc_asks_and_y_stops(demo: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    lines = [
        str(demo / line) for line in (demo / "dataset.txt").read_text().split() if line.strip()
    ]
    many.write_text("\n".join(lines * 60))
    app = Workbench(str(demo / "digits_demo.onnx"))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.session.model is not None, "the model is open")
        await pilot.press(keys_of("builds")[0])
        app.session.set_value("dataset", str(many))
        app.start_job(BUILD, BuildParams(recipe=app.session.recipe), "digits_demo.onnx")
        await until(
            pilot,
            lambda: app.session.running is not None and "calibrate" in app.session.running.stages,
            "it calibrates",
        )
        await pilot.press("escape")
        await settle(pilot)
        assert "Stop “" in screen_text(app)
        await pilot.press("n")
        assert app.session.running is not None
        await pilot.press("escape", "y")
        await until(pilot, lambda: app.session.running is None, "it stopped")
        await until(pilot, lambda: "cancelled" in screen_text(app), "the history says so")
        assert list_jobs(1)[0].state == "cancelled"


async def test_a_failed_job_is_explained(demo: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("missing.png\n")
    app = Workbench(str(demo / "digits_demo.onnx"))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.session.model is not None, "the model is open")
        await pilot.press(keys_of("builds")[0])
        recipe = {**app.session.recipe, "dataset": str(wrong)}
        app.start_job(BUILD, BuildParams(recipe=recipe), "digits_demo.onnx")
        await until(pilot, lambda: len(app.screen_stack) > 1, "a dialog")
        await settle(pilot)
        text = screen_text(app)
        assert "missing.png" in text
        assert "Fix" in text
        await pilot.press("escape")
        await until(pilot, lambda: "failed" in screen_text(app), "the history says so")


@pytest.mark.long
def test_a_lost_terminal_loses_no_job(demo: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    lines = [str(demo / line) for line in (demo / "dataset.txt").read_text().split()]
    many.write_text("\n".join(lines * 20))
    recipe = {"model": str(demo / "digits_demo.onnx"), "dataset": str(many)}
    code = (
        "import sys\n"
        "from engine.wire.build import BUILD, BuildParams\n"
        "from rknntui.app import Workbench\n"
        f"recipe = {recipe!r}\n"
        "app = Workbench(recipe=recipe)\n"
        "app.bind('x', 'go_on')\n"
        "params = BuildParams(recipe=recipe)\n"
        "type(app).action_go_on = lambda self: self.start_job(BUILD, params, 'demo')\n"
        "app.run()\n"
    )
    first = Terminal(code=code)
    try:
        first.wait_for("idle")
        first.type("x")
        first.wait_for("build calibrate")
        first.hang_up()
        first.process.wait(PATIENCE)
    finally:
        first.close()
    assert list_jobs(1)[0].state == "running"
    second = Terminal()
    try:
        second.wait_for("build ")
        second.type(keys_of("builds")[0])
        second.wait_for("found again")
        second.wait_for("done", 60)
        second.type("q")
        assert second.ended() == 0
    finally:
        second.close()
    assert list_jobs(1)[0].state == "done"


async def test_quitting_with_a_job_asks(demo: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    lines = [str(demo / line) for line in (demo / "dataset.txt").read_text().split()]
    many.write_text("\n".join(lines * 60))
    app = Workbench(str(demo / "digits_demo.onnx"))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.session.model is not None, "the model is open")
        recipe = {**app.session.recipe, "dataset": str(many)}
        app.start_job(BUILD, BuildParams(recipe=recipe), "digits_demo.onnx")
        await until(pilot, lambda: app.session.running is not None, "it runs")
        await pilot.press("q")
        await settle(pilot)
        assert "If it is kept" in screen_text(app)
        await pilot.press("s")
        assert app.is_running
        await pilot.press("q", "c")
    for _ in range(400):
        if list_jobs(1)[0].state != "running":
            break
        await asyncio.sleep(0.05)
    assert list_jobs(1)[0].state == "cancelled"


def test_differences_name_what_changed() -> None:
    lines = differences(
        {"recipe": {"a": 1, "b": 2}},
        {"recipe": {"a": 1, "b": 3}},
        {"outputs": [{"name": "x", "sqnr": 30.0}], "same": 1},
        {"outputs": [{"name": "x", "sqnr": 31.5}], "same": 1},
    )
    text = "\n".join("".join(part for part, _ in line) for line in lines)
    assert "b" in text
    assert "2  →  3" in text
    assert "outputs[x].sqnr" in text
    assert "30  →  31.5" in text
    assert "same" not in text


def test_a_view_survives_events_of_unknown_stages() -> None:
    from engine import Finished, Progress

    view = JobView("1", "build", "x", 0.0)
    view.apply(Progress("calibrate", 5, 10))
    assert view.fraction == pytest.approx(0.5)
    view.apply(Finished("done", 1.0))
    assert view.fraction == 1.0
