"""Models on a board, over a transport to real programs of this machine that behave or do not."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import (
    ContainerError,
    DeviceError,
    DeviceLostError,
    DeviceStorageError,
    DeviceTimeoutError,
    EngineError,
    JobCancelledError,
    RuntimeLibraryError,
    UsageError,
)
from engine.devices.board.layout import find_folder
from engine.devices.board.model_file import ModelFile
from engine.devices.board.results import OpenModel, RunProgress, read_open_model
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.probe.libraries import LIBRARIES
from engine.devices.transport import Completed
from tests.container.vendor import build
from tests.devices.fake_agent import INPUT, OPEN, OUTPUT, fake_agent
from tests.devices.fake_board import FakeBoard
from tests.safety import ends

IMAGE = np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4)
TOTAL = float(IMAGE.sum())


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with ends():
        yield


@pytest.fixture(params=["conversation", "one shot"])
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeBoard]:
    board = FakeBoard(tmp_path, converses=request.param == "conversation")
    yield board
    board.gone = False
    board.close()
    left = find_folder(board).runs()
    assert left == (), "a session left its folder on the board"
    assert not list(tmp_path.glob("rknntui-board-*")), "a session left its folder here"


@pytest.fixture
def talking(tmp_path: Path) -> Iterator[FakeBoard]:
    board = FakeBoard(tmp_path)
    yield board
    board.close()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "it's a $(touch x) model.rknn"
    path.write_bytes(build.npu())
    return path


def opened(board: FakeBoard, model: Path, **plan: Any) -> tuple[BoardRuntime, OpenModel]:
    runtime = BoardRuntime(board, fake_agent(**plan))
    return runtime, runtime.open(model)


def changed(side: str, original: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What ``open`` answers, with one attribute changed."""
    return {**OPEN, side: [{**original, **changes}]}


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


def test_what_is_there_is_not_pushed_again(board: FakeBoard, model: Path) -> None:
    for _ in range(2):
        runtime, _found = opened(board, model)
        runtime.close()
    kinds = [name.split("-")[0] for name in board.pushed if "-" in name]
    assert sorted(kinds) == ["agent", "model"]


def test_no_name_of_the_user_is_in_a_command(board: FakeBoard, model: Path) -> None:
    runtime, _found = opened(board, model)
    runtime.run([BoardInput(IMAGE)])
    runtime.close()
    assert not any("model.rknn" in word or "$" in word for words in board.ran for word in words)


def test_progress_is_told_while_it_runs(talking: FakeBoard, model: Path) -> None:
    runtime, _found = opened(talking, model)
    told: list[RunProgress] = []
    with closing(runtime):
        runtime.run([BoardInput(IMAGE)], loops=3, progress=told.append)
    assert [each.done for each in told] == [1, 2, 3]
    assert [time for each in told for time in each.wall_us] == [100, 101, 102]


def test_files_are_read_and_watched(board: FakeBoard, tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_text("NPU load:  7%\n")
    with BoardRuntime(board, fake_agent()) as runtime:
        paths = [str(path), "/nothing/here"]
        assert runtime.read(paths) == {paths[0]: "NPU load:  7%\n", paths[1]: None}
        seen = list(runtime.watch(paths, interval=0.01, count=3))
        assert [each.values[paths[0]] for each in seen] == ["NPU load:  7%\n"] * 3
        assert seen[0].at <= seen[1].at <= seen[2].at


def test_who_looks_no_more_can_ask_again(board: FakeBoard, model: Path, tmp_path: Path) -> None:
    runtime, _found = opened(board, model)
    with closing(runtime):
        watched = runtime.watch([str(tmp_path)], interval=0.01)
        next(watched)
        watched.close()
        assert runtime.run([BoardInput(IMAGE)]).outputs[0].array[0, 0] == TOTAL


def test_one_that_only_reads_may_be_beside_one_that_runs(board: FakeBoard, model: Path) -> None:
    runtime, _found = opened(board, model)
    with closing(runtime), BoardRuntime(board, fake_agent(), alone=False) as watching:
        assert watching.read(["/proc/version"])["/proc/version"]
        with pytest.raises(UsageError, match="only reads"):
            watching.open(model)
        runtime.run([BoardInput(IMAGE)])


def test_after_its_close_nothing_is_asked(board: FakeBoard, model: Path) -> None:
    runtime, _found = opened(board, model)
    runtime.close()
    runtime.close()
    assert runtime.opened is None
    with pytest.raises(DeviceError, match="was closed"):
        runtime.read(["/proc/version"])


def test_clocks_are_restored_by_the_close(board: FakeBoard) -> None:
    runtime = BoardRuntime(board, fake_agent())
    keep = Path(find_folder(board).at("clocks.json"))
    with closing(runtime):
        assert runtime.fix_clocks([("/sys/governor", "userspace")]).changed == ("/sys/governor",)
        assert keep.exists()
    assert not keep.exists()


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
    runtime, _found = opened(talking, model)
    with closing(runtime):
        before = len(talking.pushed)
        for given, words in MISFITS:
            with pytest.raises(UsageError, match=words):
                runtime.run([given])
            with pytest.raises(UsageError, match="takes 1 inputs, and 2"):
                runtime.run([BoardInput(IMAGE), given])
        assert talking.pushed[before:] == []


def test_the_bytes_that_are_sent_are_those_of_the_array(talking: FakeBoard, model: Path) -> None:
    sent: list[bytes] = []

    runtime, _found = opened(talking, model)
    original = talking.push

    def push(source: Path, target: str, **more: Any) -> None:
        sent.append(source.read_bytes())
        original(source, target, **more)

    talking.push = push  # type: ignore[method-assign]
    with closing(runtime):
        runtime.run([BoardInput(IMAGE)])
        runtime.run([BoardInput(IMAGE.transpose(0, 3, 1, 2), layout="NCHW")])
        runtime.run([BoardInput(IMAGE.astype(">f4"))])
        native = np.arange(32, dtype=np.int8)
        runtime.run([BoardInput(native, pass_through=True)])
    assert sent[0] == sent[1] == IMAGE.tobytes()
    assert sent[2] == IMAGE.astype("<f4").tobytes()
    assert sent[3] == native.tobytes()


def test_numbers_that_make_no_sense_are_refused(talking: FakeBoard, model: Path) -> None:
    runtime, _found = opened(talking, model)
    with closing(runtime):
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


# -- faults of the board


def test_a_board_without_a_library_is_told(board: FakeBoard, model: Path) -> None:
    board.files.update(dict.fromkeys(LIBRARIES[1] + LIBRARIES[2]))
    with (
        BoardRuntime(board, fake_agent()) as runtime,
        pytest.raises(RuntimeLibraryError, match="no runtime library"),
    ):
        runtime.open(model)
    assert not any(name.startswith("model-") for name in board.pushed)


def test_what_the_runtime_refuses_is_told_as_it_says(board: FakeBoard, model: Path) -> None:
    said = {
        "kind": "runtime library",
        "what": "rknn_init failed: RKNN_ERR_MODEL_INVALID (-6).\x1b[31m",
        "cause": "Invalid RKNN model version 6",
    }
    with BoardRuntime(board, fake_agent(refuse={"open": said})) as runtime:
        with pytest.raises(RuntimeLibraryError, match="MODEL_INVALID") as caught:
            runtime.open(model)
        assert caught.value.cause == "Invalid RKNN model version 6"
        assert "\x1b" not in str(caught.value)
        assert runtime.opened is None


@pytest.mark.parametrize("kind", ["worker", "device lost", "strange"])
def test_another_kind_of_refusal_is_still_about_the_board(
    talking: FakeBoard, model: Path, kind: str
) -> None:
    refuse = {"open": {"kind": kind, "what": "no"}}
    with (
        BoardRuntime(talking, fake_agent(refuse=refuse)) as runtime,
        pytest.raises(DeviceError, match="no") as caught,
    ):
        runtime.open(model)
    assert type(caught.value) is DeviceError


def test_an_agent_that_dies_says_how(board: FakeBoard, model: Path) -> None:
    runtime, _found = opened(board, model, die=["run"])
    with closing(runtime):
        with pytest.raises(DeviceError) as caught:
            runtime.run([BoardInput(IMAGE)])
        assert "Segmentation fault" in caught.value.cause
        assert not isinstance(caught.value, DeviceLostError)


def test_after_its_death_a_model_can_be_opened_again(talking: FakeBoard, model: Path) -> None:
    runtime, _found = opened(talking, model, die=["run"])
    with closing(runtime):
        with pytest.raises(DeviceError):
            runtime.run([BoardInput(IMAGE)])
        with pytest.raises(UsageError, match="No model is open"):
            runtime.run([BoardInput(IMAGE)])
        assert runtime.open(model).generation == 2
    assert len(talking.talks) == 2


def test_a_hang_ends_by_its_time_and_the_agent_with_it(talking: FakeBoard, model: Path) -> None:
    runtime, _found = opened(talking, model, hang={"run": 600})
    with closing(runtime):
        with pytest.raises(DeviceTimeoutError, match="did not answer `run`"):
            runtime.run([BoardInput(IMAGE)], seconds=0.3)
        assert not talking.talks[0].peer.open
        assert runtime.opened is None


def test_a_hang_of_one_request_ends_by_its_time(tmp_path: Path, model: Path) -> None:
    board = FakeBoard(tmp_path, converses=False)
    runtime, _found = opened(board, model)
    original = board.run

    def run(words: Any, **more: Any) -> Completed:
        if "--request" in words:
            raise DeviceTimeoutError("It did not end.")
        return original(words, **more)

    board.run = run  # type: ignore[method-assign]
    with closing(runtime), pytest.raises(DeviceTimeoutError, match="did not answer `run`"):
        runtime.run([BoardInput(IMAGE)], seconds=0.3)


def test_a_runtime_that_hangs_twice_needs_a_restart(talking: FakeBoard, model: Path) -> None:
    with BoardRuntime(talking, fake_agent(hang={"open": 600})) as runtime:
        with pytest.raises(DeviceTimeoutError, match="did not load the model") as first:
            runtime.open(model, seconds=0.3)
        assert first.value.remedy.startswith("Try again")
        with pytest.raises(DeviceTimeoutError) as second:
            runtime.open(model, seconds=0.3)
        assert second.value.remedy == "Restart the board."


def test_what_reports_is_not_hanging(talking: FakeBoard, model: Path) -> None:
    runtime, _found = opened(talking, model, slow=0.4)
    with closing(runtime):
        # each inference is in time, all together are not
        result = runtime.run([BoardInput(IMAGE)], loops=5, seconds=1.5)
    assert len(result.wall_us) == 5


def test_a_board_that_goes_while_it_runs_is_lost(talking: FakeBoard, model: Path) -> None:
    runtime, _found = opened(talking, model, slow=0.05)

    def pull(_progress: RunProgress) -> None:
        talking.pull_cable()

    with closing(runtime), pytest.raises(DeviceLostError):
        runtime.run([BoardInput(IMAGE)], loops=10_000, progress=pull)
    assert len(talking.talks) == 1, "a run is never repeated"


def run_once(board: FakeBoard, model: Path) -> None:
    with BoardRuntime(board, fake_agent()) as runtime:
        runtime.open(model)
        runtime.run([BoardInput(IMAGE)])


@pytest.mark.parametrize("what", ["agent-", "model-", "in0", "session"])
def test_a_board_that_goes_while_a_file_is_pushed_is_lost(
    board: FakeBoard, model: Path, what: str
) -> None:
    def before(target: str) -> None:
        if what in Path(target).name:
            board.pull_cable()

    board.before_push = before
    with pytest.raises(DeviceLostError):
        run_once(board, model)
    # it comes back: what was left there is removed, and everything works
    board.gone, board.before_push = False, lambda _target: None
    for run in find_folder(board).runs():
        os.utime(find_folder(board).at(run), (0, 0))
    runtime, _found = opened(board, model)
    with closing(runtime):
        assert runtime.run([BoardInput(IMAGE)]).outputs[0].array[0, 0] == TOTAL


def test_a_disk_that_fills_up_is_told(board: FakeBoard, model: Path) -> None:
    head = b"Filesystem 1024-blocks Used Available Capacity Mounted on\n"
    board.programs["df"] = lambda _: Completed(0, head + b"/dev/root 9 9 0 100% /\n")
    with pytest.raises(DeviceStorageError, match="has 0 B free"):
        BoardRuntime(board, fake_agent())


def test_a_board_without_python_is_told_before_anything_is_pushed(board: FakeBoard) -> None:
    missing = Completed(127, b"", b"sh: not found")
    for folder in ("", "/usr/bin/", "/usr/local/bin/", "/opt/bin/"):
        board.programs[f"{folder}python3"] = lambda _: missing
    with pytest.raises(DeviceError, match="There is no Python"):
        BoardRuntime(board, fake_agent())
    assert board.pushed == []


def test_two_users_of_this_machine_are_told_apart(board: FakeBoard, model: Path) -> None:
    runtime, _found = opened(board, model)
    with closing(runtime):
        with pytest.raises(DeviceError, match="is in use"):
            BoardRuntime(board, fake_agent())
        assert runtime.run([BoardInput(IMAGE)]).outputs
    BoardRuntime(board, fake_agent()).close()


# -- cancelled


class Cancel:
    """What a caller gives as ``check``."""

    def __init__(self) -> None:
        self.cancelled = False

    def __call__(self) -> None:
        if self.cancelled:
            raise JobCancelledError("It was cancelled.")


def test_a_run_is_cancelled_and_the_agent_stays(talking: FakeBoard, model: Path) -> None:
    cancel = Cancel()
    runtime = BoardRuntime(talking, fake_agent(slow=0.02), check=cancel)

    def stop(_progress: RunProgress) -> None:
        cancel.cancelled = True

    with closing(runtime):
        runtime.open(model)
        with pytest.raises(JobCancelledError):
            runtime.run([BoardInput(IMAGE)], loops=100_000, progress=stop)
        cancel.cancelled = False
        assert runtime.run([BoardInput(IMAGE)]).outputs[0].array[0, 0] == TOTAL
    assert len(talking.talks) == 1


def test_a_push_is_cancelled(board: FakeBoard, model: Path) -> None:
    cancel = Cancel()

    def stop(target: str) -> None:
        cancel.cancelled = "model-" in target

    with BoardRuntime(board, fake_agent(), check=cancel) as runtime:
        board.before_push = stop
        with pytest.raises(JobCancelledError):
            runtime.open(model)
        cancel.cancelled = False
    assert not [name for name in find_folder(board).names() if "model" in name]


def test_one_request_is_cancelled(tmp_path: Path, model: Path) -> None:
    board, cancel = FakeBoard(tmp_path, converses=False), Cancel()
    runtime = BoardRuntime(board, fake_agent(), check=cancel)
    runtime.open(model)
    original, let_go = board.run, threading.Event()

    def run(words: Any, **more: Any) -> Completed:
        if "--request" in words:
            cancel.cancelled = True
            let_go.wait()
        return original(words, **more)

    board.run = run  # type: ignore[method-assign]
    with closing(runtime):
        with pytest.raises(JobCancelledError):
            runtime.run([BoardInput(IMAGE)])
        cancel.cancelled = False
        with pytest.raises(DeviceError, match="still works"):
            runtime.memory()
        let_go.set()


# -- an agent that lies


LIES: list[tuple[str, dict[str, Any]]] = [
    ("no dims", changed("inputs", INPUT, dims=None)),
    ("dims of text", changed("inputs", INPUT, dims=["1"])),
    ("a dimension of 0", changed("inputs", INPUT, dims=[1, 0])),
    ("negative", changed("inputs", INPUT, dims=[-1, 2, 3, 4])),
    ("many dimensions", changed("inputs", INPUT, dims=[1] * 17)),
    ("large", changed("outputs", OUTPUT, elements=1 << 40)),
    ("a size of true", changed("outputs", OUTPUT, size=True)),
    ("an unknown dtype", changed("outputs", OUTPUT, dtype="O")),
    ("a dtype that is a list", changed("outputs", OUTPUT, dtype=["INT8"])),
    ("an unknown layout", changed("inputs", INPUT, layout="__reduce__")),
    ("no scale", changed("inputs", INPUT, scale=None)),
    ("another index", changed("inputs", INPUT, index=3)),
    ("too many tensors", {**OPEN, "inputs": [INPUT] * 257}),
    ("tensors that are none", {**OPEN, "inputs": [1]}),
    ("no tensors", {**OPEN, "outputs": None}),
    ("generation 3", {**OPEN, "generation": 3}),
    ("negative memory", {**OPEN, "memory": {**OPEN["memory"], "dma": -1}}),
    ("memory of text", {**OPEN, "memory": "much"}),
    ("a version that is no text", {**OPEN, "api_version": 2}),
    ("notes of numbers", {**OPEN, "notes": [1]}),
]


@pytest.mark.parametrize("answer", [lie for _, lie in LIES], ids=[name for name, _ in LIES])
def test_lies_about_a_model_are_not_believed(answer: dict[str, Any], tmp_path: Path) -> None:
    file = ModelFile(tmp_path, 1, "")
    assert read_open_model(file, {**OPEN, "library": "/lib.so"}, "").library == "/lib.so"
    with pytest.raises(DeviceError, match="cannot be used"):
        read_open_model(file, {**answer, "library": "/lib.so"}, "")


def test_a_lie_leaves_no_model_open(talking: FakeBoard, model: Path) -> None:
    answer = changed("inputs", INPUT, dims=None)
    with BoardRuntime(talking, fake_agent(in_turn={"open": [answer]})) as runtime:
        with pytest.raises(DeviceError, match="cannot be used"):
            runtime.open(model)
        with pytest.raises(UsageError, match="No model is open"):
            runtime.run([BoardInput(IMAGE)])
        runtime.open(model)


def ran(**changes: Any) -> dict[str, Any]:
    """What ``run`` answers, with changes."""
    true = {"wall_us": [1], "run_us": [1], "elapsed_us": 1, "perf": None, "outputs": []}
    return {**true, **changes}


def test_lies_about_outputs_are_not_followed(talking: FakeBoard, model: Path) -> None:
    out = f"{find_folder(talking).path}/run-0000000000000000/out"
    lies: list[Any] = [
        [],
        "all",
        [{"path": f"{out}/output0.bin", "size": 16}] * 2,
        [{"path": f"{out}/output0.bin", "size": 1 << 40}],
        [{"path": f"{out}/output0.bin", "size": 16}],
        [{"path": "/etc/shadow", "size": 16}],
        [{"path": f"{out}/../../x.bin", "size": 16}],
        [{"size": 16}],
        [{"path": 7, "size": 16}],
        [7],
    ]
    pulled: list[str] = []
    talking.pull = lambda source, *_more, **_: pulled.append(source)  # type: ignore[method-assign]
    answers = [ran(outputs=lie) for lie in lies]
    runtime, _found = opened(talking, model, in_turn={"run": answers})
    with closing(runtime):
        for _ in lies:
            with pytest.raises(DeviceError, match="cannot be used"):
                runtime.run([BoardInput(IMAGE)])
    assert pulled == []


def test_lies_about_times_are_not_believed(talking: FakeBoard, model: Path) -> None:
    lies: list[dict[str, Any]] = [
        {"wall_us": [1] * 1000},
        {"wall_us": ["1"]},
        {"wall_us": [None]},
        {"wall_us": [-1]},
        {"wall_us": 3},
        {"run_us": [True]},
        {"elapsed_us": None},
        {"perf": 7},
    ]
    answers = [ran(**lie) for lie in lies]
    runtime, _found = opened(talking, model, in_turn={"run": answers})
    with closing(runtime):
        for _ in lies:
            with pytest.raises(DeviceError, match="cannot be used"):
                runtime.run([BoardInput(IMAGE)], outputs=False)


def test_an_output_of_another_size_than_told_is_not_read(talking: FakeBoard, model: Path) -> None:
    original = talking.pull

    def pull(source: str, target: Path, **more: Any) -> None:
        original(source, target, **more)
        target.write_bytes(target.read_bytes()[:-1])

    talking.pull = pull  # type: ignore[method-assign]
    runtime, _found = opened(talking, model)
    with closing(runtime), pytest.raises(DeviceError, match="has not 16 bytes"):
        runtime.run([BoardInput(IMAGE)])


@pytest.mark.parametrize(
    "message",
    [{"done": 5, "total": 1, "wall_us": []}, {"done": "1"}, {"done": 0, "total": 1}],
)
def test_lies_about_progress_end_the_run(
    talking: FakeBoard, model: Path, message: dict[str, Any]
) -> None:
    runtime, _found = opened(talking, model, progress={"run": [message]})
    with closing(runtime), pytest.raises(DeviceError, match="cannot be used"):
        runtime.run([BoardInput(IMAGE)], progress=lambda _: None)


def test_a_line_without_an_end_takes_no_memory(talking: FakeBoard, model: Path) -> None:
    runtime, _found = opened(talking, model, shout={"run": 2 << 20})
    with closing(runtime), pytest.raises(DeviceError, match="a line is too long"):
        runtime.run([BoardInput(IMAGE)])


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        ('{"ready": true, "protocol": 99}\n', "another protocol"),
        ("Welcome to Buildroot\n", "not JSON"),
        ("[1, 2]\n", "not an object"),
    ],
)
def test_another_greeting_is_refused(talking: FakeBoard, greeting: str, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        BoardRuntime(talking, fake_agent(greeting=greeting))


@pytest.mark.parametrize(
    "reply",
    ["x", "[]", "{}", '{"answers": []}', '{"answers": [1]}', '{"answers": [{"result": {}}]}', "{"],
)
def test_a_reply_that_is_none_is_refused(tmp_path: Path, model: Path, reply: str) -> None:
    board = FakeBoard(tmp_path, converses=False)
    with (
        BoardRuntime(board, fake_agent(reply=reply)) as runtime,
        pytest.raises(DeviceError, match="cannot be used"),
    ):
        runtime.open(model)


def test_values_of_files_are_text(talking: FakeBoard) -> None:
    with (
        BoardRuntime(talking, fake_agent(replace={"read": {"/a": 1}})) as runtime,
        pytest.raises(DeviceError, match="cannot be used"),
    ):
        runtime.read(["/a"])


def test_every_error_leaves_the_engine_as_one_of_its_own(talking: FakeBoard, model: Path) -> None:
    answer = {**OPEN, "inputs": {"__class__": "x"}}
    with BoardRuntime(talking, fake_agent(open=answer)) as runtime:
        with pytest.raises(EngineError):
            runtime.open(model)
        name = hashlib.sha256(model.read_bytes()).hexdigest()[:16]
        assert f"model-{name}.rknn" in talking.pushed
