"""Files of a board behind a real sshd, with and without SFTP: what test_transports.py has not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceStorageError,
    DeviceTimeoutError,
)
from engine.devices.address import Address
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import SFTP, SlowLink, Sshd
from tests.devices.waiting import until

pytestmark = pytest.mark.sshd

CONTENT = os.urandom((1 << 20) + 12345)


@pytest.fixture(params=["sftp", "cat"])
def files(request: pytest.FixtureRequest, sshd: Sshd) -> str:
    """How files travel."""
    if request.param == "cat":
        # as dropbear of a Buildroot image
        sshd.configure(Subsystem="")
    return str(request.param)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder of the board."""
    folder = tmp_path / "board"
    folder.mkdir()
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "it's a $(touch x) `id` ü\n\udcff model.rknn"
    path.write_bytes(CONTENT)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_missing_folder_is_told(board: SshTransport, files: str, model: Path) -> None:
    with pytest.raises(DeviceStorageError) as refused:
        board.push(model, "/no-such-folder/model")
    assert "not there" in refused.value.cause


@pytest.mark.long
def test_a_file_without_a_size_is_bounded(board: SshTransport, files: str, tmp_path: Path) -> None:
    # files of /proc have the size 0 and are read all the same
    with pytest.raises(DeviceStorageError, match="larger than"):
        board.pull("/proc/cpuinfo", tmp_path / "back", limit=10)
    assert not (tmp_path / "back").exists()


def test_what_is_no_file_is_told(board: SshTransport, files: str, there: Path) -> None:
    assert board.read("/proc/version") == Path("/proc/version").read_bytes()  # its size is 0
    with pytest.raises(DeviceStorageError):
        board.read(str(there))
    with pytest.raises(DeviceStorageError):
        board.remove([str(there)])


def test_a_login_file_that_prints_spoils_no_file(
    board: SshTransport, sshd: Sshd, model: Path, there: Path
) -> None:
    sshd.write_login_file("echo 'Welcome to Buildroot'\n")
    board.push(model, f"{there}/model")
    assert (there / "model").read_bytes() == CONTENT


@pytest.mark.parametrize("how", ["sftp", "cat"])
def test_no_room_leaves_nothing(
    board: SshTransport, sshd: Sshd, model: Path, there: Path, how: str
) -> None:
    if how == "sftp" and SFTP == "internal-sftp":
        pytest.skip("there is no sftp-server")
    # the kernel lets no file grow above a size, as with a quota; the signal for it is ignored
    limited = sshd.folder / "limited"
    limited.write_text(f"#!/bin/sh\ntrap '' XFSZ\nulimit -f 400\nexec {SFTP}\n")
    limited.chmod(0o755)
    if how == "sftp":
        sshd.configure(Subsystem=f"sftp {limited}")
    else:
        sshd.configure(Subsystem="")
        sshd.write_login_file("trap '' XFSZ\nulimit -f 400\n")
    (there / "model").write_bytes(b"the old one")
    with pytest.raises(DeviceStorageError) as refused:
        board.push(model, f"{there}/model")
    assert str(there) in refused.value.what
    assert (there / "model").read_bytes() == b"the old one"
    assert names(there) == ["model"]


@pytest.mark.long
def test_a_stalled_link_is_given_up(
    board: SshTransport,
    sshd: Sshd,
    files: str,
    model: Path,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.transport._STALL_SECONDS", 1.0)
    monkeypatch.setattr("engine.devices.transports.ssh.transport._GIVE_UP_SECONDS", 0.5)
    with pytest.raises((DeviceTimeoutError, DeviceLostError)):
        board.push(model, f"{there}/model", moved=lambda *_: sshd.freeze())
    assert "model" not in names(there)


@pytest.mark.long
def test_a_stalled_link_is_given_up_while_pulling(
    board: SshTransport,
    sshd: Sshd,
    there: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.transport._STALL_SECONDS", 1.0)
    monkeypatch.setattr("engine.devices.transports.ssh.transport._GIVE_UP_SECONDS", 0.5)
    (there / "model").write_bytes(CONTENT * 8)
    with pytest.raises((DeviceTimeoutError, DeviceLostError)):
        board.pull(
            f"{there}/model", tmp_path / "back", limit=1 << 30, moved=lambda *_: sshd.freeze()
        )
    assert not (tmp_path / "back").exists()


def test_nobody_listens(board: SshTransport, sshd: Sshd, model: Path) -> None:
    sshd.refused.set()
    with pytest.raises(DeviceError, match="cannot be reached"):
        board.push(model, "/tmp/x")


@pytest.mark.long
def test_a_slow_link_is_no_lost_one_and_a_cancelled_file_goes(
    sshd: Sshd, files: str, tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pieces on the way take longer than a silent host has
    monkeypatch.setattr("engine.devices.transports.ssh.login.KEEPALIVE_SECONDS", 0.7)
    monkeypatch.setattr("engine.devices.transports.ssh.transport._GIVE_UP_SECONDS", 0.1)
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    with SlowLink(sshd.port, 256 << 10) as link:
        sshd.accept_host_key(port=link.port)
        board = SshTransport(Address("ssh", "127.0.0.1", "", link.port))
        board.push(source, f"{there}/model")
        assert (there / "model").read_bytes() == CONTENT

        class CancelledError(Exception):
            pass

        def cancel(done: int, _size: int) -> None:
            raise CancelledError

        with pytest.raises(CancelledError):
            board.push(source, f"{there}/other", moved=cancel)
        until(lambda: names(there) == ["model"], "the part is removed")
        board.close()
