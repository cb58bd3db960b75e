"""The class ``RKNN`` on boards of every kind, over a real adb server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.api import RKNN
from rknntui.demo import demo_folder
from tests.devices.demo_container import digits
from tests.devices.end_to_end.conftest import NO_MEMORY, Stand

pytestmark = [pytest.mark.long, pytest.mark.adb, pytest.mark.cc]


@pytest.fixture
def rknn(stand: Stand) -> Iterator[RKNN]:
    made = RKNN(generation=stand.generation)
    yield made
    made.release()


def test_every_call(
    rknn: RKNN, stand: Stand, digit: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    assert stand.address in rknn.list_devices()[0]
    assert rknn.load_rknn(str(stand.container)) == 0
    asked = {"target": stand.chip, "device_id": stand.address}
    assert rknn.init_runtime(**asked, perf_debug=True, eval_mem=True) == 0
    assert len(stand.models()) == 1
    expected = stand.expected(digit)
    outputs = rknn.inference(inputs=[digit])
    assert outputs is not None
    for found, values in zip(outputs, expected.values(), strict=True):
        np.testing.assert_array_equal(found, values)
    perf = rknn.eval_perf(is_print=False)
    if stand.generation == 1:
        assert perf["total_time"] > 0
        assert all(layer["time"] >= 0 for layer in perf["layers"].values())
    else:
        assert "(emulated)" in perf
        assert ("Conv" in perf) == (stand.kind != "rv1106")  # whose runtime tells no layers
    capfd.readouterr()
    memory = rknn.eval_memory(is_print=False)
    if stand.generation == 1:
        assert memory == -1
        said = capfd.readouterr().err
        assert NO_MEMORY in said
        assert "librknn_runtime.so" in said  # the reason
    else:
        assert memory["weight_memory"] > 10_000
        assert memory["total_memory"] >= memory["weight_memory"] + memory["internal_memory"]
    version = rknn.get_sdk_version()
    assert version is not None
    assert "RKNN VERSION (emulated)" in version
    assert ("rknnrt" in version) == (stand.generation == 2)


@pytest.mark.parametrize("stand", ["rk3588", "rv1106", "rk1808"], indirect=True)
def test_the_modes_of_inference(rknn: RKNN, stand: Stand) -> None:
    first, second, third = digits(3)
    expected = [next(iter(stand.expected(digit).values())) for digit in (first, second, third)]
    assert not np.array_equal(expected[0], expected[1])
    assert rknn.load_rknn(str(stand.container)) == 0
    asked = {"target": stand.chip, "device_id": stand.address}
    assert rknn.init_runtime(**asked, async_mode=True) == 0
    # the first call gives its own, each after it that of the call before
    order = [rknn.inference(inputs=[digit]) for digit in (first, second, third)]
    for outputs, values in zip(order, (expected[0], expected[0], expected[1]), strict=True):
        assert outputs is not None
        np.testing.assert_array_equal(outputs[0], values)
    assert rknn.init_runtime(**asked) == 0
    nchw = np.ascontiguousarray(second.transpose(0, 3, 1, 2))
    form = "nchw" if stand.generation == 1 else ["nchw"]
    outputs = rknn.inference(inputs=[nchw], data_format=form)
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], expected[1])
    floats = rknn.inference(inputs=[second.astype(np.float32)], data_type="float32")
    assert floats is not None
    np.testing.assert_array_equal(floats[0], expected[1])
    assert rknn.inference(inputs=[np.concatenate([first, second])]) is None
    assert rknn.inference(inputs=[first]) is not None  # a refused call costs nothing


def test_a_comparison_names_the_bent_layer(
    rknn: RKNN,
    stand: Stand,
    bent: str,
    digit_file: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if stand.generation == 2:
        rknn.config(target_platform=stand.chip, mean_values=[[0]], std_values=[[16]])
    else:
        rknn.config(target_platform=[stand.chip], channel_mean_value="0 16", reorder_channel="0")
    assert rknn.load_onnx(str(demo_folder() / "digits_demo.onnx")) == 0
    assert rknn.build(do_quantization=True, dataset=str(demo_folder() / "dataset.txt")) == 0
    inputs: object = [str(digit_file)]
    if stand.generation == 1:
        lines = tmp_path / "one.txt"
        (tmp_path / "digit.npy").write_bytes(digit_file.read_bytes())
        lines.write_text("digit.npy\n")
        inputs = str(lines)
    capfd.readouterr()
    asked = {"target": stand.chip, "device_id": stand.address, "output_dir": "shot"}
    assert rknn.accuracy_analysis(inputs=inputs, **asked) == 0
    said = capfd.readouterr().err
    assert bent in "".join(path.read_text("utf-8") for path in Path("shot").rglob("*.txt")) + said
