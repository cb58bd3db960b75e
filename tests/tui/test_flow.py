"""The main job by keys alone at 80x24, ending with a file that loads."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine import RKNN, read_result
from engine.wire.build import SIMULATE, SimulateParams
from rknntui.app import Workbench
from rknntui.session.steps import next_step, steps
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
    out = tmp_path / "digits.rknn"
    async with Workbench(state_kept=False).run_test(size=(80, 24)) as pilot:
        app = shown(pilot)
        # open
        await pilot.press("o")
        await choose_path(pilot, model)
        await until(
            pilot, lambda: next_step(steps(app.session)).name == "dataset", "samples are next"
        )

        # samples, mean and std in one form
        await pilot.press("enter")
        await until(pilot, lambda: "mean and std" in screen_text(app), "the form")
        await press_text(pilot, str(folder))
        await pilot.press("down", "minus", "enter")
        await until(pilot, lambda: app.session.dataset is not None, "its samples are counted")
        assert app.session.dataset.samples == 10
        assert app.session.recipe["mean_values"] == [[127.5]]
        assert app.session.recipe["std_values"] == [[127.5]]

        # build
        await until(pilot, lambda: next_step(steps(app.session)).name == "build", "a build is next")
        await pilot.press("enter")
        await until(pilot, lambda: app.session.summary is not None, "a build")
        await until(pilot, lambda: "logits" in screen_text(app), "its output")

        # run: as the file does below
        sample = min(folder.iterdir())
        params = SimulateParams(recipe=dict(app.session.recipe), inputs=(str(sample),))
        job = await app.bridge.submit(SIMULATE, params, "run a sample")
        await until(pilot, lambda: not job.running, "it ran")
        top = read_result(job.id)["outputs"][0]["top"][0]

        # export
        await pilot.press(keys_of("overview")[0], "x")
        await choose_path(pilot, out)
        await until(pilot, out.is_file, "the container")

        # load it again
        await pilot.press("o")
        await choose_path(pilot, out)
        await until(pilot, lambda: app.session.container == str(out), "the container is open")

    rknn = RKNN()
    assert rknn.load_rknn(str(out)) == 0
    assert rknn.init_runtime() == 0
    pixels = np.asarray(Image.open(sample))
    outputs = rknn.inference(inputs=[pixels.reshape(1, 8, 8, 1)], data_format="nhwc")
    assert float(np.max(outputs[0])) == pytest.approx(top["value"], abs=1e-5)
    assert int(np.argmax(outputs[0])) == top["index"]
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
        await pilot.press(keys_of("recipe")[0], "v")
        await until(pilot, lambda: "3 samples" in screen_text(app), "three samples")
        lines = listed.read_text(encoding="utf-8").splitlines()
        listed.write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
        await until(pilot, lambda: "dataset changed on disk" in screen_text(app), "a notice")
        await pilot.press("f5")
        await until(pilot, lambda: "2 samples" in screen_text(app), "two samples")
        listed.unlink()
        await until(pilot, lambda: "dataset is not on the disk" in screen_text(app), "it is gone")
        assert "2 samples" in screen_text(app), "what was read stays"
