"""The main job by keys alone at 80x24, ending with a file that loads."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine import RKNN, read_result
from engine.wire.build import SIMULATE, SimulateParams
from rknntui.app import Workbench
from rknntui.session.file_watcher import FileWatcher
from rknntui.session.state import Session
from rknntui.session.steps import next_step, steps
from rknntui.workspaces import keys_of
from tests.cli.conftest import python
from tests.tui.conftest import driven, screen_text, until, workbench, write_recipe
from tests.tui.flow import choose_path, pictures, typed

pytestmark = pytest.mark.usefixtures("own_workers")


async def test_the_main_job_from_a_model_to_a_container_that_loads(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = pictures(tmp_path / "photos", 10)
    model = tmp_path / "digits.onnx"
    shutil.copyfile(demo / "digits_demo.onnx", model)
    out = tmp_path / "digits.rknn"
    async with driven(Workbench(state_kept=False)) as pilot:
        app = pilot.app
        # open
        await pilot.press("o")
        await choose_path(pilot, model)
        await until(pilot, lambda: next_step(steps(app.session)).name == "dataset")

        # samples, mean and std in one form
        await pilot.press("enter", sees="mean and std")
        await pilot.press(*typed(str(folder)))
        await pilot.press("down", "minus", "enter", until=lambda: app.session.dataset is not None)
        assert app.session.dataset.samples == 10
        assert app.session.recipe["mean_values"] == [[127.5]]
        assert app.session.recipe["std_values"] == [[127.5]]

        # build
        await until(pilot, lambda: next_step(steps(app.session)).name == "build", "a build is next")
        await pilot.press("enter", until=lambda: app.session.summary is not None)
        await pilot.sees("logits")

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
    done = python(code)
    assert (done.returncode, done.stdout.split()) == (0, [])


@pytest.mark.long
async def test_a_dataset_that_changed_on_disk_is_read_again(demo: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, demo, 3)
    listed = tmp_path / "dataset.txt"
    async with workbench(recipe, notices=True) as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        await pilot.press(keys_of("recipe")[0], "v", sees="3 samples")
        lines = listed.read_text(encoding="utf-8").splitlines()
        listed.write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
        await pilot.sees("dataset changed on disk")
        await pilot.press("f5", sees="2 samples")
        listed.unlink()
        await pilot.sees("dataset is not on the disk")
        assert "2 samples" in screen_text(app), "what was read stays"


async def test_a_file_that_is_moved_away_is_told_once_and_back_again_no_change(
    tmp_path: Path,
) -> None:
    told: list[tuple[str, bool]] = []
    file = tmp_path / "m.onnx"
    file.write_bytes(b"model")
    session = Session(lambda message: None)
    session.recipe = {"model": str(file)}
    watch = FileWatcher(lambda message: told.append((message.role, message.gone)))
    watch.follow(session)
    away = file.rename(tmp_path / "away.onnx")
    watch.compare()
    watch.compare()
    assert told == [("model", True)]
    away.rename(file)
    watch.compare()
    assert told == [("model", True)]
    file.write_bytes(b"another one")
    watch.compare()
    watch.stop()
    assert told[1:] == [("model", False)]
