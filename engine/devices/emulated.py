"""``rknntui devices emulate``: a board to try with, and the one door to the emulator.

The package is ``rknntui_emulator``, which the extra ``emulator`` brings. Nothing else of the engine
or of a front end imports it, and it is loaded only where a board is asked for.
"""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import DeviceError, EngineError, UsageError
from engine.base.paths import cache_folder
from engine.wire.emulated import EmulatedBoard

if TYPE_CHECKING:
    from rknntui_emulator.emulator import BoardEmulator

EMULATED_CHIPS = (
    *("rk3588", "rk3576", "rk3566", "rk3568", "rk3562", "rv1126b", "rv1106", "rv1103"),
    *("rv1126", "rv1109", "rk1808", "rk3399pro"),
)
"""Chips of which there is an emulated board."""

_NO_PORT = frozenset({errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL})


def emulate(
    chip: str,
    asked: EmulatedBoard = EmulatedBoard(),  # noqa: B008  # frozen
    *,
    stop: threading.Event,
    started: Callable[[str, str], object],
    warn: Callable[[DeviceError], object],
    heard: Callable[[str], object] | None = None,
) -> None:
    """Run an emulated board on loopback until ``stop`` is set.

    Args:
        chip: one of :data:`EMULATED_CHIPS`.
        asked: its image and link, and what goes wrong on it.
        stop: ends it.
        started: takes its address and the folder that is its file system, once it can be reached.
        warn: takes what is missing: without a C compiler the board has no runtime library.
        heard: takes each event as it happens, in another thread.

    Raises:
        UsageError: there is no such board, or the values do not fit it.
        EngineError: one of the models does not run, or does not have the layer.
        DeviceError: the extra is not installed, or the port is not free.
    """
    if chip not in EMULATED_CHIPS:
        raise UsageError(
            f"There is no emulated board with the chip {chip}.",
            remedy=f"Take one of {', '.join(EMULATED_CHIPS)}.",
        )
    make = _board_emulator()
    try:
        rate = None if asked.slow is None else asked.slow * 1e6
        with make(chip, asked.port, android=asked.android, rate=rate, heard=heard) as board:
            if asked.load is not None:
                board.set_load(asked.load)
            board.equip(cache_folder() / "emulator", warn)
            board.simulate(*map(Path, asked.models), bend=asked.bend)
            if asked.celsius is not None:
                board.image.set_temperature(asked.celsius)
            started(board.address, str(board.root))
            stop.wait()
    except OSError as error:
        if error.errno not in _NO_PORT:
            raise
        raise DeviceError(
            f"The emulated board cannot listen on port {asked.port}: {error.strerror or error}.",
            cause="Another program listens there, or the port needs more rights.",
            remedy="Choose another port, or none: any free one is taken then.",
        ) from error


def _board_emulator() -> type[BoardEmulator]:
    """The emulator of the extra.

    Raises:
        DeviceError: it is not installed, or is that of another version of this program.
    """
    from engine.base.version import __version__, install_line

    try:
        from rknntui_emulator import __version__ as version
    except ModuleNotFoundError as error:
        raise DeviceError(
            "Emulated boards are a package of their own, and it is not installed.",
            cause="It comes with the extra 'emulator'.",
            remedy=install_line("emulator"),
        ) from error
    if version != __version__:
        raise DeviceError(
            f"The emulator is of version {version}, and this program of {__version__}.",
            cause="One of the two was installed alone.",
            remedy=install_line("emulator"),
        )
    from rknntui_emulator.emulator import BoardEmulator

    return BoardEmulator


# Boards that a worker emulates until it ends, beside what else it answers.

_END_SECONDS = 2.0
_running: dict[str, tuple[threading.Event, threading.Thread]] = {}


def start(chip: str) -> tuple[str, tuple[str, ...]]:
    """Emulate a board until :func:`stop` or :func:`close`; its address, and what it lacks.

    Raises:
        EngineError: as :func:`emulate`.
        OSError: its folder or its server cannot be made.
    """
    ends, notes = threading.Event(), list[str]()
    told: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            emulate(
                chip,
                stop=ends,
                started=lambda address, _: told.put(address),
                warn=lambda error: notes.append(f"It has no runtime library. {error}"),
            )
        except (EngineError, OSError) as error:  # who waits hears of a full disk, too
            told.put(error)

    thread = threading.Thread(target=run, name=f"emulated {chip}", daemon=True)
    thread.start()
    answer = told.get()
    if isinstance(answer, Exception):
        raise answer
    _running[answer] = ends, thread
    return answer, tuple(notes)


def stop(address: str) -> bool:
    """End a board of :func:`start`; False where there is none at this address."""
    ends, thread = _running.pop(address, (None, None))
    if ends is None or thread is None:
        return False
    ends.set()
    thread.join(_END_SECONDS)
    return True


def close() -> None:
    """End all of them; the adb server would list each for minutes yet."""
    from engine.devices.transports.adb.link import Deadline
    from engine.devices.transports.adb.server import AdbServer

    for address in tuple(_running):
        AdbServer.of_environment().leave(address, Deadline(_END_SECONDS))
        stop(address)
