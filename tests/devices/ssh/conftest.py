from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.devices.address import Address
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import Sshd, serving


@pytest.fixture
def sshd(tmp_path: Path, own_home: Path) -> Iterator[Sshd]:
    with serving(tmp_path / "sshd", own_home) as server:
        yield server


@pytest.fixture
def board(sshd: Sshd) -> Iterator[SshTransport]:
    """A board that lets us in."""
    transport = SshTransport(Address("ssh", "127.0.0.1", "", sshd.port))
    yield transport
    transport.close()
