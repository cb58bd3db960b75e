"""``accuracy_analysis`` with a target, of both generations, against emulated boards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.accuracy.three_way import board_rows
from engine.api import RKNN
from engine.pipeline.layers import quantized_of
from rknntui.demo import demo_folder
from tests.devices.conftest import Boards, Equip
from tests.devices.known_model import stored

pytestmark = [pytest.mark.long, pytest.mark.adb, pytest.mark.cc]


DIGIT = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)


def ready(rknn: RKNN, board: Boards, equip: Equip) -> str:
    """Build the demo model, and a board of its chip whose fourth layer is bent; the layer."""
    assert rknn.load_onnx(str(demo_folder() / "digits_demo.onnx")) == 0
    assert rknn.build(do_quantization=True, dataset=str(demo_folder() / "dataset.txt")) == 0
    pipeline = rknn._build
    assert pipeline is not None
    made = equip(board("rk3588" if rknn.generation == 2 else "rk1808"))
    layer = board_rows(quantized_of(pipeline))[3].layer
    made.bend(layer)
    return layer


@pytest.mark.parametrize("generation", [1, 2])
def test_the_snapshot_has_the_board(
    generation: int,
    board: Boards,
    equip: Equip,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rknn = RKNN(generation=generation)
    if generation == 2:
        rknn.config(target_platform="rk3588", mean_values=[[127.5]], std_values=[[127.5]])
    else:
        rknn.config(mean_values=[[127.5]], std_values=[[127.5]], target_platform=["rk1808"])
    layer = ready(rknn, board, equip)
    sample = stored(tmp_path / "digit.npy", DIGIT)
    inputs: object = [str(sample)]
    if generation == 1:
        inputs = "one.txt"
        Path("one.txt").write_text(f"{sample.name}\n")
    target = "rk3588" if generation == 2 else "rk1808"
    assert rknn.accuracy_analysis(inputs, target="rk3566") == -1
    assert f"has {target}" in capfd.readouterr().err
    if generation == 2:
        assert rknn.export_rknn("model.rknn") == 0
        assert rknn.init_runtime(target=target) == 0
    assert rknn.accuracy_analysis(inputs, target=target) == 0
    said = capfd.readouterr().err
    assert ("call init_runtime again" in said) == (generation == 2)
    assert layer in said
    assert "emulated" in said
    place = tmp_path / "snapshot"
    text = (place / "error_analysis.txt").read_text()
    assert "runtime_error" in text
    assert "single_sim" in text
    sides = {
        side: sorted(path.name for path in (place / side / "npy").iterdir())
        for side in ("golden", "simulator", "runtime")
    }
    assert set(sides["runtime"]) < set(sides["simulator"])
    assert len(sides["runtime"]) == 14
    first = np.load(place / "runtime" / "npy" / sides["runtime"][0])
    assert first.dtype == np.float32
    # without a board the folder of an earlier one does not stay
    assert rknn.accuracy_analysis(inputs) == 0
    assert not (place / "runtime").exists()
    assert "runtime_error" not in (place / "error_analysis.txt").read_text()
    rknn.release()
