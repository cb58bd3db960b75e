"""``RKNN`` on boards: the manuals' calls against emulated boards behind a real adb server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.api import RKNN
from rknntui.demo import demo_folder
from rknntui_emulator.runtime.answers import input_digest
from tests.devices.conftest import Boards, Libraries
from tests.devices.known_model import (
    IMAGE,
    OLD_IMAGE,
    OLD_SCORES,
    SCALE,
    SCORES,
    ZERO,
    answers,
    first_answers,
)

pytestmark = [pytest.mark.adb, pytest.mark.cc]

EXPECTED = (SCORES.astype(np.float32) - ZERO) * SCALE


@pytest.fixture
def rknn() -> Iterator[RKNN]:
    made = RKNN()
    yield made
    made.release()


@pytest.mark.long
def test_the_calls_of_generation_2(
    rknn: RKNN,
    board: Boards,
    libraries: Libraries,
    model: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    made = board("rk3588")
    made.knows(libraries(), answers(), model)
    address = made.address
    assert rknn.load_rknn(str(model)) == 0
    assert rknn.init_runtime() == -1  # compiled models are not simulated
    assert rknn.init_runtime(target="rk3566", device_id=address) == -1
    assert rknn.init_runtime(target="rk3588", device_id=address, core_mask="all") == -1
    assert rknn.init_runtime(target="rk3588", device_id="ntb:0123456789") == -1
    said = capfd.readouterr().err
    assert "has rk3588" in said
    assert "core_mask is 'all'" in said
    assert "rknn-toolkit" in said
    assert "Internal error" not in said
    given = {"target": "rk3588", "device_id": address, "core_mask": RKNN.NPU_CORE_0_1_2}
    assert rknn.init_runtime(**given, perf_debug=True, eval_mem=True, rknn2precompile=True) == 0
    assert "rknn2precompile has no effect on a board" in capfd.readouterr().err
    for image in (IMAGE, IMAGE[0]):
        outputs = rknn.inference(inputs=[image])
        assert outputs is not None
        np.testing.assert_array_equal(outputs[0], EXPECTED)
    assert rknn.inference(inputs=[IMAGE[:, :2]]) is None
    for wrong in (
        {"data_format": 3},
        {"data_format": ["nhwc"] * 2},
        {"inputs_pass_through": [0] * 2},
    ):
        assert rknn.inference(inputs=[IMAGE], **wrong) is None
    assert rknn.inference(inputs=[IMAGE], inputs_pass_through=1) is not None
    for loops in ("3", 0, True, 1.5):
        assert rknn.eval_perf(loop_cnt=loops) == -1
    assert "Internal error" not in capfd.readouterr().err
    governor = made.root / "sys/class/devfreq/fdab0000.npu/governor"
    before = governor.read_text()
    assert "Conv:conv1" in rknn.eval_perf(inputs=[IMAGE])
    assert governor.read_text() == before
    kinds = {"weight": 3698688, "internal": 1756160, "other": 484352, "total": 5939200}
    assert rknn.eval_memory() == {f"{kind}_memory": size for kind, size in kinds.items()}
    assert "DRV: rknnrt: 2.3.2" in str(rknn.get_sdk_version())
    assert "emulated" in capfd.readouterr().err
    rknn.release()
    assert made.alive_orphans() == []


@pytest.mark.long
def test_the_calls_of_generation_1(
    board: Boards,
    libraries: Libraries,
    first_model: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = first_model
    image, scores = OLD_IMAGE, OLD_SCORES
    known = first_answers(
        results={
            input_digest([pixels.tobytes()]): (scores.tobytes(),)
            for pixels in (image, np.zeros_like(image))
        }
    )
    made = board("rk1808")
    made.knows(libraries(1), known, model)
    rknn = RKNN(generation=1)
    assert rknn.load_rknn(str(model)) == 0
    # the only board there is
    assert rknn.init_runtime(target="rk1808", eval_mem=True) == 0
    outputs = rknn.inference(inputs=[image])
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], (scores.astype(np.float32) - 28) * SCALE)
    perf = rknn.eval_perf(loop_cnt=2, is_print=False)
    assert perf == {"total_time": 700}
    wide = {"inputs": [image.astype(np.float32)], "is_print": False}
    assert rknn.eval_perf(**wide, data_type="uint8") == {"total_time": 700}
    assert rknn.eval_perf(**wide, data_type="text") == -1
    assert rknn.eval_memory() == -1
    assert "not available on this runtime" in capfd.readouterr().err

    # a model that lies on the board already, by its path there
    (made.root / "userdata").mkdir(exist_ok=True)
    (made.root / "userdata/there.rknn").write_bytes(model.read_bytes())
    assert rknn.load_rknn("/userdata/there.rknn", load_model_in_npu=True) == 0
    assert rknn.init_runtime() == -1
    assert "no board is named" in capfd.readouterr().err
    assert rknn.init_runtime(target="rk1808") == 0
    again = rknn.inference(inputs=[image])
    assert again is not None
    np.testing.assert_array_equal(again[0], outputs[0])
    assert rknn.load_rknn("/userdata/none.rknn", load_model_in_npu=True) == 0
    assert rknn.init_runtime(target="rk1808") == -1
    assert "none.rknn" in capfd.readouterr().err
    assert RKNN(generation=2).load_rknn("/x.rknn", load_model_in_npu=True) == -1
    rknn.release()


@pytest.mark.long
def test_a_container_of_ours_runs_on_no_real_npu(
    rknn: RKNN, board: Boards, libraries: Libraries, tmp_path: Path
) -> None:
    made = board("rk3588")
    rknn.config(target_platform="rk3588")
    assert rknn.load_onnx(str(demo_folder() / "digits_demo.onnx")) == 0
    assert rknn.build(do_quantization=False) == 0
    container = tmp_path / "demo.rknn"
    assert rknn.export_rknn(str(container)) == 0
    made.knows(libraries(), answers(), container)
    address = made.address
    assert rknn.init_runtime(target="rk3588", device_id=address) == 0  # emulated boards take it
    (made.root / "etc/rknntui-emulated").unlink()
    digit = np.zeros((1, 8, 8, 1), np.float32)
    assert rknn.init_runtime() == 0
    assert rknn.inference(inputs=[digit]) is not None
    assert rknn.init_runtime(target="rk3588", device_id=address) == -1
    # who asked for a board gets no figures of the simulator
    assert rknn.inference(inputs=[digit]) is None
