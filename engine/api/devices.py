"""``list_devices``: boards on the local adb server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from logging import Logger

__all__ = ["adb_devices", "log_devices"]

_SECONDS = 3.0
_START_SECONDS = 10.0
_STARS = "*" * 25


def _address() -> tuple[str, int]:
    host = os.environ.get("ANDROID_ADB_SERVER_HOST", "127.0.0.1")
    port = os.environ.get("ANDROID_ADB_SERVER_PORT", "5037")
    return host, int(port) if port.isdecimal() else 5037


def _server_is_up() -> bool:
    try:
        socket.create_connection(_address(), _SECONDS).close()
    except OSError:
        return False
    return True


def adb_devices(log: Logger) -> list[str]:
    """Serial numbers of the devices on the adb server; empty, with a warning, where there is none.

    A server that is not up is started by the user's own ``adb``, never by the program that
    ``adbutils`` brings along.
    """
    if not _server_is_up():
        program = shutil.which("adb")
        if program is None:
            log.warning("list_devices: there is no adb program on the PATH and no adb server.")
            return []
        try:
            subprocess.run(
                [program, "start-server"], timeout=_START_SECONDS, capture_output=True, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("list_devices: the adb server could not be started: %s", error)
            return []
    import adbutils

    host, port = _address()
    try:
        client = adbutils.AdbClient(host=host, port=port, socket_timeout=_SECONDS)
        return [str(device.serial) for device in client.device_list()]
    except (adbutils.AdbError, OSError) as error:
        log.warning("list_devices: the adb server does not answer: %s", error)
        return []


def log_devices(log: Logger, adb: list[str], ntb: list[str]) -> None:
    """The list as the vendor prints it [RKNN-T1 1.3.2, 3.6.15; RKNN-T2 2.3.0, 2.14]."""
    lines = [_STARS]
    for mode, devices in (("adb", adb), ("ntb", ntb)):
        if devices:
            lines += [f"all device(s) with {mode} mode:", *devices]
    if not adb and not ntb:
        lines.append("None devices connected.")
    log.warning("\n".join([*lines, _STARS]), extra={"plain": True})
