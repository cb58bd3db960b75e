"""``rknntui devices emulate``: a board to try with, with a runtime library that answers."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

from engine.base.errors import DeviceError, UsageError
from engine.base.paths import cache_folder
from engine.devices.emulator.boards import BOARDS
from engine.devices.emulator.emulator import BoardEmulator, serve
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

    Raises:
        DeviceError: the port is not free.
    """
    if chip not in BOARDS:
        raise UsageError(
            f"There is no emulated board with the chip {chip}.",
            remedy=f"Take one of {', '.join(EMULATED_CHIPS)}.",
        )
    kind = stand_in_of(BOARDS[chip].library)

    def equip(board: BoardEmulator) -> None:
        try:
            board.image.install_runtime(build(kind, cache_folder() / "emulator"))
        except DeviceError as error:
            board.image.remove_runtime()
            warn(error)
        started(board.address, str(board.root))

    try:
        serve(chip, port, stop=stop, started=equip, android=android, heard=heard)
    except OSError as error:
        if error.errno not in _NO_PORT:
            raise
        raise DeviceError(
            f"The emulated board cannot listen on port {port}: {error.strerror or error}.",
            cause="Another program listens there, or the port needs more rights.",
            remedy="Choose another port, or none: any free one is taken then.",
        ) from error
