"""A real sshd on loopback, one process for each connection, and a link that makes it slow."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import asyncssh
import pytest

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
SFTP = next(
    (p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server") if Path(p).exists()),
    "internal-sftp",
)
_PIECE = 4 << 10


class Sshd:
    """Listens where the system likes; the client's files are written to ``home``.

    Attributes:
        port: where it listens.
        home: the client's home folder.
        folder: configuration and log of the server.
        served: the processes that were started, oldest first.
        refused: what is set lets no connection through any more.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        self.served: list[subprocess.Popen[bytes]] = []
        self.refused = threading.Event()
        self._options: dict[str, str] = {"Subsystem": f"sftp {SFTP}"}
        folder.mkdir()
        (home / ".ssh").mkdir(mode=0o700)
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.host_key.write_private_key(str(folder / "host_key"))
        (folder / "host_key").chmod(0o600)
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(self.client_key))
        self.client_key.chmod(0o600)
        key.write_public_key(str(folder / "authorized_keys"))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.accept_host_key()
        # those of who runs the tests may take a quarter of a second for every command
        self.write_login_file("")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def user(self) -> str:
        return getpass.getuser()

    def configure(self, **options: str) -> None:
        """Change the configuration, for connections from now on."""
        self._options.update(options)
        lines = {
            "HostKey": str(self.folder / "host_key"),
            "AuthorizedKeysFile": str(self.folder / "authorized_keys"),
            "StrictModes": "no",
            "UsePAM": "no",
            "PidFile": "none",
            "PermitRootLogin": "yes",
            "PrintMotd": "no",
            "LogLevel": "VERBOSE",
            **self._options,
        }
        text = "".join(f"{name} {value}\n" for name, value in lines.items() if value)
        (self.folder / "sshd_config").write_text(text)

    def write_login_file(self, script: str) -> None:
        """Give the board's user a ``.bashrc``, which bash reads for every command of sshd."""
        (self.folder / ".bashrc").write_text(script)
        self.configure(SetEnv=f"HOME={self.folder}")

    def limit_files(self, *, sftp: bool) -> None:
        """Let the kernel let no file grow above 200 KiB, as with a quota."""
        limit = "trap '' XFSZ\nulimit -f 400\n"  # the signal for it is ignored
        if not sftp:
            self.write_login_file(limit)
            return
        if SFTP == "internal-sftp":
            pytest.skip("there is no sftp-server")
        limited = self.folder / "limited"
        limited.write_text(f"#!/bin/sh\n{limit}exec {SFTP}\n")
        limited.chmod(0o755)
        self.configure(Subsystem=f"sftp {limited}")

    @property
    def client_key(self) -> Path:
        """The private key of the client, which alone is let in."""
        return self.home / ".ssh" / "id_ed25519"

    def accept_host_key(self, key: asyncssh.SSHKey | None = None, port: int = 0) -> None:
        """What ``ssh`` writes where the user accepts a host key."""
        public = (key or self.host_key).export_public_key().decode()
        (self.home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port or self.port} {public}")

    def cut(self) -> None:
        """Kill what serves the connections that there are; programs that they started live on."""
        for process in self.served:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def freeze(self) -> None:
        """Stop them: they say nothing more, and the connection stays."""
        for process in self.served:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGSTOP)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.cut()

    def _serve(self) -> None:
        assert SSHD is not None
        command = [SSHD, "-i", "-e", "-f", str(self.folder / "sshd_config")]
        with (self.folder / "log").open("ab") as log:
            while True:
                try:
                    taken, _ = self._listener.accept()
                except OSError:
                    return
                with taken:
                    if self.refused.is_set():
                        continue
                    process = subprocess.Popen(
                        command,
                        stdin=taken.fileno(),
                        stdout=taken.fileno(),
                        stderr=log,
                        start_new_session=True,
                    )
                self.served.append(process)


@contextlib.contextmanager
def serving(folder: Path, home: Path) -> Iterator[Sshd]:
    """A server for as long as it is needed, and no agent of who runs the tests."""
    if SSHD is None:
        pytest.skip("there is no sshd")
    if os.getuid() == 0:
        # where sshd locks itself in before anybody has logged in; Debian makes it at its start
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        server = Sshd(folder, home)
        try:
            yield server
        finally:
            server.close()


class SlowLink:
    """Passes connections on.

    Args:
        port: of the server.
        rate: bytes a second to it; what comes back is not held up.

    Attributes:
        port: where it listens.
    """

    def __init__(self, port: int, rate: int) -> None:
        self._to, self._rate = port, rate
        self._listener = socket.socket()
        # what waits in buffers of the kernel would hide that the link is slow
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += [near, far]
            for ends in ((near, far, self._rate), (far, near, 0)):
                thread = threading.Thread(target=_carry, args=ends)
                self._threads.append(thread)
                thread.start()


def _carry(source: socket.socket, target: socket.socket, rate: int) -> None:
    try:
        while data := source.recv(_PIECE):
            if rate:
                time.sleep(len(data) / rate)
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
