"""The adb server of this machine: whether it is up, how it is started, and what it is asked."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass

from engine.base.errors import DeviceError, DeviceLostError, DeviceTimeoutError
from engine.base.text import sanitize
from engine.devices.loopback import Entry, is_loopback, listeners, user
from engine.devices.transports.adb.link import Deadline, Link, RefusedError
from engine.devices.transports.adb.states import Attached, attached, refusal

_START_SECONDS = 10.0
_LOCAL = ("127.0.0.1", "localhost", "::1")
"""Where ``adb start-server`` makes one listen."""


@dataclass(frozen=True)
class AdbServer:
    """An adb server.

    Attributes:
        host, port: where it listens.
    """

    host: str = "127.0.0.1"
    port: int = 5037

    @classmethod
    def of_environment(cls) -> AdbServer:
        """The server of ``ANDROID_ADB_SERVER_HOST`` and ``ANDROID_ADB_SERVER_PORT``, as ``adb`` and
        ``adbutils`` read them.
        """
        port = os.environ.get("ANDROID_ADB_SERVER_PORT", "")
        return cls(
            host=os.environ.get("ANDROID_ADB_SERVER_HOST") or cls.host,
            port=int(port) if port.isdecimal() and 0 < int(port) < 1 << 16 else cls.port,
        )

    @property
    def name(self) -> str:
        """``127.0.0.1:5037``."""
        return f"{self.host}:{self.port}"

    def is_up(self, seconds: float = 3.0) -> bool:
        """Whether somebody listens there."""
        try:
            socket.create_connection((self.host, self.port), max(seconds, 0.01)).close()
        except OSError:
            return False
        return True

    def start(self, seconds: float = _START_SECONDS) -> None:
        """Start it by the user's own ``adb``, never by the program that ``adbutils`` brings along:
        servers of different versions end each other. It stays when this program ends.

        Raises:
            DeviceError: there is no ``adb``, or it could not start one.
        """
        program = shutil.which("adb")
        if program is None:
            raise self.absent()
        if self.host not in _LOCAL:
            raise DeviceError(
                f"There is no adb server at {self.name}.",
                cause="ANDROID_ADB_SERVER_HOST names another machine, and none listens there.",
                remedy="Start it there, or unset ANDROID_ADB_SERVER_HOST.",
            )
        # the port goes along: the server has to listen where this object looks for it
        environment = {**os.environ, "ANDROID_ADB_SERVER_PORT": str(self.port)}
        environment.pop("ADB_SERVER_SOCKET", None)
        try:
            subprocess.run(
                [program, "start-server"],
                timeout=max(seconds, 1.0),
                capture_output=True,
                stdin=subprocess.DEVNULL,
                check=True,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise DeviceError(
                f"The adb server could not be started: {error}.",
                cause="Another program has its port, or the home folder cannot be written to.",
                remedy="Run `adb start-server` and read what it says.",
            ) from error

    def absent(self) -> DeviceError:
        """What is said where nothing listens there and nothing shall be started."""
        if shutil.which("adb") is None:
            return DeviceError(
                "There is no adb program on the PATH and no adb server.",
                cause="adb is not installed on this machine.",
                remedy="Install it: `sudo apt install adb`, or the Android platform tools.",
            )
        return DeviceError(
            f"There is no adb server at {self.name}.",
            cause="It was not started, or another tool stopped it.",
            remedy="Run `adb start-server`.",
        )

    def connect(self, deadline: Deadline) -> Link:
        """A connection to it; it is started where it is not up.

        Raises:
            DeviceError: there is none, or it is another user's.
        """
        if not self.is_up(deadline.left):
            self.start(min(_START_SECONDS, deadline.left))
        before = self._own_listeners()
        import adbutils  # 0.2 s of a start

        try:
            client = adbutils.AdbClient(host=self.host, port=self.port)
            link = Link(client.make_connection(timeout=max(deadline.left, 0.01)).conn)
        except (adbutils.AdbError, OSError, subprocess.SubprocessError) as error:
            raise self._gone() from error
        # the same sockets before and after: nobody else was there when the connection was made
        try:
            same = self._own_listeners() == before
        except DeviceError:
            link.close()
            raise
        if not same:
            link.close()
            raise self._gone()
        return link

    def _own_listeners(self) -> frozenset[Entry]:
        """The sockets that listen where this object looks for the server, which hears every model
        and whose boards are believed; none for a server of another machine: the user named it.

        Raises:
            DeviceError: one is neither the user's own nor root's, or nobody can tell.
        """
        if not is_loopback(self.host):
            return frozenset()
        entries = listeners(self.host, self.port)
        others = sorted({e.owner for e in entries} - {0, os.geteuid()})
        if entries and not others:
            return entries
        if not entries and not self.is_up():
            raise self._gone()
        if not entries:
            raise DeviceError(
                f"Whose the adb server at {self.name} is cannot be told.",
                cause="It ended, or it listens outside of what /proc/net/tcp shows here.",
                remedy="Try again, or start your own at another port: set ANDROID_ADB_SERVER_PORT.",
            )
        names = ", ".join(user(number) for number in others)
        raise DeviceError(
            f"The adb server at {self.name} is not yours: it is of {names}.",
            cause="Another user of this machine started it. Whoever runs it sees every model that "
            "is sent, and decides what a board seems to answer.",
            remedy="Start your own at another port: set ANDROID_ADB_SERVER_PORT to a free one.",
        )

    def ask(self, service: str, deadline: Deadline) -> str:
        """The text that answers a request to the server itself.

        Raises:
            RefusedError: it refuses.
            DeviceError: there is no server, or it does not answer.
        """
        with self.connect(deadline) as link:
            try:
                link.request(service, deadline)
                return link.text(deadline)
            except TimeoutError as error:
                raise DeviceTimeoutError(
                    f"The adb server at {self.name} does not answer.",
                    cause="It hangs, or another program listens there.",
                    remedy="Restart it: `adb kill-server`, then `adb start-server`.",
                ) from error
            except OSError as error:
                raise self._gone() from error

    def boards(self, deadline: Deadline) -> tuple[Attached, ...]:
        """The boards that it knows, in whatever state."""
        try:
            return attached(self.ask("host:devices-l", deadline))
        except RefusedError as error:
            raise refusal("of this list", str(error)) from error

    def join(self, address: str, deadline: Deadline) -> None:
        """Connect to a board on the network, as ``adb connect`` does.

        Raises:
            DeviceError: there is no server, or no board answers there.
        """
        answer = self.ask(f"host:connect:{address}", deadline)
        if not answer.startswith(("connected to", "already connected")):
            raise DeviceError(
                f"No board answers at {address}.",
                cause=f"The adb server says: {sanitize(answer, 200)}.",
                remedy="Turn on adb over the network there (port 5555), and look at the address.",
            )

    def leave(self, address: str, deadline: Deadline) -> None:
        """Let a board on the network go, as ``adb disconnect`` does; one that has gone is fine."""
        with contextlib.suppress(DeviceError, RefusedError):
            self.ask(f"host:disconnect:{address}", deadline)

    def _gone(self) -> DeviceLostError:
        return DeviceLostError(
            f"The adb server at {self.name} ended.",
            cause="Another tool restarted it, or another program listens there.",
            remedy="Try again; it is started again where needed.",
        )
