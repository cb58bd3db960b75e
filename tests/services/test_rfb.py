"""RFB-320 of the zoo: worker, command line and Python give the same container and outputs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.api import RKNN
from engine.base.process import child_environment
from engine.jobs.client import run_job

pytestmark = [pytest.mark.long, pytest.mark.zoo]


def command_line(*words: str) -> None:
    subprocess.run(
        [sys.executable, "-P", "-m", "rknntui", *words],
        env=child_environment(),
        check=True,
        capture_output=True,
    )


def test_three_front_ends(zoo: Path, tmp_path: Path) -> None:
    model = str(zoo / "onnx" / "version-RFB-320_without_postprocessing.onnx")
    pictures = sorted(zoo.glob("images/**/*.jpg"))[:20]
    listed = tmp_path / "dataset.txt"
    listed.write_text("".join(f"{path}\n" for path in pictures))
    recipe = {
        "model": model,
        "dataset": str(listed),
        "mean_values": [[127, 127, 127]],
        "std_values": [[128, 128, 128]],
    }
    files = {name: tmp_path / f"{name}.rknn" for name in ("worker", "cli", "python")}
    run_job("export", {"recipe": recipe, "path": str(files["worker"])})
    flags = ["--dataset", str(listed), "--mean-values", "127,127,127"]
    flags += ["--std-values", "128,128,128", "-o", str(files["cli"])]
    command_line("export", model, *flags)
    rknn = RKNN()
    rknn.config(mean_values=[[127, 127, 127]], std_values=[[128, 128, 128]])
    assert rknn.load_onnx(model) == 0
    assert rknn.build(True, str(listed)) == 0
    assert rknn.export_rknn(str(files["python"])) == 0
    assert len({path.read_bytes() for path in files.values()}) == 1

    sample = tmp_path / "sample.png"
    Image.open(pictures[0]).convert("RGB").resize((320, 240), Image.Resampling.BILINEAR).save(
        sample
    )
    inputs = {"inputs": [str(sample)], "save": str(tmp_path / "worker")}
    run_job("simulate", {"path": str(files["worker"]), **inputs})
    words = ["-i", str(sample), "--save", str(tmp_path / "cli")]
    command_line("simulate", str(files["cli"]), *words)
    assert rknn.init_runtime() == 0
    outputs = rknn.inference([np.asarray(Image.open(sample))])
    assert outputs is not None
    for name, array in zip(("scores", "boxes"), outputs, strict=True):
        for front in ("worker", "cli"):
            saved = np.load(tmp_path / front / f"{name}.npy", allow_pickle=False)
            np.testing.assert_array_equal(saved, array)
