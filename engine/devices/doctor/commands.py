"""Commands that a user may run by hand to change a board; this program only shows them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from engine.base.text import sanitize
from engine.devices.transport import Transport

__all__ = ["copy_command", "shell_command"]


def shell_command(transport: Transport, words: Sequence[str]) -> str:
    """The line that runs a program on a board: ``adb -s SERIAL shell ...``, ``ssh HOST ...``."""
    name = sanitize(transport.name, 200)
    if transport.kind == "adb":
        return shlex.join([*_adb(name), "shell", *words])
    if transport.kind == "ssh":
        host, port = _host(name)
        return shlex.join(["ssh", *(["-p", port] if port else []), host, *words])
    return shlex.join(words)


def copy_command(transport: Transport, source: str, target: str) -> str:
    """The line that copies a file of this machine to a board."""
    name = sanitize(transport.name, 200)
    if transport.kind == "adb":
        return shlex.join([*_adb(name), "push", source, target])
    if transport.kind == "ssh":
        host, port = _host(name)
        return shlex.join(["scp", *(["-P", port] if port else []), source, f"{host}:{target}"])
    return shlex.join(["sudo", "cp", source, target])


def _adb(name: str) -> list[str]:
    """``SERIAL#NUMBER`` is the board of that number, where several share a serial number."""
    numbered = re.fullmatch(r".+#([0-9]{1,9})", name)
    return ["adb", "-t", numbered[1]] if numbered else ["adb", "-s", name]


def _host(name: str) -> tuple[str, str]:
    """Host and port of ``[user@]host[:port]``; an IPv6 address stands in brackets."""
    found = re.fullmatch(r"(.*?):([0-9]{1,5})", name)
    if found and (":" not in found[1] or found[1].endswith("]")):
        return found[1], found[2]
    return name, ""
