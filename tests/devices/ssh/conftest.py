from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.devices.address import Address
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import SSHD, Sshd


@pytest.fixture
def sshd(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    if SSHD is None:
        pytest.skip("there is no sshd")
    if os.getuid() == 0:
        # where sshd locks itself in before anybody has logged in; Debian makes it at its start
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    server = Sshd(tmp_path / "sshd", own_home)
    yield server
    server.close()


@pytest.fixture
def board(sshd: Sshd) -> Iterator[SshTransport]:
    """A board that lets us in."""
    transport = SshTransport(Address("ssh", "127.0.0.1", "", sshd.port))
    yield transport
    transport.close()
