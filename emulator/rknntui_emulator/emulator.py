"""The public side of the emulated board: start it, unplug it, load it, end it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self

from engine.base.errors import DeviceError, UsageError
from engine.devices.loopback import opened
from rknntui_emulator.boards import BOARDS, Board
from rknntui_emulator.connection import Connection, Greeting
from rknntui_emulator.image import BoardImage
from rknntui_emulator.kernel import LoadMeter
from rknntui_emulator.runtime.build import build, stand_in_of
from rknntui_emulator.sandbox import Sandbox
from rknntui_emulator.services import Services
from rknntui_emulator.shell import ShellService
from rknntui_emulator.simulated.desk import AnswerDesk
from rknntui_emulator.sync import SyncService

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_CLOCKS_SECONDS = 0.1
_REBOOT_SECONDS = 1.0


class BoardEmulator:
    """A board on loopback that any adb server can connect to: ``adb connect ADDRESS``.

    It runs in a thread of its own from :meth:`start` to :meth:`stop`, or as a context manager.
    Only programs of the same user are let in. Commands run on this machine, see
    :mod:`rknntui_emulator.sandbox`.

    Args:
        chip: a name of :data:`~rknntui_emulator.boards.BOARDS`, or a board of one's own.
        port: where it listens; 0 is any free port. 5555 to 5585 are adb's own.
        android: an Android image in place of a Linux one.
        rate: of the link, in bytes a second in each direction; None is as fast as it goes.
        heard: takes each event as it happens, in the emulator's thread.

    Attributes:
        root: the folder that is its file system.

    Raises:
        KeyError: there is no such board.
    """

    def __init__(
        self,
        chip: str | Board = "rk3588",
        port: int = 0,
        *,
        android: bool = False,
        rate: float | None = None,
        heard: Callable[[str], object] | None = None,
    ) -> None:
        self.board = BOARDS[chip] if isinstance(chip, str) else chip
        self.android, self._rate = android, rate
        self._log: Callable[[str], object] = heard or (lambda _event: None)
        self._asked_port = port
        self._sandbox = self._make_sandbox()
        self.root = self._sandbox.root
        self.image = BoardImage(self._sandbox, self.board, android=android)
        old = self.board.old_adbd and not android
        self._greeting = Greeting(
            banner=self.board.banner(old=old),
            version=0x01000000 if old else 0x01000001,
            largest=4096 if old else 256 << 10,
        )
        self._shell = self._make_shell()
        self._services = Services(
            self._sandbox,
            self._shell,
            SyncService(self._sandbox, self._log),
            old=old,
            root=not android,
            reboot=self._reboot_now,
        )
        self._connections: set[Connection] = set()
        self._kept: socket.socket | None = None
        self._listener: asyncio.AbstractServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._desk: AnswerDesk | None = None
        self._meter = LoadMeter(self.board.cores)

    # --------------------------------------------------- its parts, which tests have others of

    def _make_sandbox(self) -> Sandbox:
        return Sandbox()

    def _make_shell(self) -> ShellService:
        return ShellService(self._sandbox)

    def _make_connection(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> Connection:
        return Connection(streams, self._greeting, self._services.find, self._log, self._rate)

    # ------------------------------------------------------------------------------ life cycle

    def start(self) -> Self:
        """Listen, in a thread of its own.

        Raises:
            OSError: the port is not free.
        """
        try:
            self._kept = _bound(self._asked_port)
        except OSError:
            self.stop()
            raise
        self._thread = threading.Thread(
            target=self._run, name=f"board {self.board.chip}", daemon=True
        )
        self._thread.start()
        self._call(self._power_on())
        return self

    def stop(self) -> None:
        """End the board with all that runs on it, and remove its files."""
        if self._thread is not None:
            self._call(self._power_off())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_START_SECONDS)
            self._thread = None
        if not self._loop.is_closed():
            self._loop.close()
        if self._kept is not None:
            self._kept.close()
            self._kept = None
        if self._desk is not None:
            self._desk.close()
            self._desk = None
        self._sandbox.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the emulator's thread and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_SECONDS)

    # ---------------------------------------------------------------------------- what it tells

    @property
    def port(self) -> int:
        """Where it listens, the same from start to stop."""
        if self._kept is None:
            raise RuntimeError("the board has not been started")
        port: int = self._kept.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``, for ``adb connect``; it is the board's serial number there."""
        return f"{_HOST}:{self.port}"

    # --------------------------------------------------------------------- what happens to it

    def simulate(self, *models: Path, bend: str = "") -> None:
        """From now on answer models and inputs that have no answers by this program's simulator.

        The runtime library is not installed by this. Models are containers of this program; they
        may be for another chip, and are refused then as a board refuses them.

        Args:
            models: whose answers are made at once.
            bend: ``LAYER[:STRENGTH]``: from now on this layer gives wrong values, by so many steps
                of its quantization (16), and what is behind it follows. Each of the models must
                have the layer; another one does not run, and says why.

        Raises:
            EngineError: one of the models does not run, or has no such layer.
            UsageError: it is no name of a layer.
        """
        if self._desk is None:
            self._desk = AnswerDesk(self.image.answers, self.board, self._log)
            self.image.tell_runtime("PLATFORM", self.board.chip)
        for model in models:
            self._desk.prepare(model, bend)
        if bend:
            self.bend(bend)

    def bend(self, layer: str | None) -> None:
        """Let a layer give wrong values from the next run on, as in :meth:`simulate`; None ends it.

        Raises:
            UsageError: it is no name of a layer.
        """
        try:
            self.image.tell_runtime("BEND", layer)
        except ValueError as error:
            raise UsageError("That is no name of a layer.") from error

    def set_load(self, percent: Sequence[int] | None) -> None:
        """Let rknpu report this load until a reboot, one value in percent for each core.

        None lets it follow the runs of the stand-in library, which it does where models are
        simulated and no load was set.

        Raises:
            UsageError: it is not a percentage for each core.
        """
        chip, cores = self.board.chip, self.board.cores
        if percent is not None and (
            len(percent) != cores or not all(0 <= share <= 100 for share in percent)
        ):
            raise UsageError(
                f"The load of {chip} is a percentage for each of its {cores} cores.",
                remedy=f"Give {','.join(['50'] * cores)}, for example.",
            )
        self.image.set_load(percent)

    def equip(self, folder: Path, warn: Callable[[DeviceError], object]) -> None:
        """Give the board a runtime library that answers, or none where none can be compiled.

        Args:
            folder: where the compiled library is kept for the next board.
            warn: takes the reason why the board has none.
        """
        try:
            self.image.install_runtime(build(stand_in_of(self.board.library), folder))
        except DeviceError as error:
            self.image.remove_runtime()
            warn(error)

    # -------------------------------------------------------------------- in the emulator's thread

    async def _power_on(self) -> None:
        self._keep(self._run_clocks())
        await self._listen()

    async def _run_clocks(self) -> None:
        while True:
            await asyncio.sleep(_CLOCKS_SECONDS)
            self.image.follow()
            if self._desk is not None:
                load = self._meter.take(time.monotonic(), self._desk.busy())
                self.image.follow_load(load)

    async def _listen(self) -> None:
        if self._listener is None:
            listening = _bound(self.port)
            self._listener = await asyncio.start_server(self._connected, sock=listening)
            self._log(f"listening at {self.address}")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not same_user(writer.get_extra_info("peername"), self.port):
            self._log("refused a program of another user")
            writer.transport.abort()
            return
        connection = self._make_connection((reader, writer))
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    async def _cut(self) -> None:
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*(connection.over.wait() for connection in self._connections))

    async def _unplug(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._log("unplugged")
        await self._cut()

    async def _go_down(self) -> None:
        await self._unplug()
        await self._shell.end_all()
        self.image.boot()
        self._log("rebooting")

    def _reboot_now(self) -> None:
        """A program of the host asked for it."""

        async def reboot() -> None:
            await self._go_down()
            await asyncio.sleep(_REBOOT_SECONDS)
            await self._listen()

        self._keep(reboot())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _power_off(self) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self._unplug()
        await self._shell.end_all()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


def same_user(peer: tuple[str, int], port: int) -> bool:
    """Whether the socket at ``peer``, connected to ``port`` of loopback, is of the same user.

    adb asks a network board for no password: without this, every user of a shared machine could
    run programs as the one who emulates a board. A socket that no program holds is refused.
    """
    entry = opened(peer[1], port)
    return entry is not None and entry.owner == os.getuid()


def _bound(port: int) -> socket.socket:
    """A socket at a port of loopback; one that does not listen keeps the port for the board."""
    kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        kept.bind((_HOST, port))
    except OSError:
        kept.close()
        raise
    return kept
