"""Programs of a board behind a real sshd: ends of all kinds; the rest is in test_transports.py."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.base.errors import DeviceError, DeviceLostError
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import Sshd
from tests.devices.waiting import alive, open_files, until
from tests.safety import PATIENCE

pytestmark = pytest.mark.sshd

SLEEPER = (
    "import os, sys, time\nopen(sys.argv[1], 'w').write(str(os.getpid()) + ' ')\ntime.sleep({})"
)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[list[str]]:
    """A program that writes its process id to its last word and sleeps."""
    script, file = tmp_path / "sleeper.py", tmp_path / "pid"
    script.write_text(SLEEPER.format(4 * PATIENCE))
    yield [sys.executable, "-I", str(script), str(file)]
    # it hears no end of its input: one whose connection was cut lives on
    if file.exists() and alive(pid := int(file.read_text())):
        os.kill(pid, signal.SIGKILL)


def started(sleeper: list[str]) -> int:
    file = Path(sleeper[-1])
    until(lambda: file.exists() and file.read_text().endswith(" "), "the program starts")
    return int(file.read_text())


def test_what_login_files_print_is_no_output(board: SshTransport, sshd: Sshd) -> None:
    sshd.write_login_file("echo 'Welcome to Buildroot'\necho -n rknntui-pid\n")
    assert board.run(["echo", "ours"], seconds=PATIENCE).out == b"ours\n"


def test_a_connection_that_is_cut_is_told_and_made_again(
    board: SshTransport, sshd: Sshd, sleeper: list[str]
) -> None:
    with ThreadPoolExecutor() as other:
        running = other.submit(board.run, sleeper, seconds=PATIENCE)
        started(sleeper)
        sshd.cut()
        with pytest.raises(DeviceLostError, match="lost"):
            running.result(PATIENCE)
    assert board.run(["echo", "again"], seconds=PATIENCE).out == b"again\n"


def test_a_server_that_says_nothing_more_is_noticed(
    board: SshTransport, sshd: Sshd, sleeper: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.login.KEEPALIVE_SECONDS", 0.5)
    board.run(["true"], seconds=PATIENCE)
    sshd.freeze()
    # a pulled cable: no word comes, and none that the connection has ended
    with pytest.raises(DeviceLostError):
        board.run(sleeper, seconds=PATIENCE)


@pytest.mark.long
def test_several_threads_share_one_connection(board: SshTransport, sshd: Sshd) -> None:
    def echo(number: int) -> bytes:
        return board.run(["echo", str(number)], seconds=PATIENCE).out

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(echo, range(6))) == [f"{n}\n".encode() for n in range(6)]
    assert len(sshd.served) == 1


def test_nothing_is_left_open(board: SshTransport) -> None:
    board.run(["true"], seconds=PATIENCE)
    before = open_files()
    for _ in range(10):
        board.run(["true"], seconds=PATIENCE)
    assert open_files() == before
    threads = threading.active_count()
    board.close()
    assert open_files() < before
    assert threading.active_count() < threads
    with pytest.raises(DeviceError):
        board.run(["true"])
