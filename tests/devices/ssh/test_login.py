"""Who is let in, and who is believed: keys, agents, known hosts, aliases and jump hosts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncssh
import pytest

from engine.base.errors import DeviceError, DeviceLostError, DeviceTimeoutError, EngineError
from engine.devices.address import Address
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import Sshd
from tests.devices.waiting import until
from tests.safety import PATIENCE

pytestmark = pytest.mark.sshd

Reach = Callable[[str], bytes]

PROXY = """
import os, socket, sys, threading
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536):
        link.sendall(data)
    os._exit(0)
threading.Thread(target=up, daemon=True).start()
while data := link.recv(65536):
    os.write(1, data)
"""


@pytest.fixture
def reach() -> Iterator[Reach]:
    """Log in at an address and say what an ``echo`` there says."""
    transports: list[SshTransport] = []

    def run(text: str) -> bytes:
        transports.append(SshTransport(Address.parse(text)))
        return transports[-1].run(["echo", "in"], seconds=PATIENCE).out

    yield run
    for transport in transports:
        transport.close()


@pytest.fixture
def config(own_home: Path) -> Callable[[str], object]:
    """Write ``~/.ssh/config``."""
    return (own_home / ".ssh" / "config").write_text


def refused(reach: Reach, address: str, kind: type[EngineError] = DeviceError) -> EngineError:
    with pytest.raises(kind) as found:
        reach(address)
    return found.value


def test_an_unknown_host_is_refused_with_the_remedy(sshd: Sshd, reach: Reach) -> None:
    for known in (None, "other.host ssh-ed25519 AAAA\n"):
        file = sshd.home / ".ssh" / "known_hosts"
        file.unlink(missing_ok=True)
        if known is not None:
            file.write_text(known)
        error = refused(reach, f"ssh:127.0.0.1:{sshd.port}")
        assert "not known" in error.what
        assert f"ssh -p {sshd.port} 127.0.0.1" in error.remedy
        # nothing is written where the user has accepted nothing
        assert file.exists() == (known is not None)


def test_a_changed_host_key_is_a_warning(sshd: Sshd, reach: Reach) -> None:
    sshd.accept_host_key(asyncssh.generate_private_key("ssh-ed25519"))
    error = refused(reach, f"ssh:127.0.0.1:{sshd.port}")
    assert error.what.startswith("WARNING")
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}'" in error.remedy


def test_a_host_key_of_another_kind_is_a_changed_one(sshd: Sshd, reach: Reach) -> None:
    sshd.accept_host_key(asyncssh.generate_private_key("ecdsa-sha2-nistp256"))
    assert refused(reach, f"ssh:127.0.0.1:{sshd.port}").what.startswith("WARNING")


def test_another_port_of_a_known_host_is_unknown(sshd: Sshd, reach: Reach) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    (sshd.home / ".ssh" / "known_hosts").write_text(f"127.0.0.1 {other}")
    assert "not known" in refused(reach, f"ssh:127.0.0.1:{sshd.port}").what


def test_a_revoked_key_is_a_warning(sshd: Sshd, reach: Reach) -> None:
    file = sshd.home / ".ssh" / "known_hosts"
    file.write_text(file.read_text() + "\n@revoked * " + file.read_text().split(" ", 1)[1])
    assert "revoked" in refused(reach, f"ssh:127.0.0.1:{sshd.port}").what


@pytest.mark.long
def test_a_hashed_entry_among_odd_lines_is_believed(sshd: Sshd, reach: Reach) -> None:
    salt, name = os.urandom(20), f"[127.0.0.1]:{sshd.port}"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    fields = [base64.b64encode(part).decode() for part in (salt, digest)]
    key = sshd.host_key.export_public_key().decode()
    (sshd.home / ".ssh" / "known_hosts").write_text(
        f"# a comment\nnonsense\n@odd a b\n|2|x|y ssh-rsa AAAA\n\n|1|{fields[0]}|{fields[1]} {key}"
    )
    assert reach(f"ssh:127.0.0.1:{sshd.port}") == b"in\n"


def test_a_key_that_is_not_accepted(sshd: Sshd, reach: Reach) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    other.write_private_key(str(sshd.home / ".ssh" / "id_ed25519"))
    error = refused(reach, f"ssh:127.0.0.1:{sshd.port}")
    assert "does not accept" in error.what
    assert "ssh-copy-id" in error.remedy


def test_no_password_is_asked_for(sshd: Sshd, reach: Reach) -> None:
    sshd.configure(PubkeyAuthentication="no", PasswordAuthentication="yes")
    assert "does not accept" in refused(reach, f"ssh:127.0.0.1:{sshd.port}").what


@pytest.mark.long
def test_a_key_with_a_passphrase_needs_the_agent(
    sshd: Sshd,
    reach: Reach,
    config: Callable[[str], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = sshd.folder / "plain"
    plain.write_bytes(sshd.client_key.read_bytes())
    plain.chmod(0o600)
    lock = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "a passphrase", "-f", str(sshd.client_key)]
    subprocess.run(lock, check=True, capture_output=True, timeout=PATIENCE)
    for text in ("", f"Host *\n  IdentityFile {sshd.client_key}\n"):
        config(text)
        error = refused(reach, f"ssh:127.0.0.1:{sshd.port}")
        assert "passphrase" in error.cause
        assert "ssh-add" in error.remedy
    path = sshd.folder / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        until(path.exists, "the agent listens")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        add = ["ssh-add", "-q", str(plain)]
        subprocess.run(add, check=True, capture_output=True, timeout=PATIENCE)
        for text in ("", f"Host *\n  IdentityFile {sshd.client_key}\n  IdentitiesOnly yes\n"):
            config(text)
            assert reach(f"ssh:127.0.0.1:{sshd.port}") == b"in\n"
    finally:
        agent.kill()
        agent.wait()


def test_an_alias_of_the_configuration(
    sshd: Sshd, reach: Reach, config: Callable[[str], object]
) -> None:
    ssh = sshd.home / ".ssh"
    (ssh / "id_ed25519").rename(ssh / "key of the board")
    (ssh / "known_hosts").rename(ssh / "boards")
    (ssh / "more").write_text(
        f"Host rock*\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {sshd.user}\n"
        '  IdentityFile "~/.ssh/key of the board"\n  IdentityFile ~/.ssh/missing\n'
        "  UserKnownHostsFile ~/.ssh/none %d/.ssh/boards\n  SomethingNew yes\n"
        "  RequestTTY force\n  RemoteCommand false\n  ForwardAgent yes\n"
    )
    config("Include ~/.ssh/more\nHost *\n  User nobody-else\n  StrictHostKeyChecking no\n")
    assert reach("ssh:rock-5b") == b"in\n"


@pytest.mark.long
def test_a_host_key_alias(sshd: Sshd, reach: Reach, config: Callable[[str], object]) -> None:
    config(f"Host b\n  HostName 127.0.0.1\n  Port {sshd.port}\n  HostKeyAlias my-board\n")
    file = sshd.home / ".ssh" / "known_hosts"
    file.write_text("my-board " + file.read_text().split(" ", 1)[1])
    # no port: the name stands for itself, as in ssh
    with pytest.raises(DeviceError):
        reach(f"ssh:127.0.0.1:{sshd.port}")
    assert reach("ssh:b") == b"in\n"


def test_through_a_jump_host(sshd: Sshd, reach: Reach, config: Callable[[str], object]) -> None:
    hosts = f"  HostName 127.0.0.1\n  Port {sshd.port}\n"
    config(f"Host jump\n{hosts}Host board\n{hosts}  ProxyJump jump\n")
    assert reach("ssh:board") == b"in\n"
    assert len(sshd.served) == 2


def test_a_jump_host_that_is_unknown_is_refused(
    sshd: Sshd, reach: Reach, config: Callable[[str], object]
) -> None:
    hosts = f"  HostName 127.0.0.1\n  Port {sshd.port}\n"
    config(
        f"Host jump\n{hosts}  UserKnownHostsFile none\n  GlobalKnownHostsFile none\n"
        f"Host board\n{hosts}  ProxyJump jump\n"
    )
    error = refused(reach, "ssh:board")
    assert "The host key of jump is not known" in error.what


def test_jump_hosts_in_a_circle(sshd: Sshd, reach: Reach, config: Callable[[str], object]) -> None:
    config("Host *\n  ProxyJump jump\n")
    assert "circle" in refused(reach, "ssh:board").cause
    assert not sshd.served


def test_a_proxy_command_goes_to_the_shell(
    sshd: Sshd,
    reach: Reach,
    config: Callable[[str], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "proxy.py").write_text(PROXY)
    monkeypatch.setenv("SHELL", "/bin/sh")
    config(
        f"Host b\n  HostName 127.0.0.1\n  Port {sshd.port}\n"
        f"  ProxyCommand {sys.executable} -I {tmp_path}/proxy.py %h %p 2>/dev/null\n"
    )
    assert reach("ssh:b") == b"in\n"


def test_settings_that_cannot_be_read(
    sshd: Sshd, reach: Reach, config: Callable[[str], object]
) -> None:
    config("Host *\n  Port many\n")
    error = refused(reach, "ssh:127.0.0.1")
    assert "~/.ssh/config" in error.cause
    assert "many" in error.what


def test_a_closed_port(reach: Reach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = refused(reach, f"ssh:127.0.0.1:{port}", DeviceLostError)
    assert "cannot be reached" in error.what


def test_a_host_that_says_nothing(reach: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.transport.LOGIN_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        error = refused(reach, f"ssh:127.0.0.1:{port}", DeviceTimeoutError)
    assert "does not answer" in error.what


def test_a_host_that_speaks_another_language(reach: Reach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            taken, _ = listener.accept()
            with taken:
                taken.sendall(b"HTTP/1.1 400 \x1b[31mBad Request\r\n" * 2000)
                taken.recv(1 << 16)

        thread = threading.Thread(target=answer)
        thread.start()
        error = refused(reach, f"ssh:127.0.0.1:{listener.getsockname()[1]}")
        thread.join(PATIENCE)
    assert "\x1b" not in str(error)
