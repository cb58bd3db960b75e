"""``RKNN`` on boards: the manuals' calls against emulated boards behind a real adb server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.api import RKNN
from engine.devices.emulator.emulator import BoardEmulator
from engine.devices.emulator.runtime.answers import Answers, TensorFacts, input_digest
from engine.devices.emulator.runtime.build import Kind, build, compiler
from rknntui.demo import demo_folder
from tests.container.vendor import build as vendor
from tests.devices.conftest import Boards
from tests.devices.known_model import IMAGE, SCALE, SCORES, ZERO, answers
from tests.devices.test_commands import run

pytestmark = [pytest.mark.adb, pytest.mark.cc]

EXPECTED = (SCORES.astype(np.float32) - ZERO) * SCALE


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    if compiler() is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("libraries")

    def built(generation: int) -> Path:
        kind: Kind = "librknnrt.so" if generation == 2 else "librknn_runtime.so"
        return build(kind, folder)

    return built


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "it's a $(touch x) model.rknn"
    path.write_bytes(vendor.npu())
    return path


def ready(made: BoardEmulator, library: Path, model: Path, known: Answers) -> str:
    """Give a board a runtime library that answers for a model; its address."""
    made.image.install_runtime(library)
    folder = (made.root / made.image.library.lstrip("/")).parent
    known.into(folder / "answers", model)
    return made.address


@pytest.fixture
def rknn() -> Iterator[RKNN]:
    made = RKNN()
    yield made
    made.release()


def test_the_calls_of_generation_2(
    rknn: RKNN,
    board: Boards,
    library: Callable[[int], Path],
    model: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    made = board("rk3588")
    address = ready(made, library(2), model, answers())
    assert rknn.load_rknn(str(model)) == 0
    assert rknn.init_runtime() == -1  # compiled models are not simulated
    assert rknn.init_runtime(target="rk3566", device_id=address) == -1
    assert "has rk3588" in capfd.readouterr().err
    given = {"target": "rk3588", "device_id": address, "core_mask": RKNN.NPU_CORE_0_1_2}
    assert rknn.init_runtime(**given, perf_debug=True, eval_mem=True) == 0
    for image in (IMAGE, IMAGE[0]):
        outputs = rknn.inference(inputs=[image])
        assert outputs is not None
        np.testing.assert_array_equal(outputs[0], EXPECTED)
    chw = np.ascontiguousarray(IMAGE.transpose(0, 3, 1, 2))
    outputs = rknn.inference(inputs=[chw], data_format=["nchw"])
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], EXPECTED)
    assert rknn.inference(inputs=[IMAGE[:, :2]]) is None
    governor = made.root / "sys/class/devfreq/fdab0000.npu/governor"
    before = governor.read_text()
    text = rknn.eval_perf(inputs=[IMAGE])
    assert "Conv:conv1" in text
    assert "(emulated)" in text
    assert governor.read_text() == before
    memory = rknn.eval_memory()
    assert memory == {
        "weight_memory": 3698688,
        "internal_memory": 1756160,
        "other_memory": 484352,
        "total_memory": 5939200,
    }
    version = rknn.get_sdk_version()
    assert version is not None
    assert "DRV: rknnrt: 2.3.2" in version
    said = capfd.readouterr().err
    assert "emulated" in said
    rknn.release()
    assert made.alive_orphans() == []


def test_the_calls_of_generation_1(
    board: Boards,
    library: Callable[[int], Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "first.rknn"
    model.write_bytes(vendor.precompiled())
    image, scores = IMAGE.astype(np.uint8), np.array([[0, 28, 100, 200, 255]], np.uint8)
    known = answers(
        generation=1,
        platform="",
        inputs=(TensorFacts("image", (1, 4, 4, 3), "UINT8", "NHWC", "AFFINE", 0, 128, 0.5),),
        outputs=(TensorFacts("scores", (1, 5), "UINT8", "NCHW", "AFFINE", 0, 28, SCALE, 0),),
        results={
            input_digest([pixels.tobytes()]): (scores.tobytes(),)
            for pixels in (image, np.zeros_like(image))
        },
    )
    ready(board("rk1808"), library(1), model, known)
    rknn = RKNN(generation=1)
    assert rknn.load_rknn(str(model)) == 0
    # the only board there is
    assert rknn.init_runtime(target="rk1808", eval_mem=True) == 0
    outputs = rknn.inference(inputs=[image])
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], (scores.astype(np.float32) - 28) * SCALE)
    perf = rknn.eval_perf(loop_cnt=2, is_print=False)
    assert perf == {"total_time": 700}
    assert rknn.eval_memory() == -1
    assert "not available on this runtime" in capfd.readouterr().err
    rknn.release()


def test_a_container_of_ours_runs_on_no_real_npu(
    rknn: RKNN, board: Boards, library: Callable[[int], Path], tmp_path: Path
) -> None:
    made = board("rk3588")
    rknn.config(target_platform="rk3588")
    assert rknn.load_onnx(str(demo_folder() / "digits_demo.onnx")) == 0
    assert rknn.build(do_quantization=False) == 0
    container = tmp_path / "demo.rknn"
    assert rknn.export_rknn(str(container)) == 0
    address = ready(made, library(2), container, answers())
    assert rknn.init_runtime(target="rk3588", device_id=address) == 0  # emulated boards take it
    (made.root / "etc/rknntui-emulated").unlink()
    assert rknn.init_runtime(target="rk3588", device_id=address) == -1
    assert rknn.inference(inputs=[IMAGE]) is None
    assert rknn.init_runtime() == 0


def test_perf_from_the_command_line(
    board: Boards,
    library: Callable[[int], Path],
    model: Path,
) -> None:
    zeros = np.zeros_like(IMAGE)
    known = answers(results={input_digest([zeros.tobytes()]): (SCORES.tobytes(),)})
    address = ready(board("rk3588"), library(2), model, known)
    words = ["perf", str(model), "--device", address, "--loops", "7", "--layers", "--json"]
    done = run(*words, "--cores", "auto", "--cores", "0_1_2", "--threads", "2", "--fix-clocks")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["label"], found["chip"]) == ("emulated", "rk3588")
    assert [(p["cores"], p["threads"]) for p in found["points"]] == [("auto", 2), ("0_1_2", 2)]
    for point in found["points"]:
        assert point["count"] == 14
        assert 0 < point["minimum"] <= point["median"] <= point["p99"] <= point["maximum"]
        assert point["clocks"]["NPU"] == 1_000_000_000
    assert [layer["name"] for layer in found["layers"]] == ["Conv:conv1"]
    assert found["memory"]["total"] == 5939200
    assert found["kept"]


@pytest.mark.long
def test_perf_as_a_table_and_its_errors(
    board: Boards, library: Callable[[int], Path], model: Path
) -> None:
    zeros = np.zeros_like(IMAGE)
    known = answers(results={input_digest([zeros.tobytes()]): (SCORES.tobytes(),)})
    address = ready(board("rk3588"), library(2), model, known)
    done = run("perf", str(model), "--device", address, "--cores", "0_1", "--loops", "5")
    assert done.returncode == 0, done.stderr
    assert "(emulated)" in done.stdout
    assert "frames/s" in done.stdout
    done = run("perf", str(Path(__file__)), "--device", address)
    assert done.returncode == 9
    assert "fix:" in done.stderr
