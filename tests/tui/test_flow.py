"""The main job by keys alone at 80x24, ending with a file that loads."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine import RKNN
from rknntui.app import Workbench
from rknntui.screens.layers.workspace import Layers
from rknntui.screens.result.workspace import Result
from rknntui.workspaces import keys_of
from tests.tui.conftest import screen_text, until
from tests.tui.flow import choose_path, pictures, press_text, shown, write_recipe


async def test_the_main_job_from_a_model_to_a_container_that_loads(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = pictures(tmp_path / "photos", 10)
    model = tmp_path / "digits.onnx"
    shutil.copyfile(demo / "digits_demo.onnx", model)
    out, listed = tmp_path / "digits.rknn", tmp_path / "dataset.txt"
    async with Workbench(state_kept=False).run_test(size=(80, 24)) as pilot:
        app = shown(pilot)
        # open
        await pilot.press("o")
        await choose_path(pilot, model)
        await until(pilot, lambda: app.session.model is not None, "a model is open")

        # dataset from a folder
        await pilot.press("2", "v", "L")
        await press_text(pilot, str(folder))
        await pilot.press("down")
        await press_text(pilot, str(listed))
        await pilot.press("enter")
        await until(pilot, lambda: app.session.recipe.get("dataset") == str(listed), "a list")
        await until(pilot, lambda: "10 samples" in screen_text(app), "its samples are counted")
        await until(pilot, lambda: "no problems" in screen_text(app), "they are good")

        # mean and std: one choice sets both
        await pilot.press("escape", "slash")
        await press_text(pilot, "mean_v")
        await pilot.press("enter", "enter")
        await press_text(pilot, "127.5")
        await pilot.press("enter")
        assert app.session.recipe["mean_values"] == [[127.5]]
        assert app.session.recipe["std_values"] == [[127.5]]

        # build
        await pilot.press("b")
        await until(pilot, lambda: app.session.summary is not None, "a build")
        await until(pilot, lambda: "quantized layers run on integer kernels" in screen_text(app))

        # worst layer
        await pilot.press("t")
        await until(pilot, lambda: app.current == "layers", "Layers")
        await pilot.press("d")
        worst = app.session.summary.worst[0].layer
        await until(pilot, lambda: "reference (float)" in screen_text(app), "histograms")
        assert worst in screen_text(app)
        assert isinstance(app.workspace, Layers)

        # run
        await pilot.press(keys_of("result")[0], "r")
        await until(pilot, lambda: "stroke" in screen_text(app), "a calibration sample")
        await until(pilot, lambda: "Top " in screen_text(app), "outputs")
        assert isinstance(app.workspace, Result)
        before = app.workspace.outputs.records[0]
        sample = Path(app.workspace.inputs.records[0]["file"])
        assert sample.parent == folder

        # export
        await pilot.press(keys_of("layers")[0], "x")
        await choose_path(pilot, out)
        await until(pilot, out.is_file, "the container")

        # load it again, and run it
        await pilot.press("o")
        await choose_path(pilot, out)
        await until(pilot, lambda: app.session.container == str(out), "the container is open")
        await pilot.press(keys_of("result")[0], "e")
        await choose_path(pilot, sample)
        await pilot.press("r")
        run = app.workspace
        assert isinstance(run, Result)
        await until(pilot, lambda: bool(run.outputs.records), "outputs of the container")
        assert app.workspace.outputs.records[0].top == before.top

    rknn = RKNN()
    assert rknn.load_rknn(str(out)) == 0
    assert rknn.init_runtime() == 0
    pixels = np.asarray(Image.open(sample))
    outputs = rknn.inference(inputs=[pixels.reshape(1, 8, 8, 1)], data_format="nhwc")
    assert float(np.max(outputs[0])) == pytest.approx(before.top[0].value, abs=1e-5)
    rknn.release()


def test_no_workspace_brings_numbers_or_models_into_the_interface() -> None:
    heavy = "numpy onnx onnx_ir onnxruntime yaml PIL adbutils sympy"
    code = (
        "import sys; from rknntui.workspaces import keys_of, load_all; load_all(); "
        f"print(*sorted(set('{heavy}'.split()) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.long
async def test_a_dataset_that_changed_on_disk_is_read_again(demo: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, demo, 3)
    listed = tmp_path / "dataset.txt"
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        await pilot.press("3")
        await until(pilot, lambda: "3 samples" in screen_text(app), "three samples")
        lines = listed.read_text(encoding="utf-8").splitlines()
        listed.write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
        await until(pilot, lambda: "dataset changed on disk" in screen_text(app), "a notice")
        await pilot.press("f5")
        await until(pilot, lambda: "2 samples" in screen_text(app), "two samples")
