"""A login that fails, by a real sshd: every verb says so first, and ends with its own exit code."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import asyncssh
import numpy as np
import pytest

from engine.api import RKNN
from engine.base.errors import DeviceAccessError
from engine.devices.address import Address
from engine.devices.doctor.diagnose import diagnose
from engine.devices.listing import poll
from engine.devices.probe.identify import identify
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import Sshd
from tests.devices.verbs import run

pytestmark = pytest.mark.sshd


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


def address_of(sshd: Sshd) -> str:
    return f"ssh:127.0.0.1:{sshd.port}"


@pytest.mark.parametrize(("spoil", "said"), FAILED)
def test_the_vendors_class_says_it(
    sshd: Sshd,
    model: Path,
    spoil: Callable[[Sshd], None],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil(sshd)
    rknn = RKNN()
    assert rknn.load_rknn(str(model)) == 0
    assert rknn.init_runtime(target="rk3588", device_id=address_of(sshd)) == -1
    shown = capsys.readouterr()
    assert said in (shown.out + shown.err).strip().splitlines()[-3]


@pytest.mark.long
@pytest.mark.parametrize(("spoil", "said"), FAILED)
def test_every_verb_says_it_first(
    sshd: Sshd, model: Path, tmp_path: Path, spoil: Callable[[Sshd], None], said: str
) -> None:
    spoil(sshd)
    address = address_of(sshd)
    picture = tmp_path / "picture.npy"
    np.save(picture, np.zeros((1, 4, 4, 3), np.uint8))
    here = ("--device", address)
    verbs = {
        ("doctor", *here, "--model", str(model)): 1,
        ("run", str(model), *here, "-i", str(picture)): 13,
        ("perf", str(model), *here, "--loops", "2"): 13,
        ("memory", str(model), *here): 13,
        ("monitor", *here, "--seconds", "1"): 13,
        ("devices", "list", "--ssh", address.removeprefix("ssh:")): 13,
    }
    for words, code in verbs.items():
        done = run(*words)
        assert done.returncode == code, (words, done.stdout + done.stderr)
        lines = [x for x in (done.stdout + done.stderr).splitlines() if not x.startswith("[")]
        if words[0] == "devices":
            lines = lines[1 + lines.index(next(x for x in lines if x.startswith("ssh:"))) :]
        assert said in lines[0], words
        assert "measured" not in lines[0]
        if spoil is changed:
            assert "somebody stands between" in done.stdout + done.stderr, words
            assert "ssh-keygen -R" in done.stdout + done.stderr, words
