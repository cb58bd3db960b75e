"""The board's doctor over a real OpenSSH server: this machine is the board, and no Rockchip."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import asyncssh
import pytest

from engine.base.errors import DeviceAccessError
from engine.devices.address import Address
from engine.devices.doctor.diagnose import STEPS, diagnose
from engine.devices.listing import poll
from engine.devices.probe.elf import read_elf
from engine.devices.probe.identify import identify
from engine.devices.probe.state import read_state
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import Sshd

pytestmark = pytest.mark.sshd


def test_this_machine_is_examined_as_a_board(board: SshTransport, tmp_path: Path) -> None:
    found = tuple(diagnose(board, proc=tmp_path))
    assert {check.name for check in found} == set(STEPS)
    states = {check.name: check.state for check in found}
    assert states["transport"] == "ok"
    assert states["agent"] == "ok"
    identity = identify(board)
    assert identity.kernel == platform.release()
    assert identity.machine == platform.machine()
    assert identity.userland == read_elf(Path("/bin/sh").read_bytes()[:20])
    assert identity.android is None
    memory = read_state(board, identity.chip).memory
    assert memory is not None
    assert memory.total == int(Path("/proc/meminfo").read_text().split()[1]) << 10


def test_what_this_machine_has_not_got_comes_with_reasons(board: SshTransport) -> None:
    assert identify(board).chip is None or Path("/proc/device-tree").exists()
    state = read_state(board, "rk3588")
    missing = dict(state.missing)
    for name in ("npu_load", "npu_clock", "npu_governor"):
        if getattr(state, name) is None:
            assert missing[name]


def unknown(sshd: Sshd) -> None:
    (sshd.home / ".ssh" / "known_hosts").unlink()


def changed(sshd: Sshd) -> None:
    sshd.accept_host_key(asyncssh.generate_private_key("ssh-ed25519"))


def refused(sshd: Sshd) -> None:
    key = sshd.home / ".ssh" / "id_ed25519"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))


FAILED = [
    (unknown, "The host key of"),
    (changed, "shows another host key"),
    (refused, "does not accept the user's keys"),
]
"""What makes a login fail, and what is said then."""


@pytest.mark.parametrize(("spoil", "said"), FAILED)
def test_a_failed_login_is_the_first_thing_that_is_told(
    sshd: Sshd, spoil: Callable[[Sshd], None], said: str
) -> None:
    """It is no board of an unknown chip."""
    spoil(sshd)
    address = Address.parse(f"ssh:127.0.0.1:{sshd.port}")
    with closing(SshTransport(address)) as board:
        with pytest.raises(DeviceAccessError, match=said):
            identify(board)
        found = tuple(diagnose(board))
    first = found[0]
    assert (first.name, first.state) == ("transport", "bad")
    assert said in first.found
    assert not any(check.state == "ok" for check in found)
    (listed,) = [each for each in poll(ssh=[str(address)], ask=True).devices if each.kind == "ssh"]
    assert (listed.state, listed.usable) == ("unauthorized", False)
    assert said in listed.what
    assert listed.remedy


def test_a_named_host_is_asked_for_the_list(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    named = [f"ssh:127.0.0.1:{port}" for port in (sshd.port, closed)]
    found = {each.address: each for each in poll(ssh=named, ask=True).devices}
    here, nobody = (found[name.removeprefix("ssh:")] for name in named)
    assert (here.state, here.usable) == ("ready", True)
    assert (nobody.state, nobody.usable) == ("offline", False)
    assert nobody.remedy
    assert {each.state for each in poll(ssh=named).devices if each.kind == "ssh"} == {"not asked"}
