"""The transport against a real adb server and emulated boards."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from engine.base.errors import (
    DeviceError,
    DeviceStorageError,
    DeviceTimeoutError,
    OutputError,
    SourceModelError,
    UsageError,
)
from engine.devices.listing import poll
from engine.devices.transport import Transport
from engine.devices.transports.adb.transport import AdbTransport
from tests.devices.adb.conftest import FOLDER, Opened
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards
from tests.safety import ends

pytestmark = pytest.mark.adb

NEW_AND_OLD = pytest.mark.parametrize("chip", ["rk3588", "rk1808"])

HOSTILE = 'it\'s a "$(touch x)" `id`; *? ü\n.rknn'
"""A file name that no shell may see."""


class CancelledError(Exception):
    """What a caller raises to end a transfer."""


@NEW_AND_OLD
def test_programs_run_with_their_exit_code(board: Boards, opened: Opened, chip: str) -> None:
    made = board(chip)
    transport: Transport = opened(made)
    assert transport.converses == (chip == "rk3588")
    done = transport.run(["cat", "/proc/device-tree/model"])
    assert done.code == 0
    assert b"Rockchip" in done.out
    done = transport.run(["ls", "/userdata/nothing"])
    assert done.code != 0
    assert b"nothing" in done.err + done.out
    assert transport.run(["no-such-program"]).code == 127
    assert transport.run(["true"]).out == b""
    assert transport.run(["cat"]).out == b""  # there is no input to wait for
    (made.root / "userdata" / "lines").write_bytes(b"a\nb\n\nc")
    assert transport.run(["cat", "/userdata/lines"]).out == b"a\nb\n\nc"


@NEW_AND_OLD
def test_output_is_cut_at_its_limit_and_the_code_is_kept(
    board: Boards, opened: Opened, chip: str
) -> None:
    made = board(chip)
    (made.root / "userdata" / "much").write_bytes(b"x" * 300_000)
    transport = opened(made)
    done = transport.run(["cat", "/userdata/much", "/userdata/nothing"], limit=1000)
    assert done.code == 1
    assert done.out[:900] == b"x" * 900
    assert len(done.out) <= 1000


@NEW_AND_OLD
def test_a_program_that_takes_too_long_is_left(board: Boards, opened: Opened, chip: str) -> None:
    made = board(chip)
    transport = opened(made)
    with pytest.raises(DeviceTimeoutError, match="sleep"):
        transport.run(["sleep", "1000"], seconds=0.3)
    with pytest.raises(DeviceTimeoutError):  # it writes all the time
        transport.run(["yes"], seconds=0.3)
    with ends():
        while made.alive_orphans():
            time.sleep(0.05)


def test_what_a_shell_would_take_apart_is_refused(board: Boards, opened: Opened) -> None:
    made = board()
    transport = opened(made)
    for word in ("$(touch /userdata/x)", "a b", "a;b", "`id`", "'"):
        with pytest.raises(UsageError):
            transport.run(["ls", word])
        with pytest.raises(UsageError):
            transport.read(f"/{word}")
        with pytest.raises(UsageError):
            transport.push(Path(__file__), f"/userdata/{word}")
        with pytest.raises(UsageError):
            transport.remove([f"/userdata/{word}"])
        with pytest.raises(UsageError):
            transport.converse(["true"], environment={"A": word})
    with pytest.raises(UsageError):
        transport.read("relative")
    assert not (made.root / "userdata" / "x").exists()


@NEW_AND_OLD
def test_small_files_are_read(board: Boards, opened: Opened, chip: str) -> None:
    made = board(chip)
    transport = opened(made)
    content = transport.read("/proc/device-tree/compatible")
    assert content is not None
    assert f"rockchip,{chip}".encode() in content.split(b"\0")
    assert transport.read("/proc/device-tree/compatible", limit=3) == content[:3]
    assert transport.read("/proc/nothing") is None


@NEW_AND_OLD
def test_files_arrive_whole_and_come_back(
    board: Boards, opened: Opened, tmp_path: Path, chip: str
) -> None:
    made = board(chip)
    transport = opened(made)
    source, back = tmp_path / HOSTILE, tmp_path / "back"
    source.write_bytes(os.urandom(1_000_003))
    told: list[tuple[int, int]] = []
    transport.push(source, f"{FOLDER}/m.rknn", moved=lambda done, all_: told.append((done, all_)))
    assert (made.root / FOLDER[1:] / "m.rknn").read_bytes() == source.read_bytes()
    assert told == sorted(told)
    assert told[0][0] < told[-1][0]
    assert told[-1] == (1_000_003, 1_000_003)
    told.clear()
    transport.pull(
        f"{FOLDER}/m.rknn", back, limit=1 << 20, moved=lambda done, all_: told.append((done, all_))
    )
    assert back.read_bytes() == source.read_bytes()
    assert told[-1] == (1_000_003, 1_000_003)
    assert os.listdir(made.root / FOLDER[1:]) == ["m.rknn"]  # noqa: PTH208
    assert not list(made.root.rglob("x"))
    transport.remove([f"{FOLDER}/m.rknn", f"{FOLDER}/never-there"])
    assert list((made.root / FOLDER[1:]).iterdir()) == []


def test_a_file_has_its_permissions(board: Boards, opened: Opened, tmp_path: Path) -> None:
    made = board()
    transport = opened(made)
    source = tmp_path / "s"
    source.write_text("#!/bin/sh\necho run\n")
    transport.push(source, f"{FOLDER}/a", executable=True)
    transport.push(source, f"{FOLDER}/b")
    assert transport.run([f"{FOLDER}/a"]).text == "run\n"
    assert transport.run([f"{FOLDER}/b"]).code == 126
    source.write_bytes(b"")
    transport.push(source, f"{FOLDER}/b")
    assert transport.read(f"{FOLDER}/b") == b""


def test_many_files_are_removed(board: Boards, opened: Opened) -> None:
    made = board()
    folder = made.root / FOLDER[1:]
    folder.mkdir(parents=True)
    names = [f"{n:04}-{'x' * 60}" for n in range(200)]
    for name in names:
        (folder / name).touch()
    opened(made).remove([f"{FOLDER}/{name}" for name in names])
    assert list(folder.iterdir()) == []


def test_a_file_that_cannot_be_read_here_is_an_error(
    board: Boards, opened: Opened, tmp_path: Path
) -> None:
    made = board()
    transport = opened(made)
    for source in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(SourceModelError):
            transport.push(source, f"{FOLDER}/m")
    assert not (made.root / FOLDER[1:]).exists()


@NEW_AND_OLD
def test_pull_is_bounded_and_leaves_nothing(
    board: Boards, opened: Opened, tmp_path: Path, chip: str
) -> None:
    made = board(chip)
    (made.root / "userdata" / "big").write_bytes(b"x" * 200_000)
    transport = opened(made)
    with pytest.raises(DeviceStorageError, match="larger than"):
        transport.pull("/userdata/big", tmp_path / "big", limit=199_999)
    with pytest.raises(DeviceStorageError, match="nothing"):
        transport.pull("/userdata/nothing", tmp_path / "big", limit=1 << 20)
    with pytest.raises(OutputError):
        transport.pull("/userdata/big", tmp_path / "no" / "folder", limit=1 << 20)

    def stop(done: int, _all: int) -> None:
        if done > 100_000:
            raise CancelledError

    with pytest.raises(CancelledError):
        transport.pull("/userdata/big", tmp_path / "big", limit=1 << 20, moved=stop)
    assert list(tmp_path.iterdir()) == []


@NEW_AND_OLD
def test_a_push_is_cancelled_by_its_callback(
    board: Boards, opened: Opened, tmp_path: Path, chip: str
) -> None:
    made = board(chip)
    transport = opened(made)
    source = tmp_path / "m"
    source.write_bytes(b"x" * 5_000_000)

    def stop(done: int, _all: int) -> None:
        if done > 1_000_000:
            raise CancelledError

    with pytest.raises(CancelledError):
        transport.push(source, f"{FOLDER}/m", moved=stop)
    assert not (made.root / FOLDER[1:] / "m").exists()
    assert transport.run(["true"]).code == 0


def test_an_error_of_the_callback_is_not_the_boards(
    board: Boards, opened: Opened, tmp_path: Path
) -> None:
    transport = opened(board())
    source = tmp_path / "m"
    source.write_bytes(b"x" * 100_000)

    def fail(_done: int, _all: int) -> None:
        raise OSError(errno.EIO, "mine")

    with pytest.raises(OSError, match="mine"):
        transport.push(source, f"{FOLDER}/m", moved=fail)


def test_two_clients_work_at_once(board: Boards, opened: Opened, tmp_path: Path) -> None:
    made = board()
    source = tmp_path / "m"
    source.write_bytes(os.urandom(2_000_000))
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            transport = opened(made)
            for turn in range(3):
                transport.push(source, f"{FOLDER}/{number}-{turn}")
                assert transport.run(["true"]).code == 0
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    folder = made.root / FOLDER[1:]
    assert len(list(folder.iterdir())) == 6
    assert all(path.read_bytes() == source.read_bytes() for path in folder.iterdir())


def test_an_old_board_does_not_converse(board: Boards, opened: Opened) -> None:
    transport = opened(board("rk1808"))
    with pytest.raises(DeviceError, match="cannot be asked") as caught:
        transport.converse(["python3", "/userdata/x"])
    assert "shell_v2" in caught.value.cause


def test_the_live_list_of_a_real_server(
    adb_server: AdbServer, board: Boards, tmp_path: Path
) -> None:
    ready, asks = board("rk3588"), board("rk3566", auth=True, connect=False)
    adb_server.adb("connect", asks.address)
    adb_server.wait(asks.address, "unauthorized")
    hostile = board("rk3562", model="\x1b[2J\u202e $(id)\n", product="a" * 300)
    devices = {d.serial: d for d in poll(usb=tmp_path, device_tree=tmp_path).devices}
    assert devices[ready.address].state == "ready"
    assert devices[ready.address].model == "rk3588_emulated"
    assert "emulated" in devices[ready.address].warnings[0]
    numbered = AdbTransport.open(f"{ready.address}#{devices[ready.address].transport_id}")
    assert numbered.run(["true"]).code == 0
    assert devices[asks.address].state == "unauthorized"
    assert all(
        text.isprintable()
        for text in (devices[hostile.address].model, devices[hostile.address].product)
    )
    with pytest.raises(DeviceError, match="does not accept this machine"):
        AdbTransport.open(asks.address)
