"""Which service of the board a host asks for by which name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from rknntui_emulator.connection import Service, Stream
from rknntui_emulator.sandbox import Sandbox
from rknntui_emulator.shell import ShellService
from rknntui_emulator.sync import SyncService

_SOCKETS = ("tcp", "localabstract", "localfilesystem", "localreserved", "local")


class Services:
    """The services of a board.

    Args:
        sandbox: its files.
        shell: its programs.
        files: the file service.
        old: an adbd without ``shell,v2`` and ``exec:``.
        root: whether adbd has all rights.
        reboot: begins a reboot.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        shell: ShellService,
        files: SyncService,
        *,
        old: bool,
        root: bool,
        reboot: Callable[[], object],
    ) -> None:
        self._sandbox, self._shell, self._files = sandbox, shell, files
        self._old, self._root, self._reboot = old, root, reboot

    def find(self, name: str) -> Service | None:
        """What serves a stream of this name; None where the board refuses it."""
        kind, _, rest = name.partition(":")
        kind, *options = kind.split(",")
        if kind == "sync":
            return self._files.serve
        if kind == "shell":
            return self._program(rest, options)
        if kind == "exec" and not self._old:
            return lambda stream: self._shell.serve(stream, rest, "raw")
        if kind in _SOCKETS:
            return lambda stream: self._socket(stream, kind, rest)
        if kind in ("root", "remount"):
            return self._rights
        if kind == "reboot":
            return self._power
        return None

    def _program(self, command: str, options: list[str]) -> Service | None:
        if "v2" in options and self._old:
            return None
        if command.split()[:1] == ["reboot"]:
            return self._power
        if "v2" in options:
            with_terminal = "pty" in options
            return lambda stream: self._shell.serve(
                stream, command, "terminal packets" if with_terminal else "packets"
            )
        return lambda stream: self._shell.serve(stream, command, "terminal" if self._old else "raw")

    async def _rights(self, stream: Stream) -> None:
        """``adb root`` and ``adb remount`` change nothing: a Linux image has all, Android none."""
        text = b"already running as root" if self._root else b"cannot run as root in user builds"
        await stream.write(b"adbd " + text + b"\n")

    async def _power(self, stream: Stream) -> None:
        await stream.close()
        self._reboot()

    async def _socket(self, stream: Stream, kind: str, address: str) -> None:
        """Both directions of a socket of the board, which is one of this machine."""
        if kind == "tcp":
            reader, writer = await asyncio.open_connection("127.0.0.1", int(address))
        elif kind == "localabstract":
            reader, writer = await asyncio.open_unix_connection("\0" + address)
        else:
            reader, writer = await asyncio.open_unix_connection(str(self._sandbox.path(address)))

        async def up() -> None:
            while data := await reader.read(1 << 16):
                await stream.write(data)

        async def down() -> None:
            while data := await stream.read():
                writer.write(data)
                await writer.drain()

        both = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for work in both:
                work.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
