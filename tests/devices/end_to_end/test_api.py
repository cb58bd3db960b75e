"""The class ``RKNN`` on boards of every kind, over a real adb server."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.api import RKNN
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
    assert stand.kind == "ssh" or stand.device in rknn.list_devices()[0]
    check_calls(rknn, stand, stand.device, digit, capfd)
    assert len(stand.models()) == 1


def check_calls(
    rknn: RKNN,
    stand: Stand,
    device: str,
    digit: np.ndarray,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What a script asks a board for."""
    assert rknn.load_rknn(str(stand.container)) == 0
    asked = {"target": stand.chip, "device_id": device}
    assert rknn.init_runtime(**asked, perf_debug=True, eval_mem=True) == 0
    outputs = rknn.inference(inputs=[digit])
    check_outputs(outputs, stand, digit)
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


def check_outputs(outputs: list[np.ndarray] | None, stand: Stand, digit: np.ndarray) -> None:
    """They are those of the simulator."""
    assert outputs is not None
    for array, values in zip(outputs, stand.expected(digit).values(), strict=True):
        np.testing.assert_array_equal(array, values)


@pytest.mark.parametrize("stand", ["rk3588", "rv1106", "rk1808"], indirect=True)
def test_the_modes_of_inference(rknn: RKNN, stand: Stand) -> None:
    first, second, third = digits(3)
    expected = [next(iter(stand.expected(digit).values())) for digit in (first, second, third)]
    assert not np.array_equal(expected[0], expected[1])
    assert rknn.load_rknn(str(stand.container)) == 0
    asked = {"target": stand.chip, "device_id": stand.device}
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
