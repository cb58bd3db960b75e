"""What goes wrong on the way to a board: nothing is lost, and each has its cause and remedy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceStorageError,
    DeviceTimeoutError,
)
from engine.base.peers.near import PeerEndedError
from engine.devices.transports.adb import files
from engine.devices.transports.adb.link import Deadline
from engine.devices.transports.adb.server import AdbServer as Server
from engine.devices.transports.adb.transport import AdbTransport
from tests.devices.adb.conftest import FOLDER, Opened
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards
from tests.devices.faulty_board import FaultyBoard
from tests.devices.verbs import program
from tests.devices.ways import ask, hanging, start_toy
from tests.safety import PATIENCE, ends

pytestmark = pytest.mark.adb

NEW_AND_OLD = pytest.mark.parametrize("chip", ["rk3588", "rk1808"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file that needs many packets."""
    path = tmp_path / "m.rknn"
    path.write_bytes(bytes(range(256)) * 16_000)
    return path


def left(made: FaultyBoard) -> list[str]:
    """Names in the folder of the transfers."""
    folder = made.root / FOLDER[1:]
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def is_told(error: DeviceError) -> bool:
    """Whether the error says all that a user needs."""
    return bool(error.what and error.cause and error.remedy)


@NEW_AND_OLD
def test_a_board_that_cannot_take_a_file_says_why(
    board: Boards, opened: Opened, model: Path, chip: str
) -> None:
    made = board(chip)
    transport = opened(made)
    faults: list[tuple[str, object, object, str]] = [
        ("disk_free", 1 << 20, None, "disk is full"),
        ("disk_free", 0, None, "disk is full"),
        ("read_only", ("/userdata",), (), "read-only"),
        ("push_error", "couldn't create file: Permission denied", None, "may not do that"),
        ("push_error", "\x1b[2J\u202e", None, "refused it"),
    ]
    for name, value, usual, cause in faults:
        setattr(made.faults, name, value)
        with pytest.raises(DeviceStorageError) as caught:
            transport.push(model, f"{FOLDER}/m.rknn")
        assert cause in caught.value.cause
        assert "3.91 MiB" in caught.value.what
        assert is_told(caught.value)
        assert "\x1b" not in str(caught.value)
        assert left(made) == []
        setattr(made.faults, name, usual)
    transport.push(model, f"{FOLDER}/m.rknn")
    assert left(made) == ["m.rknn"]


def test_a_half_file_is_removed_once_the_board_can(
    board: Boards, opened: Opened, model: Path
) -> None:
    made = board()
    transport = opened(made)
    made.faults.disk_free = 1 << 20
    made.faults.keep_partial = True
    with pytest.raises(DeviceStorageError):
        transport.push(model, f"{FOLDER}/m.rknn")
    assert left(made) == []


@pytest.mark.parametrize("how", ["reboot", "server"])
def test_a_conversation_that_is_cut_says_why(
    adb_server: AdbServer, board: Boards, opened: Opened, tmp_path: Path, how: str
) -> None:
    made = board()
    transport = opened(made)
    conversation = start_toy(transport, FOLDER, tmp_path)
    call = hanging(conversation)
    if how == "reboot":
        made.reboot(0.1)
    else:
        adb_server.stop()
    with ends(), pytest.raises(PeerEndedError):
        conversation.peer.wait(call)
    error = conversation.lost()
    assert type(error) is DeviceLostError
    assert is_told(error)
    assert ("adb server ended" in error.cause) == (how == "server")
    conversation.end()
    if how == "server":
        adb_server.start()
        adb_server.connect(made.address)
    adb_server.wait(made.address, "device")
    conversation = start_toy(transport, FOLDER, tmp_path)
    assert ask(conversation, "echo", a=1) == {"a": 1}
    conversation.end()


def test_a_board_that_is_gone_is_told_by_every_call(
    adb_server: AdbServer, board: Boards, opened: Opened, tmp_path: Path
) -> None:
    made = board()
    transport = opened(made)
    made.unplug()
    calls = (
        lambda: transport.run(["true"]),
        lambda: transport.read("/proc/version"),
        lambda: transport.push(Path(__file__), f"{FOLDER}/x"),
        lambda: transport.pull("/proc/version", tmp_path / "x", limit=1 << 20),
        lambda: transport.remove([f"{FOLDER}/x"]),
        lambda: transport.converse(["true"]),
        lambda: AdbTransport.open(made.address),
    )
    for call in calls:
        with ends(), pytest.raises(DeviceLostError) as caught:
            call()
        assert is_told(caught.value)
    adb_server.adb("disconnect", made.address)
    # it may be in the list a moment longer
    with pytest.raises(DeviceLostError, match=r"is not there|is offline"):
        transport.run(["true"])


def test_a_board_that_never_answers_is_offline(
    adb_server: AdbServer, board: Boards, opened: Opened
) -> None:
    made = board()
    transport = opened(made)
    made.faults.refuse_connection = True
    made.drop()
    adb_server.wait(made.address, "offline")
    with pytest.raises(DeviceLostError, match="is offline"):
        transport.run(["true"])


@NEW_AND_OLD
def test_a_shell_that_hangs_is_given_up(board: Boards, opened: Opened, chip: str) -> None:
    made = board(chip)
    transport = opened(made)
    made.faults.hang_shell = True
    with pytest.raises(DeviceTimeoutError) as caught:
        transport.run(["true"], seconds=0.3)
    assert is_told(caught.value)
    made.faults.hang_shell = False
    assert transport.run(["true"]).code == 0


@NEW_AND_OLD
def test_a_link_that_stands_still_is_given_up(
    board: Boards, opened: Opened, model: Path, chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "STALL_SECONDS", 0.5)
    made = board(chip)
    transport = opened(made)

    def stall(done: int, _all: int) -> None:
        made.faults.stall = made.faults.stall or done > 1 << 20

    with ends(), pytest.raises(DeviceTimeoutError) as caught:
        transport.push(model, f"{FOLDER}/m.rknn", moved=stall)
    assert is_told(caught.value)
    assert "m.rknn" not in left(made)


@pytest.mark.long
def test_a_slow_link_is_no_stalled_one(
    board: Boards, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernels on the way hold back takes longer than the patience with a stalled link."""
    monkeypatch.setattr(files, "STALL_SECONDS", 2.0)
    made = board()
    transport = opened(made)
    source = tmp_path / "s"
    source.write_bytes(bytes(2 << 20))
    made.faults.rate = 256 << 10
    transport.push(source, f"{FOLDER}/m.rknn")
    assert (made.root / FOLDER[1:] / "m.rknn").stat().st_size == 2 << 20


def test_a_server_that_was_stopped_is_started_by_the_users_adb(
    adb_server: AdbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not adb_server.program.endswith("/adb"):
        pytest.skip("the adb program has another name")
    monkeypatch.setenv("PATH", f"{Path(adb_server.program).parent}:/usr/bin:/bin")
    monkeypatch.setenv("ADB_USB", "0")
    monkeypatch.setenv("ADB_MDNS", "0")
    adb_server.stop()
    server = Server.of_environment()
    assert server.port == adb_server.port
    assert not server.is_up()
    try:
        assert server.boards(Deadline(PATIENCE)) == ()
        assert server.is_up()
    finally:
        try:
            adb_server.adb("kill-server", seconds=20)
        except subprocess.TimeoutExpired:  # adb's server waits for itself once in a while
            words = ["pkill", "-KILL", "-f", f"^adb -L tcp:{server.port} "]
            subprocess.run(words, check=True)


def test_no_adb_program_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    server = Server("127.0.0.1", 1)
    with pytest.raises(DeviceError, match="no adb program") as caught:
        AdbTransport.open("abc", server)
    assert is_told(caught.value)
    program(tmp_path / "adb", "")
    with pytest.raises(DeviceError, match="no adb server"):
        AdbTransport.open("abc", Server("127.0.0.2", 1))
