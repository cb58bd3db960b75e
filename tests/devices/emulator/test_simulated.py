"""Boards whose answers are those of this program's simulator, made when they are asked for."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ContainerError, RuntimeLibraryError, UsageError
from engine.base.files import sha256_of
from engine.container import read_container
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.measure.layer_times import layer_rows, unmatched_note
from engine.devices.measure.perf_text import parse_perf_text
from engine.devices.transports.adb.transport import AdbTransport
from engine.graph.execute import Session, as_compiled
from engine.toolkit.compile.side_file import keep_build
from rknntui.demo import demo_folder
from rknntui_emulator.boards import BOARDS
from rknntui_emulator.kernel import LoadMeter
from rknntui_emulator.simulated.desk import AnswerDesk
from rknntui_emulator.simulated.requests import RunRequest
from tests.conftest import REPOSITORY
from tests.container.vendor import build as vendor
from tests.devices.conftest import Boards, Equip, Machine
from tests.devices.demo_container import (
    LAYER,
    demo_container,
    digits,
    simulated,
    with_all_layers,
)
from tests.devices.fake_board import FakeBoard
from tests.devices.faulty_board import FaultyBoard
from tests.devices.waiting import until
from tests.safety import PATIENCE, patience

__all__ = ["patience"]


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The demo model for a chip, built once."""
    folder = tmp_path_factory.mktemp("containers")

    def made(target: str = "rk3588", generation: int = 2, *, quantized: bool = True) -> Path:
        path = folder / f"{target}-{quantized}.rknn"
        if not path.exists():
            demo_container(path, target, generation=generation, quantized=quantized)
        return path

    return made


def equal(runtime: BoardRuntime, container: Path, array: np.ndarray, generation: int = 2) -> None:
    """The board's outputs are the simulator's, bit by bit."""
    expected = simulated(container, array, generation=generation)
    found = runtime.run([BoardInput(array)]).outputs
    assert [output.name for output in found] == list(expected)
    for output in found:
        np.testing.assert_array_equal(output.array, expected[output.name])


# -- this machine as the board


@pytest.fixture
def local(machine: Machine) -> Iterator[FakeBoard]:
    """This machine as a board whose answers are simulated."""
    board = machine()
    board.files["/etc/rknntui-emulated"] = b"emulated"
    with closing(AnswerDesk(board.root / "lib" / "answers", BOARDS["rk3588"], lambda _: None)):
        yield board


@pytest.mark.cc
def test_the_answers_are_those_of_the_simulator(
    local: FakeBoard, containers: Callable[..., Path]
) -> None:
    container = containers()
    image = digits(1)[0]
    with BoardRuntime(local, chip="rk3588") as runtime:
        opened = runtime.open(container, perf=True)
        (given,), (told,) = opened.inputs, opened.outputs
        assert (given.shape, given.layout, given.dtype) == ((1, 8, 8, 1), "NHWC", "INT8")
        assert (told.name, told.dtype, told.quantization) == ("logits", "INT8", "AFFINE")
        assert opened.memory is not None
        assert opened.memory.weight > 10_000
        for array in (image, image.astype(np.float32), image.astype(np.float16)):
            equal(runtime, container, array)
        # the same bytes are another input where they are of another type
        steps = np.arange(64, dtype=np.int8).reshape(1, 8, 8, 1) - np.int8(32)
        through = simulated(container, steps, pass_through=[1])["logits"]
        found = runtime.run([BoardInput(steps, pass_through=True)], want_float=False)
        whole = found.outputs[0].array
        assert whole.dtype == np.int8
        values = (whole.astype(np.float32) - told.zero_point) * np.float32(told.scale)
        np.testing.assert_array_equal(values, through)
        plain = runtime.run([BoardInput(steps.view(np.uint8))]).outputs[0].array
        assert not np.array_equal(plain, through)
        nchw = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
        again = runtime.run([BoardInput(nchw, "NCHW")]).outputs[0].array
        np.testing.assert_array_equal(again, simulated(container, image)["logits"])
        perf = runtime.run([BoardInput(image)]).perf
        together = runtime.run([BoardInput(digits(2)[1])], loops=5, threads=3)
        np.testing.assert_array_equal(
            together.outputs[0].array, simulated(container, digits(2)[1])["logits"]
        )
    layers = read_container(container).layers
    assert layers is not None
    rows = layer_rows(parse_perf_text(perf or ""), layers)
    assert unmatched_note(rows) == ""
    timed = (row.layer for row in rows if row.layer and row.row.microseconds is not None)
    assert list(dict.fromkeys(timed)) == [layer.id for layer in layers.layers]


@pytest.mark.cc
def test_what_cannot_be_simulated_is_refused(
    local: FakeBoard, containers: Callable[..., Path], tmp_path: Path
) -> None:
    compiled, broken = tmp_path / "compiled.rknn", tmp_path / "broken.rknn"
    compiled.write_bytes(vendor.npu())
    broken.write_bytes(containers().read_bytes()[:-1000])
    with BoardRuntime(local, chip="rk3588") as runtime:
        with pytest.raises(RuntimeLibraryError, match="MODEL_INVALID") as refused:
            runtime.open(compiled)
        assert "no simulator can run that code, and the build" in refused.value.cause
        assert refused.value.remedy.startswith("Compile it here with rknntui compile")
        with pytest.raises(RuntimeLibraryError, match="MODEL_INVALID") as refused:
            runtime.open(broken)
        assert "is cut short" in refused.value.cause
        assert refused.value.remedy
        runtime.open(containers("rk3566"))  # no setting says which chip it is on
        equal(runtime, containers("rk3566"), digits(1)[0])


def equal_as_compiled(runtime: BoardRuntime, container: Path, array: np.ndarray) -> None:
    """The board's output is that of the build, rounded where the compiled model rounds."""
    graph = read_container(container).graph
    fused = as_compiled(graph)
    assert fused is not graph
    pixels = array.astype(np.float32).transpose(0, 3, 1, 2) / np.float32(16)
    (expected,) = Session(fused).run({graph.inputs[0].name: pixels}, ["logits"]).values()
    (found,) = runtime.run([BoardInput(array)]).outputs
    np.testing.assert_array_equal(found.array, expected)


@pytest.mark.cc
def test_for_a_compiled_model_its_build_runs(
    local: FakeBoard, containers: Callable[..., Path], tmp_path: Path
) -> None:
    compiled = tmp_path / "compiled.rknn"
    compiled.write_bytes(vendor.npu())
    keep_build(sha256_of(compiled), containers().read_bytes())
    with BoardRuntime(local, chip="rk3588") as runtime:
        runtime.open(compiled)
        equal_as_compiled(runtime, containers(), digits(1)[0])


@pytest.mark.long
@pytest.mark.vendor
@pytest.mark.cc
@pytest.mark.parametrize("quantizer", ["ours", "vendor"])
def test_what_the_toolkit_compiled_runs(
    local: FakeBoard,
    containers: Callable[..., Path],
    toolkit2: Path,
    tmp_path: Path,
    quantizer: str,
) -> None:
    demo, path = demo_folder(), tmp_path / "compiled.rknn"
    words = [
        str(demo / "digits_demo.onnx"), "--chip", "rk3588", "-o", str(path),
        "--dataset", str(demo / "dataset.txt"), "--mean-values", "[[0]]", "--std-values", "[[16]]",
        "--quantizer", quantizer,
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "rknntui", "compile", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with BoardRuntime(local, chip="rk3588") as runtime:
        if quantizer == "vendor":
            with pytest.raises(RuntimeLibraryError) as refused:
                runtime.open(path)
            assert "the toolkit itself quantized it" in refused.value.cause
        else:
            runtime.open(path)
            equal_as_compiled(runtime, containers(), digits(1)[0])


@pytest.mark.cc
def test_where_nobody_simulates_nobody_waits(
    local: FakeBoard, containers: Callable[..., Path]
) -> None:
    folder = local.root / "lib"
    desk = AnswerDesk(folder / "other", BOARDS["rk3588"], lambda _: None)
    desk.close()
    (folder / "answers").rename(folder / "moved")
    (folder / "other").rename(folder / "answers")
    with BoardRuntime(local, chip="rk3588") as runtime:
        with pytest.raises(RuntimeLibraryError) as refused:
            runtime.open(containers())
        assert "there is no such file" in refused.value.cause


@pytest.mark.cc
def test_a_bent_layer_and_what_is_behind_it(
    local: FakeBoard, containers: Callable[..., Path], tmp_path: Path
) -> None:
    container = with_all_layers(containers(), tmp_path / "all.rknn")
    layers = read_container(container).layers
    assert layers is not None
    order = [layer.tensor for layer in layers.layers]
    image, first = digits(1)[0], order.index(layers.named(LAYER).tensor)
    settings = local.root / "lib" / "emulated.conf"
    with BoardRuntime(local, chip="rk3588") as runtime:
        told = {each.name: each for each in runtime.open(container).outputs}

        def ran() -> dict[str, np.ndarray]:
            found = runtime.run([BoardInput(image)], want_float=False).outputs
            return {output.name: output.array.astype(int) for output in found}

        exact = ran()
        settings.write_text(f"BEND={LAYER}:5\n")
        bent = ran()
        same = [np.array_equal(exact[name], bent[name]) for name in order]
        assert all(same[:first])
        assert not same[first]
        assert not all(same[first + 1 :])
        shifts = (bent[order[first]] - exact[order[first]]).ravel()
        assert set(shifts[::2]) <= set(range(6))
        assert 5 in shifts[::2]
        assert -5 in shifts[1::2]
        settings.write_text("BEND=/stage1/stage1.1/pointwise/Comv\n")
        with pytest.raises(RuntimeLibraryError) as refused:
            runtime.run([BoardInput(image)])
        assert "no layer '/stage1/stage1.1/pointwise/Comv'" in refused.value.cause
        assert "pointwise/Conv" in refused.value.cause
        settings.write_text("")
        assert all(np.array_equal(exact[name], found) for name, found in ran().items())
    assert told[order[first]].dtype == "INT8"


def test_the_load_is_the_share_of_the_last_second() -> None:
    meter = LoadMeter(2)
    assert meter.take(10.0, (0, 0, 0)) == [0, 0]
    assert meter.take(10.5, (250_000, 500_000, 0)) == [50, 100]
    assert meter.take(11.0, (500_000, 500_000, 0)) == [50, 50]
    assert meter.take(12.0, (500_000, 500_000, 0)) == [0, 0]
    assert meter.take(12.0, (500_000, 500_000, 0)) == [0, 0]
    assert meter.take(13.0, (5_000_000, 500_000, 0)) == [100, 0]


# -- over adb


@contextmanager
def opened(made: FaultyBoard) -> Iterator[BoardRuntime]:
    """Such a board over adb."""
    with (
        closing(AdbTransport.open(made.address)) as way,
        BoardRuntime(way, chip=made.board.chip) as runtime,
    ):
        yield runtime


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_the_load_follows_the_runs(
    board: Boards, equip: Equip, containers: Callable[..., Path]
) -> None:
    made = equip(board("rk3588"))
    path = made.root / "proc/rknpu/load"
    idle = "NPU load:  Core0:  0%, Core1:  0%, Core2:  0%,\n"
    assert path.read_text() == idle
    with opened(made) as runtime:
        runtime.open(containers(), core_mask=2)
        made.image.tell_runtime("RUN_US", "300000")
        seen: list[str] = []
        runtime.run(
            [BoardInput(digits(1)[0])], loops=8, progress=lambda _: seen.append(path.read_text())
        )
        loads = [int(text.split("Core1:")[1].split("%")[0]) for text in seen]
        assert max(loads) > 30
        assert all("Core0:  0%" in text and "Core2:  0%" in text for text in seen)
    until(lambda: path.read_text() == idle, "an idle NPU")
    made.set_load([1, 2, 3])
    assert "Core0:  1%, Core1:  2%, Core2:  3%" in path.read_text()
    made.reboot()
    until(lambda: path.read_text() == idle, "the load after a reboot")


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_a_layer_is_bent_and_another_model_refused_as_a_board_does(
    board: Boards, equip: Equip, containers: Callable[..., Path]
) -> None:
    made, (image,) = equip(board("rk3588")), digits(1)
    made.simulate(containers(), bend=LAYER)
    for path in (Path("/nowhere.rknn"), Path("/")):
        with pytest.raises(ContainerError, match="could not be read"):
            made.simulate(path)
    with pytest.raises(UsageError, match="no layer 'Gem'"):
        made.simulate(containers(), bend="Gem")
    with pytest.raises(UsageError, match="no name of a layer"):
        made.bend("a\nb")
    with opened(made) as runtime:
        with pytest.raises(RuntimeLibraryError, match="PLATFORM_UNMATCH"):
            runtime.open(containers("rk3566"))
        with pytest.raises(RuntimeLibraryError, match="MODEL_INVALID"):
            runtime.open(containers("rk1808", 1))
        runtime.open(containers())
        (bent,) = runtime.run([BoardInput(image)]).outputs
        assert not np.array_equal(bent.array, simulated(containers(), image)["logits"])
        made.bend(None)
        equal(runtime, containers(), image)


@pytest.mark.cc
def test_a_simulation_that_takes_too_long_is_said_and_found_later(
    local: FakeBoard,
    containers: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    container, (image,) = containers(), digits(1)
    settings = local.root / "lib" / "emulated.conf"
    asked = local.root / "lib" / "answers" / "asked"
    go_on = threading.Event()
    simulate = AnswerDesk._simulate

    def slowly(desk: AnswerDesk, request: RunRequest) -> None:
        go_on.wait(PATIENCE)
        simulate(desk, request)

    monkeypatch.setattr(AnswerDesk, "_simulate", slowly)
    with BoardRuntime(local, chip="rk3588") as runtime:
        runtime.open(container)
        settings.write_text("WAIT=0\n")
        with pytest.raises(RuntimeLibraryError) as refused:
            runtime.run([BoardInput(image)])
        assert "not done within 0 s; try again" in refused.value.cause
        settings.write_text("")
        go_on.set()
        equal(runtime, container, image)
    until(lambda: {path.name for path in asked.iterdir()} == {"busy", "watched"}, "an empty folder")
