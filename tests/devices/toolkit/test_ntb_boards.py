"""Boards on NTB, run through the toolkit of generation 1: a stand-in in an environment of its own.

The stand-in computes ``relu((x - mean) / std)``; what numpy makes of the same is compared.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.api import RKNN
from engine.base.errors import (
    ContainerError,
    DeviceError,
    EngineError,
    RuntimeLibraryError,
    UsageError,
)
from engine.base.events import CallbackReporter, Event, NullReporter
from engine.devices.measure.history import load_run
from engine.devices.model_source import ModelSource
from engine.devices.toolkit.board import toolkit_address
from engine.devices.toolkit.jobs import with_allocations
from engine.services import board as board_service
from engine.services import board as devices_service
from engine.toolkit.toolkit import Toolkit
from engine.wire.board import MemoryParams, MemoryReport, RunParams
from engine.wire.devices import PerfParams
from engine.wire.vendor import ToolkitEnvironment
from tests.container.vendor import build as vendor
from tests.devices.known_model import stored
from tests.devices.verbs import ntb_proxy
from tests.safety import patience
from tests.toolkit.standin import make_environment

__all__ = ["patience"]

BOARD = "ntb:515e9b401c060c0b"
MEAN, STD = np.array([104.0, 117.0, 123.0]), np.array([58.0, 57.0, 56.0])


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> ToolkitEnvironment:
    return make_environment(tmp_path_factory.mktemp("toolkit1") / "environment")


@pytest.fixture
def toolkit(environment: ToolkitEnvironment, monkeypatch: pytest.MonkeyPatch) -> ToolkitEnvironment:
    """The environment is the user's, and its boards are there."""
    monkeypatch.setenv("RKNNTUI_VENDOR", environment.folder)
    monkeypatch.setenv("STANDIN_BOARDS", f"{BOARD} adb:0123456789ABCDEF")
    return environment


@pytest.fixture(scope="session")
def compiled(environment: ToolkitEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for rk1808 and rk3399pro that the stand-in built."""
    folder = tmp_path_factory.mktemp("model")
    source, made = folder / "source.onnx", folder / "model.rknn"
    source.write_bytes(b"x")
    with Toolkit(environment, folder, reads=[source]) as toolkit:
        rknn = toolkit.rknn()
        rknn.call("config", target_platform=["rk1808", "rk3399pro"])
        assert rknn.call("load_onnx", source) == 0
        assert rknn.call("build", do_quantization=False) == 0
        assert rknn.call("export_rknn", toolkit.work / made.name) == 0
        made.write_bytes((toolkit.work / made.name).read_bytes())
    return made


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (1, 6, 8, 3)).astype(np.uint8)


def expected(pixels: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.maximum((pixels - MEAN) / STD, 0)
    return found.transpose(0, 3, 1, 2)


def run(model: Path, sample: Path, **changes: Any) -> Any:
    asked = RunParams(str(model), device=BOARD, inputs=(str(sample),), **changes)
    return board_service.run.function(asked, NullReporter())


@pytest.fixture
def sample(tmp_path: Path, pixels: np.ndarray) -> Path:
    return stored(tmp_path / "sample.npy", pixels)


def test_a_sample_runs_there(
    toolkit: ToolkitEnvironment,
    compiled: Path,
    sample: Path,
    pixels: np.ndarray,
    tmp_path: Path,
) -> None:
    found = run(compiled, sample, layers=True, loops=3, save=str(tmp_path / "out"))
    assert (found.label, found.device, found.chip) == ("measured", BOARD, "rk1808")
    assert (found.runtime, found.driver) == ("1.3.2", "1.3.2")
    (saved,) = found.saved
    np.testing.assert_allclose(np.load(saved), expected(pixels), rtol=1e-6)
    assert found.outputs[0].label == "measured"
    assert found.outputs[0].maximum == pytest.approx(expected(pixels).max())
    assert found.milliseconds == 0.01
    (layer,) = found.layers
    assert (layer.name, layer.op, layer.microseconds) == ("relu", "VSI_NN_OP_RELU", 10)
    assert any("rknn-toolkit 1.3.2+standin ran it over NTB" in note for note in found.notes)


def test_a_picture_and_channels_first_are_the_same(
    toolkit: ToolkitEnvironment, compiled: Path, pixels: np.ndarray, tmp_path: Path
) -> None:
    Image.fromarray(pixels[0]).save(tmp_path / "picture.png")
    np.save(tmp_path / "first.npy", pixels.transpose(0, 3, 1, 2))
    np.save(tmp_path / "wide.npy", pixels.astype(np.int64))
    found = [
        run(compiled, tmp_path / name).outputs[0]
        for name in ("picture.png", "first.npy", "wide.npy")
    ]
    assert {one.maximum for one in found} == {found[0].maximum}
    assert found[0].mean == pytest.approx(expected(pixels).mean())


def test_memory_is_counted(toolkit: ToolkitEnvironment, compiled: Path) -> None:
    asked = MemoryParams(str(compiled), device=BOARD)
    found = board_service.memory.function(asked, NullReporter())
    size = compiled.stat().st_size * 1000
    assert found.allocated is not None
    assert (found.allocated.system_maximum, found.allocated.npu_total) == (size, 4 * size)
    assert "Memory Profile Info Dump (measured)" in found.text
    assert (found.memory, found.system, found.reason) == (None, None, "")


def test_times_are_kept(toolkit: ToolkitEnvironment, compiled: Path) -> None:
    asked = PerfParams(
        device=BOARD,
        path=str(compiled),
        threads=(1, 2),
        cores=("auto", "1"),
        loops=4,
        layers=True,
    )
    told: list[Event] = []
    found = devices_service.perf.function(
        replace(asked, fix_clocks=True), CallbackReporter(told.append)
    )
    one, two = found.points
    assert (one.count, one.median, one.frames_per_second) == (4, 10, 100_000)
    assert "one inference at a time" in two.failed
    assert len(found.left_out) == 2
    assert found.layers[0].microseconds == 10
    assert any("clocks were not fixed" in note for note in found.notes)
    kept = load_run(found.kept)
    assert kept.conditions.device == BOARD
    assert kept.conditions.versions["runtime"] == "1.3.2"
    by_time = devices_service.perf.function(
        replace(asked, threads=(1,), loops=None, seconds=0.01), NullReporter()
    )
    assert by_time.points[0].count >= 1


def test_without_a_toolkit_it_is_said_how_to_get_one(compiled: Path, sample: Path) -> None:
    with pytest.raises(DeviceError, match="reached by NTB") as caught:
        run(compiled, sample)
    assert "rknntui vendor adopt PYTHON" in caught.value.remedy
    assert "usb_adb_en" in caught.value.remedy


def test_a_board_that_the_toolkit_does_not_list(
    toolkit: ToolkitEnvironment, compiled: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_BOARDS", "ntb:another")
    with pytest.raises(DeviceError, match="does not list the board ntb:515e9b401c060c0b") as caught:
        run(compiled, sample)
    assert "By ntb it lists another" in caught.value.cause


FAULTS = {
    "init_runtime:abort": "was killed by SIGABRT during init_runtime",
    "inference:_exit": "ended with exit code 7 during inference",
    "eval_perf:raise": "eval_perf of the toolkit raised KeyError",
    "load_rknn:kill": "was killed by SIGKILL during load_rknn",
}


@pytest.mark.parametrize(
    "fault",
    [
        one if one == "init_runtime:abort" else pytest.param(one, marks=pytest.mark.long)
        for one in FAULTS
    ],
)
def test_a_toolkit_that_fails(
    fault: str,
    toolkit: ToolkitEnvironment,
    compiled: Path,
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", fault)
    with pytest.raises(EngineError, match=FAULTS[fault]) as caught:
        run(compiled, sample)
    assert caught.value.remedy


def test_a_model_of_the_wrong_kind(
    toolkit: ToolkitEnvironment, sample: Path, compiled: Path, tmp_path: Path
) -> None:
    second = tmp_path / "second.rknn"
    second.write_bytes(vendor.npu())
    with pytest.raises(RuntimeLibraryError, match="generation 2"):
        run(second, sample)
    other = tmp_path / "other.rknn"
    other.write_bytes(
        compiled.read_bytes().replace(b"rk3399pro", b"rv1126xyz").replace(b"rk1808", b"rv1109")
    )
    run(other, sample)
    (tmp_path / "damaged.rknn").write_bytes(compiled.read_bytes()[:100])
    with pytest.raises(ContainerError):
        run(tmp_path / "damaged.rknn", sample)


def test_scripts_reach_it_by_the_serial_alone(
    toolkit: ToolkitEnvironment,
    compiled: Path,
    pixels: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """[RKNN-T1 1.3.2, 3.6.7]: ``init_runtime(target='rk1808', device_id='012345789AB')``."""
    serial = BOARD.partition(":")[2]
    ntb_proxy(tmp_path, f"{serial} 2bed0cc1 USB_DEVICE")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert toolkit_address(serial) is None
    rknn = RKNN(generation=1)
    assert rknn.load_rknn(str(compiled)) == 0
    assert rknn.init_runtime(target="rk1808", device_id=serial, eval_mem=True) == 0
    (found,) = rknn.inference(inputs=[pixels]) or []
    np.testing.assert_allclose(found, expected(pixels), rtol=1e-6)
    assert rknn.eval_perf(inputs=[pixels], is_print=True) == {"total_time": 10}
    memory = rknn.eval_memory()
    assert memory["npu_memory"]["maximum_allocation"] == compiled.stat().st_size * 2000
    assert "1.3.2" in (rknn.get_sdk_version() or "")
    assert rknn.init_runtime(target="rk1808", device_id=serial, perf_debug=True) == 0
    layers = rknn.eval_perf(inputs=[pixels], is_print=False)["layers"]
    assert layers["0"] == {
        "name": "relu",
        "operation": "VSI_NN_OP_RELU",
        "target": "NPU",
        "time": 10,
    }
    assert rknn.eval_memory() == -1
    rknn.release()
    assert rknn.init_runtime(target="rv1109", device_id=BOARD) == -1
    logging.getLogger("rknn").handlers.clear()


def test_a_board_over_adb_is_asked_for_its_memory(
    toolkit: ToolkitEnvironment, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the C API of generation 1 has told nothing, the toolkit does."""
    plain = MemoryReport(
        label="measured",
        device="adb:0123456789ABCDEF",
        chip="rk1808",
        runtime="1.7.1",
        reason="not available",
        model_bytes=9,
    )
    source = ModelSource(compiled)
    found = with_allocations(plain, source, NullReporter())
    assert found.allocated is not None
    assert "NPU memory:" in found.text
    assert found.reason == ""
    monkeypatch.setenv("STANDIN_FAULT", "eval_memory:raise")
    failed = with_allocations(plain, source, NullReporter())
    assert failed.reason.startswith("not available eval_memory of the toolkit raised KeyError")
    second = replace(plain, chip="rk3588")
    assert with_allocations(second, source, NullReporter()) is second


def test_an_address_of_another_kind_is_none() -> None:
    assert toolkit_address(None) is None
    assert toolkit_address("adb:515e9b401c060c0b") is None
    with pytest.raises(UsageError):
        toolkit_address("ntb:")
