"""The public side of the emulated board: start it, unplug it, load it, end it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self

from engine.base.errors import DeviceError, UsageError
from rknntui_emulator.boards import LABEL, MODERN_FEATURES, Board, board_of
from rknntui_emulator.connection import Connection, Greeting
from rknntui_emulator.faults import Faults
from rknntui_emulator.image import BoardImage, Software
from rknntui_emulator.load import LoadMeter
from rknntui_emulator.owner import same_user
from rknntui_emulator.runtime.build import build, stand_in_of
from rknntui_emulator.sandbox import Sandbox
from rknntui_emulator.services import Services
from rknntui_emulator.shell import ShellService
from rknntui_emulator.simulated.desk import AnswerDesk
from rknntui_emulator.sync import SyncService

__all__ = ["BoardEmulator"]

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_CLOCKS_SECONDS = 0.1
_EVENTS = 20_000
"""Events that are kept; the older half goes when there are more."""


class BoardEmulator:
    """A board on loopback that any adb server can connect to: ``adb connect ADDRESS``.

    It runs in a thread of its own from :meth:`start` to :meth:`stop`, or as a context manager.
    Only programs of the same user are let in. Commands run on this machine, see
    :mod:`rknntui_emulator.sandbox`.

    Args:
        chip: a name of :data:`~rknntui_emulator.boards.BOARDS`.
        port: where it listens; 0 is any free port. 5555 to 5585 are adb's own.
        root: the folder that is its file system; None is a new one that goes away with it.
        auth: the host has to be allowed first, see :attr:`authorized`.
        android: an Android image in place of a Linux one.
        serial: its serial number.
        model: the board's name, in the host's list and in the device tree, where ``(emulated)``
            follows it; None is its own.
        product: its other name in the host's list; None is the chip.
            All three are sent as they are, whatever they contain.
        software: what is installed on it; None is everything, in the board's own versions.
        heard: takes each event as it happens, in the emulator's thread.

    Attributes:
        root: the folder that is its file system.
        faults: what goes wrong, to be changed at any time.
        events: what happened, oldest first.

    Raises:
        KeyError: there is no such board.
    """

    def __init__(
        self,
        chip: str = "rk3588",
        port: int = 0,
        root: Path | None = None,
        *,
        auth: bool = False,
        android: bool = False,
        serial: str = "emu0000000000001",
        model: str | None = None,
        product: str | None = None,
        software: Software | None = None,
        heard: Callable[[str], object] | None = None,
    ) -> None:
        self.board: Board = board_of(chip)
        self.android = android
        self.faults = Faults()
        self.events: list[str] = []
        self._heard = heard
        self._asked_port = port
        self._sandbox = Sandbox(root, self.faults)
        self.root = self._sandbox.root
        self.image = BoardImage(
            self._sandbox,
            self.board,
            software or Software(),
            android=android,
            serial=serial,
            model=model,
        )
        old = self.board.old_adbd and not android
        self._greeting = Greeting(
            banner=_banner(
                model or f"{chip}_{LABEL}", product or chip, () if old else MODERN_FEATURES
            ),
            version=0x01000000 if old else 0x01000001,
            largest=4096 if old else 256 << 10,
            asks=auth,
        )
        self._shell = ShellService(self._sandbox, self.faults)
        files = SyncService(self._sandbox, self.faults, self._log)
        self._services = Services(
            self._sandbox,
            self._shell,
            files,
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
        self.reboot_seconds = 1.0
        self._desk: AnswerDesk | None = None
        self._meter = LoadMeter(self.board.cores)

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

    def login(self) -> Path:
        """A program for the ``ForceCommand`` of an SSH server of the same user.

        It runs what is asked for on this board, in place of the machine; there is no SFTP.
        """
        return self._sandbox.login()

    def alive_orphans(self) -> list[int]:
        """Processes that adb started and that run on although nobody at the host listens."""
        return self._shell.orphans()

    def _log(self, text: str) -> None:
        self.events.append(text)
        if len(self.events) > _EVENTS:
            del self.events[: _EVENTS // 2]
        if self._heard is not None:
            self._heard(text)

    # --------------------------------------------------------------------- what happens to it

    @property
    def authorized(self) -> bool:
        """Whether the user of the board has allowed the host; only asked for under ``auth``."""
        return self._greeting.allowed.is_set()

    @authorized.setter
    def authorized(self, allowed: bool) -> None:
        event = self._greeting.allowed
        self._loop.call_soon_threadsafe(event.set if allowed else event.clear)

    def unplug(self) -> None:
        """Pull the cable: nothing listens any more, connections are cut. Programs run on."""
        self._call(self._unplug())

    def replug(self) -> None:
        """Put the cable back: the board is at the same address again."""
        self._call(self._listen())

    def drop(self) -> None:
        """Cut the connections; new ones are taken at once."""
        self._call(self._cut())

    def reboot(self, seconds: float = 1.0) -> None:
        """Restart: every program ends, ``/tmp`` is empty, the board is back after ``seconds``.

        It returns once the board has gone.
        """
        self._call(self._go_down())
        self._loop.call_soon_threadsafe(self._come_back_after, seconds)

    def simulate(self, *models: Path, bend: str = "") -> None:
        """From now on answer models and inputs that have no answers by this program's simulator.

        The runtime library is not installed by this. Models are containers of this program; they
        may be for another chip, and are refused then as a board refuses them.

        Args:
            models: whose answers are made at once.
            bend: as for :meth:`bend`; each of the models must have the layer.

        Raises:
            EngineError: one of the models does not run, or has no such layer.
        """
        if self._desk is None:
            self._desk = AnswerDesk(self.image.answers, self.board, self._log)
            self.image.tell_runtime("PLATFORM", self.board.chip)
        for model in models:
            self._desk.prepare(model, bend)
        if bend:
            self._tell_bend(bend)

    def bend(self, layer: str | None, strength: int = 16) -> None:
        """Let a layer give wrong values from the next run on, and what is behind it follow.

        Args:
            layer: its id, or another name of it; None ends it. A model without such a layer does
                not run meanwhile, and says why.
            strength: by how many steps of its quantization.

        Raises:
            UsageError: it is no name of a layer.
        """
        self._tell_bend(None if layer is None else f"{layer}:{strength}")

    def _tell_bend(self, text: str | None) -> None:
        try:
            self.image.tell_runtime("BEND", text)
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

    def set_frequency(self, hertz: int) -> None:
        """Let the NPU run at this frequency."""
        self.image.set_frequency(hertz)

    def set_temperature(self, celsius: float, zone: str = "") -> None:
        """Let a thermal zone report this temperature, as ``npu-thermal``; empty is every zone."""
        self.image.set_temperature(celsius, zone)

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
        connection = Connection(
            (reader, writer), self._greeting, self.faults, self._services.find, self._log
        )
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

    def _come_back_after(self, seconds: float) -> None:
        self._keep(self._come_back(seconds))

    async def _come_back(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._listen()

    def _reboot_now(self) -> None:
        """A program of the host asked for it."""

        async def reboot() -> None:
            await self._go_down()
            await self._come_back(self.reboot_seconds)

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


def _banner(model: str, product: str, features: tuple[str, ...]) -> bytes:
    fields = [f"ro.product.name={product}", f"ro.product.model={model}"]
    fields += [f"ro.product.device={product}"]
    if features:
        fields.append("features=" + ",".join(features))
    return b"device::" + ";".join(fields).encode("utf-8", "surrogateescape")


def _bound(port: int) -> socket.socket:
    """A socket at a port of loopback; one that does not listen keeps the port for the board."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((_HOST, port))
    except OSError:
        made.close()
        raise
    return made
