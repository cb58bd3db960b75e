"""Workspace Result, by keys alone at 80x24."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rknntui.screens.result.workspace import Result
from tests.tui.conftest import screen_text, until, write_recipe
from tests.tui.flow import choose_path, opened

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("warm")


async def test_a_picture_runs_beside_float_and_is_saved(
    demo: Path, tmp_path: Path, digits: Path
) -> None:
    async with opened(digits, Result) as (app, pilot, workspace):
        await pilot.press("e")
        picture = demo / "calibration" / "005.png"
        await choose_path(pilot, picture)
        await pilot.press("r")
        await pilot.sees("Largest values of logits · 10", "measured, no NPU time", "005.png")
        await pilot.sees("dB from float (simulated). The largest value is at")
        output = workspace.outputs.records[0]
        assert output.shape == (1, 10)
        values = [item.value for item in output.top]
        assert values == sorted(values, reverse=True)
        assert values[0] == output.maximum
        assert output.beside.at[0] == pytest.approx(values[0], abs=0.5)

        await pilot.press("x")
        await choose_path(pilot, tmp_path / "outputs")
        await until(pilot, lambda: app.session.built == app.session.recipe, "its build is known")
        saved = tmp_path / "outputs" / "logits.npy"
        await until(pilot, saved.is_file, "a file")
        array = np.load(saved, allow_pickle=False)
        assert array.shape == (1, 10)
        assert float(array.max()) == pytest.approx(values[0])
        await pilot.press("Y")
        line = f"rknntui simulate {tmp_path / 'demo.yaml'} --input {picture}"
        assert app.clipboard == line

        await pilot.press("c")
        assert workspace.results.run is None
        await pilot.press("r", until=lambda: workspace.results.run is not None)
        assert workspace.results.run.arithmetic == "reference"
        assert "quantized, reference, simulated" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard == f"{line} --arithmetic reference"

        await pilot.press("v", "r", until=lambda: workspace.results.run is not None)
        assert workspace.results.run.as_compiled
        assert "quantized, reference, as compiled" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard == f"{line} --as-compiled --arithmetic reference"
        await pilot.press("V")
        assert not workspace.results.run.as_compiled


async def test_samples_are_taken_in_turn_and_results_stay_with_their_model(
    demo: Path, tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path, demo, 3)
    async with opened(recipe, Result) as (app, pilot, workspace):
        for key, sample in (("r", 1), ("right_square_bracket", 2), ("left_square_bracket", 1)):
            before = workspace.results.run
            await pilot.press(key)
            await until(pilot, lambda before=before: workspace.results.run not in (None, before))
            assert f"sample {sample} of 3" in screen_text(app)
        await pilot.press("left_square_bracket", sees="sample 3 of 3")
        app.open_path(str(recipe))
        await until(pilot, lambda: app.session.opening == "", "the same recipe again")
        assert workspace.results.run is not None
        assert workspace.outputs.total == 1
        app.session.set_value("quantized_algorithm", "mmse")
        await pilot.sees("changed since")
        app.open_path(str(demo / "digits_demo.onnx"))
        await until(pilot, lambda: app.session.opening == "", "its model")
        assert workspace.outputs.total == 1


@pytest.mark.long
async def test_labelled_samples_are_scored(demo: Path, tmp_path: Path, digits: Path) -> None:
    labels = tmp_path / "labels.txt"
    pictures = sorted((demo / "calibration").glob("*.png"))[:4]
    labels.write_text("".join(f"{path} {at}\n" for at, path in enumerate(pictures)))
    async with opened(digits, Result) as (app, pilot, workspace):
        workspace.results.bar.choose("Score")
        await pilot.sees("Nothing scored yet")
        assert "no build yet" in workspace.disabled_reason("run")
        await pilot.press("b", until=lambda: app.session.summary is not None)
        await pilot.press("6", "e")
        await choose_path(pilot, labels)
        await pilot.sees("4 samples of labels.txt")
        assert [row["name"] for row in workspace.results.score.table.records][:1] == ["top-1"]
        await pilot.press("Y")
        assert app.clipboard.endswith(f"--labels {labels}")
