"""``rknntui devices emulate``: a board to try with, with a runtime library that answers."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.base.errors import DeviceError, UsageError
from engine.base.paths import cache_folder
from engine.devices.emulator.boards import BOARDS
from engine.devices.emulator.emulator import BoardEmulator
from engine.devices.emulator.runtime.build import build, stand_in_of

__all__ = ["EMULATED_CHIPS", "emulate"]

EMULATED_CHIPS = tuple(BOARDS)
"""Chips of which there is an emulated board."""


_NO_PORT = frozenset({errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL})


def emulate(
    chip: str,
    *,
    port: int,
    android: bool,
    stop: threading.Event,
    started: Callable[[str, str], object],
    warn: Callable[[DeviceError], object],
    heard: Callable[[str], object] | None = None,
    models: Sequence[Path] = (),
    bend: str = "",
    load: Sequence[int] | None = None,
    celsius: float | None = None,
    rate: float | None = None,
) -> None:
    """Run an emulated board on loopback until ``stop`` is set.

    Args:
        chip: one of :data:`EMULATED_CHIPS`.
        port: where it listens; 0 is any free port.
        android: an Android image in place of a Linux one.
        stop: ends it.
        started: takes its address and the folder that is its file system, once it can be reached.
        warn: takes what is missing: without a C compiler the board has no runtime library.
        heard: takes each event as it happens, in another thread.
        models: containers whose answers are made before it can be reached.
        bend: ``LAYER[:STRENGTH]``, see :meth:`BoardEmulator.bend`; empty for none.
        load: of each core in percent; None follows the runs.
        celsius: of every thermal zone; None is the board's own.
        rate: of the link, in bytes a second; None is as fast as it goes.

    Raises:
        UsageError: there is no such board, or the values do not fit it.
        EngineError: one of the models does not run, or does not have the layer.
        DeviceError: the port is not free.
    """
    if chip not in BOARDS:
        raise UsageError(
            f"There is no emulated board with the chip {chip}.",
            remedy=f"Take one of {', '.join(EMULATED_CHIPS)}.",
        )
    cores = BOARDS[chip].cores
    if load is not None and (
        len(load) != cores or not all(0 <= percent <= 100 for percent in load)
    ):
        raise UsageError(
            f"The load of {chip} is a percentage for each of its {cores} cores.",
            remedy=f"Give {','.join(['50'] * cores)}, for example.",
        )
    try:
        with BoardEmulator(chip, port, android=android, heard=heard) as board:
            _equip(board, warn)
            board.simulate(*models, bend=bend)
            if load is not None:
                board.set_load(load)
            if celsius is not None:
                board.set_temperature(celsius)
            board.faults.rate = rate
            started(board.address, str(board.root))
            stop.wait()
    except OSError as error:
        if error.errno not in _NO_PORT:
            raise
        raise DeviceError(
            f"The emulated board cannot listen on port {port}: {error.strerror or error}.",
            cause="Another program listens there, or the port needs more rights.",
            remedy="Choose another port, or none: any free one is taken then.",
        ) from error


def _equip(board: BoardEmulator, warn: Callable[[DeviceError], object]) -> None:
    kind = stand_in_of(board.board.library)
    try:
        board.image.install_runtime(build(kind, cache_folder() / "emulator"))
    except DeviceError as error:
        board.image.remove_runtime()
        warn(error)
