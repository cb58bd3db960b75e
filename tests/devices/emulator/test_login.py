"""The emulated board behind a real sshd: the same files and programs as over adb."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from engine.base.errors import DeviceStorageError
from engine.devices.transports.ssh import SshTransport
from tests.devices.conftest import SshBoards
from tests.safety import PATIENCE

pytestmark = pytest.mark.sshd


def test_programs_and_files_are_those_of_the_board(ssh_board: SshBoards, tmp_path: Path) -> None:
    made, address = ssh_board("rk3576")
    made.set_load([12, 34])
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(bytes(range(256)) * 999)
    with closing(SshTransport(address)) as way:
        assert way.run(["uname", "-m"], seconds=PATIENCE).text == "aarch64\n"
        model = way.read("/proc/device-tree/model")
        assert model is not None
        assert model.endswith(b"(emulated)\0")
        assert way.read("/proc/rknpu/load") == b"NPU load:  Core0: 12%, Core1: 34%,\n"
        assert way.read("/etc/passwd") is None, "that is a file of this machine"
        way.push(source, "/userdata/pushed")
        assert (made.root / "userdata/pushed").read_bytes() == source.read_bytes()
        way.pull("/userdata/pushed", back, limit=1 << 20)
        assert back.read_bytes() == source.read_bytes()


def test_what_is_missing_is_missing(ssh_board: SshBoards) -> None:
    _, address = ssh_board("rk3588")
    with closing(SshTransport(address)) as way:  # no board has a Python, whatever this machine has
        assert way.run(["python3", "-V"], seconds=PATIENCE).code == 127


def test_faults_of_the_disk_are_those_of_the_board(ssh_board: SshBoards, tmp_path: Path) -> None:
    made, address = ssh_board("rk3588")
    source = tmp_path / "source"
    source.write_bytes(bytes(100_000))
    with closing(SshTransport(address)) as way:
        for fault, value, words in (
            ("read_only", ("/userdata",), "read-only"),
            ("disk_free", 0, "disk is full"),
        ):
            setattr(made.faults, fault, value)
            with pytest.raises(DeviceStorageError, match=words):
                way.push(source, "/userdata/pushed")
            setattr(made.faults, fault, () if fault == "read_only" else None)
        assert not list((made.root / "userdata").iterdir())
        way.push(source, "/userdata/pushed")
