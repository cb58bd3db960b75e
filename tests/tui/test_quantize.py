"""Workspace Quantize, by keys alone at 80x24."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rknntui.app import Workbench
from rknntui.screens.accuracy.workspace import Accuracy
from rknntui.screens.quantize.workspace import Quantize
from rknntui.widgets.records import RecordTable
from rknntui.widgets.summary import SummaryRows
from tests.tui.conftest import residual_model, screen_text, until
from tests.tui.flow import choose_path, pictures, visited, write_recipe

SIZE = (80, 24)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


async def test_builds_with_stages_and_log_then_shows_the_summary(
    demo: Path, tmp_path: Path
) -> None:
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Quantize)
        assert "Not built yet" in screen_text(app)
        await pilot.press("b")
        await until(pilot, lambda: app.session.summary is not None, "a build")
        await until(pilot, lambda: workspace.bar.current == "Summary", "its summary")
        text = screen_text(app)
        assert "✓ built" in text
        assert "float graph" in text
        assert "quantized layers run on integer kernels" in text
        summary = workspace.query_one(SummaryRows)
        whole = summary.text()
        assert "simulated against float" in whole
        assert "measured on this machine" in whole
        assert f"rknntui export {demo / 'digits_demo.onnx'}"[:40] in whole
        await pilot.press("V")
        for title in ("Load the model", "Calibrate", "Quantize", "Compare", "Pack"):
            await until(pilot, lambda title=title: f"✓ {title}" in screen_text(app), title)
        await pilot.press("v", "y")
        assert app.clipboard.startswith("Build\n")
        await pilot.press("Y")
        assert app.clipboard == f"rknntui build {tmp_path / 'demo.yaml'}"


async def test_worst_layers_lead_to_their_histograms(demo: Path, tmp_path: Path) -> None:
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Quantize)
        await pilot.press("b")
        await until(pilot, lambda: app.session.summary is not None, "a build")
        await until(pilot, lambda: workspace.bar.current == "Summary", "its summary")
        rows = workspace.query_one(SummaryRows)
        worst = app.session.summary.worst[1]
        while rows.target != ("layer", worst.layer):
            await pilot.press("down")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.workspace, Accuracy), "Accuracy")
        await until(pilot, lambda: "reference (float)" in screen_text(app), "its histograms")
        assert worst.layer in screen_text(app)


@pytest.mark.long
async def test_layers_and_ranges_are_tables_that_are_written_to_files(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Quantize)
        await pilot.press("b")
        await until(pilot, lambda: app.session.summary is not None, "a build")
        await until(pilot, lambda: workspace.bar.current == "Summary", "its summary")
        await pilot.press("v")
        layers = workspace.query_one("#layers", RecordTable)
        assert len(layers.records) == len(app.session.summary.layers)
        assert "✓ integer" in screen_text(app)
        await pilot.press("v")
        ranges = workspace.query_one("#ranges", RecordTable)
        await until(pilot, lambda: ranges.total > 0, "ranges")
        await until(pilot, lambda: "int8" in screen_text(app), "types")
        await pilot.press("E")
        await choose_path(pilot, tmp_path / "ranges.json")
        await until(pilot, (tmp_path / "ranges.json").is_file, "a file")
        written = json.loads((tmp_path / "ranges.json").read_bytes())
        assert len(written) == ranges.total
        assert {row["dtype"] for row in written} >= {"int8", "int32"}


async def test_a_problem_leads_to_its_field(demo: Path) -> None:
    app = Workbench(str(demo / "digits_demo.onnx"), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await visited(pilot, Quantize)
        assert "3  chooses calibration samples" in screen_text(app)
        await pilot.press("b")
        await until(pilot, lambda: app.current == "recipe", "Configure")
        await until(pilot, lambda: "▸✗dataset" in screen_text(app), "the field")
        assert app.session.running is None


async def test_escape_asks_and_y_stops_the_build(
    tmp_path: Path,
) -> None:
    model = residual_model(60, tmp_path / "slow.onnx")
    folder = pictures(tmp_path / "photos", 1)
    listed = tmp_path / "dataset.txt"
    np.save(folder / "x.npy", np.zeros((1, 4, 8, 8), np.float32))
    listed.write_text("photos/x.npy\n" * 4000, encoding="utf-8")
    app = Workbench(str(model), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await visited(pilot, Quantize)
        app.session.set_values({"dataset": str(listed)})
        await pilot.press("b")
        await until(pilot, lambda: app.session.running is not None, "a build runs")
        await until(pilot, lambda: "s elapsed, Esc stops" in screen_text(app), "its line")
        await until(pilot, lambda: "/4,000" in screen_text(app), "progress of a stage")
        await pilot.press("escape")
        await until(pilot, lambda: "Stop “" in screen_text(app), "a question")
        await pilot.press("y")
        await until(pilot, lambda: app.session.running is None, "it stopped")
        await until(pilot, lambda: "✗ Build cancelled" in screen_text(app), "said so")
        assert app.session.summary is None
