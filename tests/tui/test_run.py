"""Workspace Run, by keys alone at 80x24."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.wire.build import Simulated
from rknntui.app import Workbench
from rknntui.screens.dialogs.dialogs import ConfirmDialog
from rknntui.screens.result.workspace import Run
from tests.tui.conftest import screen_text, until
from tests.tui.flow import choose_path, visited, write_recipe

SIZE = (80, 24)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


async def test_a_picture_runs_with_its_largest_values_and_is_saved(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Run)
        await pilot.press("r")
        picture = demo / "calibration" / "005.png"
        await choose_path(pilot, picture)
        await pilot.press("r")
        await until(pilot, lambda: "Top 5 of logits" in screen_text(app), "largest values")
        text = screen_text(app)
        assert "simulated" in text
        assert "measured, no NPU time" in text
        output = workspace.outputs.records[0]
        assert output.shape == (1, 10)
        values = [item.value for item in output.top]
        assert values == sorted(values, reverse=True)
        assert values[0] == output.maximum
        await pilot.press("plus")
        await until(pilot, lambda: "Top 10 of logits" in screen_text(app), "more values")

        await pilot.press("w")
        await choose_path(pilot, tmp_path / "outputs")
        saved = tmp_path / "outputs" / "logits.npy"
        await until(pilot, saved.is_file, "a file")
        array = np.load(saved, allow_pickle=False)
        assert array.shape == (1, 10)
        assert float(array.max()) == pytest.approx(values[0])
        await pilot.press("Y")
        line = f"rknntui simulate {tmp_path / 'demo.yaml'} --input {picture}"
        assert app.clipboard == line

        await pilot.press("t")
        await until(pilot, lambda: "simulator, reference" in screen_text(app), "both arithmetics")
        await pilot.press("down", "enter")
        await until(pilot, lambda: workspace.results.run is None, "the other arithmetic")
        await pilot.press("r")
        await until(pilot, lambda: workspace.results.run is not None, "its result")
        assert isinstance(workspace.results.run, Simulated)
        assert workspace.results.run.arithmetic == "reference"
        assert "quantized, reference, simulated" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard == f"{line} --arithmetic reference"

        await pilot.press("t")
        await until(pilot, lambda: "reference, as compiled" in screen_text(app), "both levels")
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: workspace.results.run is None, "as compiled")
        assert "simulator, reference, as compiled" in screen_text(app)
        await pilot.press("r")
        await until(pilot, lambda: workspace.results.run is not None, "its result")
        assert isinstance(workspace.results.run, Simulated)
        assert workspace.results.run.as_compiled
        assert "quantized, reference, as compiled, simulated" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard == f"{line} --as-compiled --arithmetic reference"


@pytest.mark.long
async def test_exports_qdq_onnx_and_asks_before_it_replaces(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "digits-qdq.onnx"
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await visited(pilot, Run)
        await pilot.press("x")
        await until(pilot, lambda: "runs on no NPU" in screen_text(app), "what it is good for")
        await pilot.press("down", "r")
        await choose_path(pilot, out)
        await until(pilot, lambda: "SHA-256" in screen_text(app), "what was written")
        assert "do_quantization=False" in screen_text(app)  # how it is used
        await pilot.press("escape")
        model = onnx.load(out)
        assert {o.domain: o.version for o in model.opset_import}[""] == 19
        assert any(node.op_type == "QuantizeLinear" for node in model.graph.node)

        out.write_bytes(b"mine")
        await pilot.press("enter")
        await choose_path(pilot, out)
        await until(pilot, lambda: type(app.screen).__name__ == "ConfirmDialog", "a question")
        assert out.read_bytes() == b"mine"
        await pilot.press("n")
        assert out.read_bytes() == b"mine"
        await pilot.press("enter")
        await choose_path(pilot, out)
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog), "a question")
        await pilot.press("y")
        await until(pilot, lambda: "SHA-256" in screen_text(app), "the new file")
        assert out.read_bytes() != b"mine"


@pytest.mark.long
async def test_a_file_that_does_not_fit_is_told_with_its_remedy(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "wrong.npy", np.zeros((3, 3, 3), np.float32))
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await visited(pilot, Run)
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
