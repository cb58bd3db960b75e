"""A real adb server for one test: its own port, its own home, and nothing of the user's."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from adbutils._utils import adb_path

from tests.safety import PATIENCE


class AdbServer:
    """The server and its command line program.

    Attributes:
        program: of adb.
        port: where the server listens, never 5037.
        home: the folder of its key and its log.
    """

    def __init__(self, program: str, home: Path) -> None:
        self.program = program
        self.home = home
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def variables(self) -> dict[str, str]:
        """What tells every client, adbutils too, which server it is."""
        return {
            "ANDROID_ADB_SERVER_PORT": str(self.port),
            "ADB_LOCAL_TRANSPORT_MAX_PORT": "5553",
            "ADBUTILS_ADB_PATH": self.program,
        }

    def start(self) -> None:
        """Start the server at a free port, or at the one it had."""
        for _ in range(10):
            self.port = self.port or free_port()
            with (self.home / "adb.log").open("ab") as log:
                self.process = subprocess.Popen(
                    [self.program, "-P", str(self.port), "nodaemon", "server"],
                    env={
                        **os.environ,
                        **self.variables,
                        "HOME": str(self.home),
                        # neither the user's phones nor the neighbours'
                        "ADB_USB": "0",
                        "ADB_MDNS": "0",
                    },
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
            if self._answers():
                return
            self.stop()
            self.port = 0
        raise AssertionError((self.home / "adb.log").read_text(errors="replace"))

    def _answers(self) -> bool:
        assert self.process is not None
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as asked:
                    asked.sendall(b"000chost:version")
                    if asked.recv(4) == b"OKAY" and self.process.poll() is None:
                        return True
            except OSError:
                pass
            time.sleep(0.01)
        return False

    def stop(self) -> None:
        """End the server, whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def adb(
        self, *words: str, into: bytes = b"", seconds: float = PATIENCE
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the command line program to its end."""
        return subprocess.run(
            [self.program, *words],
            env={**os.environ, **self.variables},
            input=into,
            capture_output=True,
            timeout=seconds,
            check=False,
        )

    def states(self) -> dict[str, str]:
        """What the server says of each board, by address."""
        lines = self.adb("devices").stdout.decode().splitlines()[1:]
        return {name: state for name, _, state in (line.partition("\t") for line in lines) if name}

    def wait(self, address: str, state: str) -> None:
        """Wait until a board is in a state; ``absent`` is not in the list."""
        end = time.monotonic() + PATIENCE
        while (now := self.states().get(address, "absent")) != state:
            assert time.monotonic() < end, f"{address} is {now}, not {state}"
            time.sleep(0.05)

    def connect(self, address: str) -> None:
        """Make a board known to the server and wait until it can be used."""
        end = time.monotonic() + PATIENCE
        while (now := self.states().get(address, "absent")) != "device":
            assert time.monotonic() < end, f"{address} is {now}"
            if now == "absent":  # also where the server took an entry for it that was going away
                self.adb("connect", address)
            time.sleep(0.05)

    def reconnect(self, address: str) -> None:
        """Make a board that was away known again; by itself the server takes ten seconds."""
        self.adb("disconnect", address)
        self.wait(address, "absent")
        self.connect(address)


@contextmanager
def serving(home: Path) -> Iterator[AdbServer]:
    """A server for the time of the block."""
    server = AdbServer(adb_program(), home)
    server.start()
    yield server
    server.stop()


@contextmanager
def known(server: AdbServer) -> Iterator[AdbServer]:
    """Clients of this process find it by their environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("ADB_", "ANDROID_"))]:
            patch.delenv(name)
        for name, value in server.variables.items():
            patch.setenv(name, value)
        yield server


def free_port() -> int:
    """A port of loopback that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def adb_program() -> str:
    """The adb program of this machine, or the one that adbutils brings."""
    if found := shutil.which("adb"):
        return found
    try:
        return str(adb_path())
    except Exception as error:  # noqa: BLE001 - adbutils raises its own, or that of the system
        pytest.skip(f"there is no adb program: {error}")
