"""Workspace Result, by keys alone at 80x24."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.wire.build import Simulated
from rknntui.app import Workbench
from rknntui.screens.result.workspace import Result
from tests.tui.conftest import screen_text, until
from tests.tui.flow import choose_path, visited, write_recipe

SIZE = (80, 24)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


async def test_a_picture_runs_beside_float_and_is_saved(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Result)
        await pilot.press("e")
        picture = demo / "calibration" / "005.png"
        await choose_path(pilot, picture)
        await pilot.press("r")
        await until(
            pilot, lambda: "Largest values of logits · 10" in screen_text(app), "all values"
        )
        text = screen_text(app)
        assert "measured, no NPU time" in text
        assert "005.png" in text
        assert "dB from float (simulated). The largest value is at" in " ".join(text.split())
        output = workspace.outputs.records[0]
        assert output.shape == (1, 10)
        values = [item.value for item in output.top]
        assert values == sorted(values, reverse=True)
        assert values[0] == output.maximum
        assert output.beside is not None
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
        await pilot.press("r")
        await until(pilot, lambda: workspace.results.run is not None, "the other arithmetic")
        assert isinstance(workspace.results.run, Simulated)
        assert workspace.results.run.arithmetic == "reference"
        assert "quantized, reference, simulated" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard == f"{line} --arithmetic reference"

        await pilot.press("v", "r")
        await until(pilot, lambda: workspace.results.run is not None, "as compiled")
        assert isinstance(workspace.results.run, Simulated)
        assert workspace.results.run.as_compiled
        assert "quantized, reference, as compiled" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard == f"{line} --as-compiled --arithmetic reference"
        await pilot.press("V")
        assert isinstance(workspace.results.run, Simulated)
        assert not workspace.results.run.as_compiled


async def test_samples_are_taken_in_turn_and_results_stay_with_their_model(
    demo: Path, tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path, demo, 3)
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Result)
        for key, sample in (("r", 1), ("right_square_bracket", 2), ("left_square_bracket", 1)):
            before = workspace.results.run
            await pilot.press(key)
            await until(
                pilot, lambda before=before: workspace.results.run not in (None, before), key
            )
            assert f"sample {sample} of 3" in screen_text(app)
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "sample 3 of 3" in screen_text(app), "the last one")
        app.open_path(str(recipe))
        await until(pilot, lambda: app.session.opening == "", "the same recipe again")
        assert workspace.results.run is not None
        assert workspace.outputs.total == 1
        app.session.set_value("quantized_algorithm", "mmse")
        await until(pilot, lambda: "changed since" in screen_text(app), "that it is outdated")
        app.open_path(str(demo / "digits_demo.onnx"))
        await until(pilot, lambda: app.session.opening == "", "its model")
        assert workspace.outputs.total == 1


@pytest.mark.long
async def test_labelled_samples_are_scored(demo: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    pictures = sorted((demo / "calibration").glob("*.png"))[:4]
    labels.write_text("".join(f"{path} {at}\n" for at, path in enumerate(pictures)))
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Result)
        workspace.results.bar.choose("Score")
        await until(pilot, lambda: "Nothing scored yet" in screen_text(app), "the view")
        assert "no build yet" in workspace.disabled_reason("run")
        await pilot.press("b")
        await until(pilot, lambda: app.session.summary is not None, "a build")
        await pilot.press("6", "e")
        await choose_path(pilot, labels)
        await until(pilot, lambda: "4 samples of labels.txt" in screen_text(app), "the scores")
        assert [row["name"] for row in workspace.results.score.table.records][:1] == ["top-1"]
        await pilot.press("Y")
        assert app.clipboard.endswith(f"--labels {labels}")


@pytest.mark.long
async def test_a_file_that_does_not_fit_is_told_with_its_remedy(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "wrong.npy", np.zeros((3, 3, 3), np.float32))
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await visited(pilot, Result)
        await pilot.press("e")
        await choose_path(pilot, tmp_path / "wrong.npy")
        await pilot.press("r")
        await until(pilot, lambda: type(app.screen).__name__ == "ErrorDialog", "an error")
        text = screen_text(app)
        assert "wrong.npy" in text
        assert "Fix" in text
        await pilot.press("escape")
        await until(pilot, lambda: app.session.running is None, "the workbench lives on")
        assert app.current == "result"
