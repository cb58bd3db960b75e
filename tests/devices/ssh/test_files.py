"""Files of a board behind a real sshd, with and without SFTP: what test_transports.py has not."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from engine.base.errors import (
    DeviceLostError,
    DeviceStorageError,
    DeviceTimeoutError,
)
from engine.devices.address import Address
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import SlowLink, Sshd
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


@pytest.mark.long
def test_a_file_without_a_size_is_bounded(board: SshTransport, files: str, tmp_path: Path) -> None:
    # files of /proc have the size 0 and are read all the same
    with pytest.raises(DeviceStorageError, match="larger than"):
        board.pull("/proc/cpuinfo", tmp_path / "back", limit=10)
    assert not (tmp_path / "back").exists()


def test_a_login_file_that_prints_spoils_no_file(
    board: SshTransport, sshd: Sshd, model: Path, there: Path
) -> None:
    sshd.write_login_file("echo 'Welcome to Buildroot'\n")
    board.push(model, f"{there}/model")
    assert (there / "model").read_bytes() == CONTENT


@pytest.mark.long
@pytest.mark.parametrize(("way", "pulls"), [("sftp", False), ("cat", False), ("sftp", True)])
def test_a_stalled_link_is_given_up(
    *,
    board: SshTransport,
    sshd: Sshd,
    model: Path,
    there: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    pulls: bool,
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.transport._STALL_SECONDS", 1.0)
    monkeypatch.setattr("engine.devices.transports.ssh.transport._GIVE_UP_SECONDS", 0.5)
    if way == "cat":
        sshd.configure(Subsystem="")
    freeze = lambda *_: sshd.freeze()  # noqa: E731
    (there / "large").write_bytes(CONTENT * 8)
    call = partial(board.push, model, f"{there}/model")
    if pulls:
        call = partial(board.pull, f"{there}/large", tmp_path / "back", limit=1 << 30)
    with pytest.raises((DeviceTimeoutError, DeviceLostError)):
        call(moved=freeze)
    assert "model" not in names(there)
    assert not (tmp_path / "back").exists()


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
