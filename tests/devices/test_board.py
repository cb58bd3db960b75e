"""The real agent and a stand-in of the runtime library, on this machine and on emulated boards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceStorageError,
    DeviceTimeoutError,
    JobCancelledError,
    RuntimeLibraryError,
)
from engine.devices.board.layout import find_folder
from engine.devices.board.results import RunProgress
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.transports.adb.transport import AdbTransport
from engine.devices.transports.local import LocalTransport
from rknntui_emulator.runtime.answers import (
    Answers,
)
from tests.devices.adb_server import AdbServer
from tests.devices.agent.test_errors import TOO_OLD
from tests.devices.conftest import add_c_library
from tests.devices.fake_board import ELF, FakeBoard
from tests.devices.faulty_board import FaultyBoard, Software
from tests.devices.known_model import (
    IMAGE,
    OLD_IMAGE,
    OLD_SCORES,
    answers,
    check_results,
    first_answers,
)
from tests.safety import ends

SETTINGS = "emulated.conf"
OLD = pytest.param("rk1808", marks=pytest.mark.long)


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with ends():
        yield


# -- this machine as the board


@pytest.fixture
def local(tmp_path: Path, libraries: Callable[..., Path], model: Path) -> Iterator[FakeBoard]:
    """A transport to this machine; the library and its settings are in ``root / "lib"``."""
    board = FakeBoard(tmp_path)
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "librknnrt.so").write_bytes(libraries().read_bytes())
    answers().into(folder / "answers", model)
    yield board
    board.close()


def library_of(board: FakeBoard) -> str:
    return str(board.root / "lib" / "librknnrt.so")


@pytest.mark.cc
def test_the_real_agent_runs_a_model(local: FakeBoard, model: Path) -> None:
    with BoardRuntime(local) as runtime:
        found = runtime.open(model, perf=True, library=library_of(local))
        assert found.library == library_of(local)
        assert found.api_version.startswith("2.3.2")
        assert found.inputs[0].shape == (1, 4, 4, 3)
        assert found.memory == runtime.memory()
        assert found.memory is not None
        assert found.memory.dma == 5939200
        check_results(runtime)
        assert "Conv:conv1" in str(runtime.run([BoardInput(IMAGE)]).perf)


@pytest.mark.cc
def test_an_input_that_the_library_does_not_take_is_told(local: FakeBoard, model: Path) -> None:
    with BoardRuntime(local) as runtime:
        runtime.open(model, library=library_of(local))
        with pytest.raises(RuntimeLibraryError, match="INPUT_INVALID"):
            runtime.run([BoardInput(IMAGE + 1)])
        check_results(runtime)


@pytest.mark.cc
@pytest.mark.parametrize("threads", [1, 3])
def test_a_run_of_the_real_agent_is_cancelled(local: FakeBoard, model: Path, threads: int) -> None:
    cancelled = False

    def check() -> None:
        if cancelled:
            raise JobCancelledError("It was cancelled.")

    def stop(_progress: RunProgress) -> None:
        nonlocal cancelled
        cancelled = True

    with BoardRuntime(local, check=check) as runtime:
        runtime.open(model, library=library_of(local))
        with pytest.raises(JobCancelledError):
            runtime.run([BoardInput(IMAGE)], loops=100_000, threads=threads, progress=stop)
        cancelled = False
        check_results(runtime)


@pytest.mark.cc
@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ("HANG=init", DeviceTimeoutError, "did not load the model"),
        ("CRASH=init", DeviceError, "ended|killed"),
        ("FAIL=init:-6", RuntimeLibraryError, "MODEL_INVALID"),
        ("PLATFORM=rk3566", RuntimeLibraryError, "PLATFORM_UNMATCH"),
    ],
)
def test_faults_of_a_start_are_told(
    local: FakeBoard, model: Path, settings: str, error: type[DeviceError], words: str
) -> None:
    (local.root / "lib" / SETTINGS).write_text(f"{settings}\n")
    with BoardRuntime(local) as runtime:
        with pytest.raises(error, match=words):
            runtime.open(
                model, library=library_of(local), seconds=0.5 if "HANG" in settings else 60
            )
        (local.root / "lib" / SETTINGS).unlink()
        runtime.open(model, library=library_of(local))
        check_results(runtime)
    assert not find_folder(local).runs()


@pytest.mark.long
@pytest.mark.cc
@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ("HANG=run", DeviceTimeoutError, "did not answer `run`"),
        ("CRASH=run", DeviceError, "ended|killed"),
        ("FAIL=run:-2", RuntimeLibraryError, "TIMEOUT"),
    ],
)
def test_faults_of_a_run_are_told(
    local: FakeBoard, model: Path, settings: str, error: type[DeviceError], words: str
) -> None:
    with BoardRuntime(local) as runtime:
        runtime.open(model, library=library_of(local))
        (local.root / "lib" / SETTINGS).write_text(f"{settings}\n")
        with pytest.raises(error, match=words):
            runtime.run([BoardInput(IMAGE)], seconds=0.5 if "HANG" in settings else 60)
        (local.root / "lib" / SETTINGS).unlink()
        runtime.open(model, library=library_of(local))
        check_results(runtime)
    assert not find_folder(local).runs()


# -- this machine by the real transports


@pytest.mark.cc
def test_a_model_runs_on_this_machine(libraries: Callable[..., Path], model: Path) -> None:
    library = libraries()
    answers().into(library.parent / "answers", model)
    with closing(LocalTransport()) as transport, BoardRuntime(transport, chip="rk3588") as runtime:
        runtime.open(model, library=str(library))
        check_results(runtime)
        place = find_folder(transport)
        assert place.runs()
    assert place.runs() == ()


# -- emulated boards behind a real adb server


Boards = Callable[..., FaultyBoard]


def equipped(emulator: FaultyBoard, library: Path, model: Path, known: Answers) -> AdbTransport:
    """A board whose library knows a model."""
    emulator.image.install_runtime(library)
    folder = (emulator.root / emulator.image.library.lstrip("/")).parent
    known.into(folder / "answers", model)
    return AdbTransport.open(emulator.address)


def settings(emulator: FaultyBoard, text: str) -> None:
    folder = (emulator.root / emulator.image.library.lstrip("/")).parent
    (folder / SETTINGS).write_text(f"{text}\n")


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
@pytest.mark.parametrize("android", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_model_runs_on_an_emulated_board(
    board: Boards, libraries: Callable[..., Path], model: Path, android: bool
) -> None:
    emulator = board("rk3588", android=android)
    add_c_library(emulator)
    transport = equipped(emulator, libraries(), model, answers())
    with closing(transport), BoardRuntime(transport) as runtime:
        assert runtime.open(model).generation == 2
        check_results(runtime)
        place = "/data/local/tmp/rknntui" if android else "/userdata/rknntui"
        assert find_folder(transport).path == place
        assert "MemTotal" in str(runtime.read(["/proc/meminfo"])["/proc/meminfo"])
        seen = [each.values["/proc/version"] for each in runtime.watch(["/proc/version"], count=1)]
        assert len(seen) == 1
        assert emulator.alive_orphans() == []
    assert find_folder(transport).runs() == ()


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_a_model_runs_on_an_old_board_by_one_request_at_a_time(
    board: Boards, libraries: Callable[..., Path], first_model: Path
) -> None:
    emulator = board("rk1808")
    transport = equipped(emulator, libraries(1), first_model, first_answers())
    assert not transport.converses
    with closing(transport), BoardRuntime(transport) as runtime:
        found = runtime.open(first_model)
        assert (found.generation, found.memory) == (1, None)
        check_results(runtime, OLD_IMAGE, OLD_SCORES, 28)
        with pytest.raises(RuntimeLibraryError, match="not available on this runtime"):
            runtime.memory()
        assert "MemTotal" in str(runtime.read(["/proc/meminfo"])["/proc/meminfo"])
        (seen,) = runtime.watch(["/proc/loadavg"], interval=0.02, count=1)
        assert seen.values["/proc/loadavg"]
    assert find_folder(transport).runs() == ()


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_what_lies_on_the_board_is_not_pushed_again(
    board: Boards, libraries: Callable[..., Path], model: Path
) -> None:
    emulator = board()
    for _ in range(2):
        transport = equipped(emulator, libraries(), model, answers())
        with closing(transport), BoardRuntime(transport) as runtime:
            runtime.open(model)
    place = emulator.root / "userdata" / "rknntui"
    assert sorted(path.name.split("-")[0] for path in place.iterdir()) == ["agent", "model"]
    written = [event for event in emulator.events if "model-" in event and "push" in event]
    assert len(written) <= 1, emulator.events


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_a_cable_that_is_pulled_while_it_runs_loses_nothing_but_the_run(
    board: Boards, adb_server: AdbServer, libraries: Callable[..., Path], model: Path
) -> None:
    emulator = board()
    transport = equipped(emulator, libraries(), model, answers())

    def pull(_progress: RunProgress) -> None:
        emulator.unplug()

    with closing(transport):
        runtime = BoardRuntime(transport)
        with closing(runtime):
            runtime.open(model)
            with pytest.raises(DeviceLostError):
                runtime.run([BoardInput(IMAGE)], loops=100_000, progress=pull)
    emulator.replug()
    adb_server.adb("disconnect", emulator.address)
    adb_server.connect(emulator.address)
    transport = AdbTransport.open(emulator.address)
    with closing(transport), BoardRuntime(transport) as runtime:
        runtime.open(model)
        check_results(runtime)
    assert find_folder(transport).runs() == ()
    assert emulator.alive_orphans() == []


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.parametrize("chip", ["rk3588", "rk1808"])
def test_a_disk_that_is_full_is_told(board: Boards, chip: str) -> None:
    emulator = board(chip)
    emulator.faults.disk_free = 1000
    transport = AdbTransport.open(emulator.address)
    with closing(transport), pytest.raises(DeviceStorageError):
        BoardRuntime(transport)
    emulator.faults.disk_free = None
    assert find_folder(transport).names() == ()


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.parametrize("chip", ["rk3588", "rk1808"])
def test_a_read_only_disk_leaves_the_memory(board: Boards, chip: str) -> None:
    emulator = board(chip)
    emulator.faults.read_only = ("/userdata", "/data")
    transport = AdbTransport.open(emulator.address)
    with closing(transport):
        assert find_folder(transport).path == "/tmp/rknntui"
        emulator.faults.read_only = ("/",)
        with pytest.raises(DeviceStorageError, match="No folder"):
            BoardRuntime(transport)


@pytest.mark.adb
@pytest.mark.usefixtures("no_agent")
@pytest.mark.parametrize("chip", ["rk3588", OLD])
def test_a_board_without_an_agent_is_told(board: Boards, chip: str) -> None:
    transport = AdbTransport.open(board(chip).address)
    with closing(transport), pytest.raises(DeviceError, match="There is no agent"):
        BoardRuntime(transport)


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.parametrize("chip", ["rk3588", "rk1808"])
def test_a_board_without_a_library_is_told(board: Boards, chip: str, model: Path) -> None:
    transport = AdbTransport.open(board(chip, software=Software(runtime=False)).address)
    with (
        closing(transport),
        BoardRuntime(transport, chip="") as runtime,
        pytest.raises(RuntimeLibraryError, match="no runtime library"),
    ):
        runtime.open(model)


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_a_library_that_is_older_than_the_model_is_told(
    board: Boards, libraries: Callable[..., Path], model: Path
) -> None:
    emulator = board()
    transport = equipped(emulator, libraries(2, "1.5.2"), model, answers())
    settings(emulator, f"FAIL=init:-1\nSAY={TOO_OLD}")
    with (
        closing(transport),
        BoardRuntime(transport) as runtime,
        pytest.raises(RuntimeLibraryError) as caught,
    ):
        runtime.open(model)
    assert "Invalid RKNN model version" in str(caught.value)


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_a_model_of_the_other_generation_is_told_on_either_side(
    board: Boards, libraries: Callable[..., Path], model: Path, first_model: Path
) -> None:
    transport = equipped(board(), libraries(), model, answers())
    with closing(transport):
        with (
            BoardRuntime(transport) as runtime,
            pytest.raises(RuntimeLibraryError, match="and the board has rk3588"),
        ):
            runtime.open(first_model)
        with (
            BoardRuntime(transport, chip="") as runtime,
            pytest.raises(RuntimeLibraryError, match="no runtime library of generation 1"),
        ):
            runtime.open(first_model)


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_our_own_container_runs_where_the_board_is_emulated(
    board: Boards, libraries: Callable[..., Path], tmp_path: Path
) -> None:
    ours = tmp_path / "ours.rknn"
    ours.write_bytes(b"RKNN" + bytes(20) + b"OPENMODL" + bytes(100))
    transport = equipped(board(), libraries(), ours, answers())
    with closing(transport), BoardRuntime(transport) as runtime:
        assert runtime.open(ours).file.ours
        check_results(runtime)


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_an_npu_that_hangs_is_let_go(
    board: Boards, libraries: Callable[..., Path], model: Path
) -> None:
    emulator = board()
    transport = equipped(emulator, libraries(), model, answers())
    with closing(transport), BoardRuntime(transport) as runtime:
        runtime.open(model)
        settings(emulator, "HANG=run")
        with pytest.raises(DeviceTimeoutError, match="did not answer `run`"):
            runtime.run([BoardInput(IMAGE)], seconds=0.5)
        assert emulator.alive_orphans() == []
        settings(emulator, "HANG=init")
        with pytest.raises(DeviceTimeoutError) as caught:
            runtime.open(model, seconds=0.5)
        assert caught.value.remedy == "Restart the board."


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.cc
def test_an_old_board_that_hangs_is_let_go(
    board: Boards, libraries: Callable[..., Path], first_model: Path
) -> None:
    emulator = board("rk1808")
    known = answers(generation=1, platform="")
    transport = equipped(emulator, libraries(1), first_model, known)
    with closing(transport), BoardRuntime(transport) as runtime:
        settings(emulator, "HANG=init")
        with pytest.raises(DeviceTimeoutError, match="did not load the model"):
            runtime.open(first_model, seconds=1)
    assert find_folder(transport).runs() == ()


@pytest.mark.long
@pytest.mark.adb
@pytest.mark.parametrize("chip", ["rk3588", OLD])
def test_a_push_over_a_slow_link_is_cancelled(board: Boards, tmp_path: Path, chip: str) -> None:
    emulator = board(chip)
    large = tmp_path / "large.rknn"
    large.write_bytes(b"RKNN" + bytes(20) + b"OPENMODL" + bytes(60 << 20))
    library = tmp_path / "library.so"
    library.write_bytes(ELF)
    emulator.image.install_runtime(library)
    transport = AdbTransport.open(emulator.address)
    seen: list[int] = []

    def moved(done: int, total: int) -> None:
        emulator.faults.rate = 50_000
        seen.append(done)
        if len(seen) == 3:
            raise JobCancelledError("It was cancelled.")

    with closing(transport), BoardRuntime(transport, chip="") as runtime:
        with pytest.raises(JobCancelledError):
            runtime.open(large, moved=moved)
        emulator.faults.rate = None
        assert seen[-1] < 60 << 20
        names = find_folder(transport).names()
        assert not [name for name in names if "model" in name], names


@pytest.mark.adb
@pytest.mark.cc
@pytest.mark.long
def test_an_old_board_that_goes_while_it_runs_is_lost(
    board: Boards, libraries: Callable[..., Path], first_model: Path
) -> None:
    emulator = board("rk1808")
    transport = equipped(emulator, libraries(1), first_model, answers(generation=1, platform=""))
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if runs and emulator.alive_orphans() == [] and looks > 20:
            emulator.unplug()

    runs = False
    with closing(transport), closing(BoardRuntime(transport, chip="", check=check)) as runtime:
        runtime.open(first_model)
        settings(emulator, "HANG=run")
        looks, runs = 0, True
        with pytest.raises(DeviceLostError):
            runtime.run([BoardInput(IMAGE.astype(np.uint8))])


@pytest.mark.cc
@pytest.mark.long
def test_five_hundred_runs_leave_nothing_behind(local: FakeBoard, model: Path) -> None:
    def here() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    def there(pid: int) -> tuple[int, int]:
        status = Path(f"/proc/{pid}/status").read_text()
        resident = int(status.split("VmRSS:")[1].split()[0])
        return len(list(Path(f"/proc/{pid}/fd").iterdir())), resident

    with BoardRuntime(local) as runtime:
        runtime.open(model, library=library_of(local))
        pid = local.talks[0].pid
        for _ in range(50):
            runtime.run([BoardInput(IMAGE)])
        before, (files, resident) = here(), there(pid)
        names = sorted(path.name for path in Path(find_folder(local).path).rglob("*"))
        for _ in range(500):
            runtime.run([BoardInput(IMAGE)])
        assert here() == before
        assert there(pid)[0] == files
        assert there(pid)[1] < resident + (4 << 10), "it takes more memory with each run"
        assert sorted(path.name for path in Path(find_folder(local).path).rglob("*")) == names


@pytest.mark.cc
@pytest.mark.long
def test_sessions_leave_nothing_behind(local: FakeBoard, model: Path) -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        with BoardRuntime(local) as runtime:
            runtime.open(model, library=library_of(local))
            check_results(runtime)
        assert not Path(f"/proc/{local.talks[-1].pid}").exists()
        local.talks.clear()
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 1
    names = find_folder(local).names()
    assert sorted(name.split("-")[0] for name in names) == ["agent", "model"]
