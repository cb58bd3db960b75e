"""Models on a board, over a transport to real programs of this machine that behave or do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import (
    ContainerError,
    DeviceError,
    DeviceStorageError,
    RuntimeLibraryError,
    UsageError,
)
from engine.devices.board.layout import find_folder
from engine.devices.board.results import RunProgress
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.session import BoardSession
from engine.devices.board.tensors import BoardInput
from tests.container.vendor import build
from tests.devices.board.running import IMAGE, TOTAL, opened
from tests.devices.fake_agent import fake_agent
from tests.devices.fake_board import FakeBoard

# -- what works


def test_a_model_runs_and_is_measured(board: FakeBoard, model: Path) -> None:
    with BoardRuntime(board, fake_agent(perf="a table"), chip="rk3588") as runtime:
        found = runtime.open(model)
        assert runtime.opened is found
        assert (found.generation, found.library) == (2, "/usr/lib/librknnrt.so")
        assert found.api_version.startswith("2.3.2")
        assert found.memory is not None
        assert found.memory.dma == 40
        assert found.inputs[0].shape == (1, 2, 3, 4)
        result = runtime.run([BoardInput(IMAGE)], loops=3, warmup=1)
        (output,) = result.outputs
        assert output.array.tolist() == [[TOTAL, 1.0, 2.0, 3.0]]
        assert (output.name, output.dtype) == ("scores", "FLOAT32")
        assert output.array.dtype == np.float32
        assert result.wall_us == (100.0, 101.0, 102.0)
        assert result.perf == "a table"
        whole = runtime.run([BoardInput(IMAGE)], want_float=False)
        assert whole.outputs[0].array.tolist() == [[1, 2, 3, -4]]
        assert whole.outputs[0].array.dtype == np.int8
        assert runtime.run([BoardInput(IMAGE)], outputs=False).outputs == ()
        assert runtime.memory() == found.memory


def test_no_name_of_the_user_is_in_a_command(board: FakeBoard, model: Path) -> None:
    runtime = opened(board, model)
    runtime.run([BoardInput(IMAGE)])
    runtime.close()
    assert not any("model.rknn" in word or "$" in word for words in board.ran for word in words)


def test_progress_is_told_while_it_runs(talking: FakeBoard, model: Path) -> None:
    told: list[RunProgress] = []
    with opened(talking, model) as runtime:
        runtime.run([BoardInput(IMAGE)], loops=3, progress=told.append)
    assert [each.done for each in told] == [1, 2, 3]
    assert [time for each in told for time in each.wall_us] == [100, 101, 102]


def test_files_are_read_and_watched(board: FakeBoard, tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_text("NPU load:  7%\n")
    with BoardRuntime(board, fake_agent()) as runtime:
        paths = [str(path), "/nothing/here"]
        assert runtime.read(paths) == {paths[0]: "NPU load:  7%\n", paths[1]: None}
        seen = list(runtime._session.watch(paths, interval=0.01, count=3))
        assert [each.values[paths[0]] for each in seen] == ["NPU load:  7%\n"] * 3
        assert seen[0].at <= seen[1].at <= seen[2].at


def test_who_looks_no_more_can_ask_again(board: FakeBoard, model: Path, tmp_path: Path) -> None:
    with opened(board, model) as runtime:
        watched = runtime._session.watch([str(tmp_path)], interval=0.01)
        next(watched)
        watched.close()
        assert runtime.run([BoardInput(IMAGE)]).outputs[0].array[0, 0] == TOTAL


def test_one_that_only_reads_may_be_beside_one_that_runs(board: FakeBoard, model: Path) -> None:
    with (
        opened(board, model) as runtime,
        BoardSession(board, fake_agent(), alone=False) as watching,
    ):
        assert watching.read(["/proc/version"])["/proc/version"]
        runtime.run([BoardInput(IMAGE)])


def test_after_its_close_nothing_is_asked(board: FakeBoard, model: Path) -> None:
    runtime = opened(board, model)
    runtime.close()
    runtime.close()
    assert runtime.opened is None
    with pytest.raises(DeviceError, match="was closed"):
        runtime.read(["/proc/version"])


def test_clocks_of_a_session_that_died_are_restored_by_the_next(board: FakeBoard) -> None:
    keep = Path(find_folder(board).at("clocks.json"))
    keep.write_text('[["/sys/governor", "simple_ondemand"]]')
    BoardRuntime(board, fake_agent()).close()
    assert not keep.exists()


# -- inputs


MISFITS = [
    (BoardInput(IMAGE[0]), "has the shape 2x3x4"),
    (BoardInput(IMAGE, layout="NCHW"), "has the shape 1x2x3x4"),
    (BoardInput(IMAGE.reshape(1, 4, 2, 3)), "has the shape 1x4x2x3"),
    (BoardInput(IMAGE.astype(np.float64)), "is float64"),
    (BoardInput(IMAGE.astype(object)), "is object"),
    (BoardInput(IMAGE, layout="NC1HWC2"), "cannot be given as NC1HWC2"),
    (BoardInput(IMAGE, pass_through=True), "cannot be passed through"),
    (BoardInput(np.zeros(23, np.int8), pass_through=True), "cannot be passed through"),
]


def test_inputs_that_do_not_fit_are_not_sent(talking: FakeBoard, model: Path) -> None:
    with opened(talking, model) as runtime:
        before = len(talking.pushed)
        for given, words in MISFITS:
            with pytest.raises(UsageError, match=words):
                runtime.run([given])
        assert talking.pushed[before:] == []


def test_the_bytes_that_are_sent_are_those_of_the_array(talking: FakeBoard, model: Path) -> None:
    sent: list[bytes] = []
    original, runtime = talking.push, opened(talking, model)

    def push(source: Path, target: str, **more: Any) -> None:
        sent.append(source.read_bytes())
        original(source, target, **more)

    talking.push = push  # type: ignore[method-assign]
    with runtime:
        runtime.run([BoardInput(IMAGE)])
        runtime.run([BoardInput(IMAGE.transpose(0, 3, 1, 2), layout="NCHW")])
        runtime.run([BoardInput(IMAGE.astype(">f4"))])
        native = np.arange(32, dtype=np.int8)
        runtime.run([BoardInput(native, pass_through=True)])
    assert sent[0] == sent[1] == IMAGE.tobytes()
    assert sent[2] == IMAGE.astype("<f4").tobytes()
    assert sent[3] == native.tobytes()


def test_numbers_that_make_no_sense_are_refused(talking: FakeBoard, model: Path) -> None:
    with opened(talking, model) as runtime:
        for loops in (0, -1, 100_001):
            with pytest.raises(UsageError, match="loops is"):
                runtime.run([BoardInput(IMAGE)], loops=loops)
        with pytest.raises(UsageError, match="threads is 0"):
            runtime.run([BoardInput(IMAGE)], threads=0)


def test_without_a_model_nothing_runs(talking: FakeBoard) -> None:
    with BoardRuntime(talking, fake_agent()) as runtime:
        with pytest.raises(UsageError, match="No model is open"):
            runtime.run([])
        with pytest.raises(UsageError, match="No model is open"):
            runtime.memory()


# -- which file, which board


def vendor(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "model.rknn"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "chip", "words"),
    [
        (build.npu(), "rk3566", "is for rk3588, and the board has rk3566"),
        (build.npu(), "rk1808", r"rk3588 \(generation 2\), and the board has rk1808 \(generation"),
        (build.precompiled(), "rk3588", r"\(generation 1\), and the board has rk3588 \(gener"),
    ],
)
def test_a_model_of_another_chip_stays_here(
    talking: FakeBoard, tmp_path: Path, content: bytes, chip: str, words: str
) -> None:
    path = vendor(tmp_path, content)
    with BoardRuntime(talking, fake_agent(), chip=chip) as runtime:
        before = len(talking.pushed)
        with pytest.raises(RuntimeLibraryError, match=words):
            runtime.open(path)
        assert talking.pushed[before:] == []


@pytest.mark.parametrize(
    ("platform", "chip"), [("rk3566", "rk3568"), ("rv1103", "rv1106"), ("rk3588", "rk3588s")]
)
def test_a_model_runs_on_chips_of_the_same_npu(
    talking: FakeBoard, tmp_path: Path, platform: str, chip: str
) -> None:
    whole = build.npu()
    assert whole.count(b"rk3588") >= 1
    content = whole.replace(b"rk3588", platform.encode())
    with BoardRuntime(talking, fake_agent(), chip=chip) as runtime:
        runtime.open(vendor(tmp_path, content))


def test_an_encrypted_model_is_tried(talking: FakeBoard, tmp_path: Path) -> None:
    with BoardRuntime(talking, fake_agent(), chip="rk3588") as runtime:
        assert runtime.open(vendor(tmp_path, build.encrypted())).file.encrypted


def test_our_container_runs_on_an_emulated_board_only(talking: FakeBoard, tmp_path: Path) -> None:
    ours = vendor(tmp_path, b"RKNN" + bytes(20) + b"OPENMODL" + bytes(100))
    with BoardRuntime(talking, fake_agent(), chip="rk3588") as runtime:
        with pytest.raises(RuntimeLibraryError, match="container of this program"):
            runtime.open(ours)
        talking.files["/etc/rknntui-emulated"] = b"yes\n"
        assert runtime.open(ours).file.ours


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is an empty file"),
        (b"hello", "is no .rknn file"),
        (build.rknx(), "third generation"),
        (build.package(), "custom operator"),
        (build.npu()[:100], "cannot be read"),
    ],
)
def test_what_is_no_model_stays_here(
    talking: FakeBoard, tmp_path: Path, content: bytes, words: str
) -> None:
    with (
        BoardRuntime(talking, fake_agent()) as runtime,
        pytest.raises(ContainerError, match=words),
    ):
        runtime.open(vendor(tmp_path, content))


def test_a_file_that_is_not_there_is_told(talking: FakeBoard, tmp_path: Path) -> None:
    with BoardRuntime(talking, fake_agent()) as runtime:
        with pytest.raises(ContainerError, match="No such file"):
            runtime.open(tmp_path / "nothing.rknn")
        with pytest.raises(ContainerError, match="not a file but a folder"):
            runtime.open(tmp_path)


def test_a_file_that_changes_while_it_is_sent_is_not_kept(board: FakeBoard, model: Path) -> None:
    def before(target: str) -> None:
        if "model-" in target:
            model.write_bytes(model.read_bytes() + b"more")

    board.before_push = before
    with BoardRuntime(board, fake_agent()) as runtime:
        with pytest.raises(DeviceStorageError, match="changed while it was sent"):
            runtime.open(model)
        assert not [name for name in find_folder(board).names() if "model" in name]
