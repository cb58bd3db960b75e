"""A board under the doctor's examination: what its steps share, and commands that a user may run.

Commands that change a board are shown, never run by this program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.text import sanitize
from engine.devices.probe.compatibility import ModelFacts
from engine.devices.probe.identify import BoardIdentity
from engine.devices.probe.versions import Versions
from engine.devices.transport import Transport
from engine.wire.board import BoardState
from engine.wire.doctor import Check

TestTensor = Callable[[Transport], str | Check]
"""Runs a model on the board and says what came out, in words where it is well; raises
``DeviceError``.
"""


@dataclass(frozen=True)
class Case:
    """A board under examination, with what was read of it by now.

    Attributes:
        transport: the way to it.
        model: that is to run there, None where there is none.
        test: runs it, None where nothing is to run.
        unread: whether a model was given that cannot be read.
        recipe_chip: of a recipe that is open, compared where there is no model.
        proc: ``/proc`` of this machine.
        identity, versions, state: of the board; empty before they were read.
    """

    transport: Transport
    model: ModelFacts | None
    test: TestTensor | None
    proc: Path
    identity: BoardIdentity = field(default_factory=BoardIdentity)
    versions: Versions = field(default_factory=Versions)
    state: BoardState = field(default_factory=BoardState)
    unread: bool = False
    recipe_chip: str | None = None

    @property
    def chip(self) -> str | None:
        """Its name in :mod:`engine.facts`."""
        return self.identity.chip

    @property
    def android(self) -> bool:
        """Whether its system is Android."""
        return self.identity.android is not None

    @property
    def proxy_is_needed(self) -> bool:
        """Whether programs on the board reach its NPU through the proxy."""
        return self.chip == "rk3399pro"


def home(case: Case, paths: Sequence[str]) -> str:
    """Where a file of the vendor's belongs on this board."""
    if case.android:
        return next((path for path in paths if path.startswith("/vendor/")), paths[0])
    if case.chip is not None and case.chip.startswith(("rv1103", "rv1106")):
        return next((path for path in paths if path.startswith("/oem/")), paths[0])
    return paths[0]


def make_writable(case: Case) -> tuple[str, ...]:
    """What makes the system of an Android board writable."""
    if not case.android or case.transport.kind != "adb":
        return ()
    adb = shell_command(case.transport, []).removesuffix(" shell")
    return (f"{adb} root", f"{adb} remount", shell_command(case.transport, ["setenforce", "0"]))


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
    match = re.fullmatch(r"(.*?):([0-9]{1,5})", name)
    if match and (":" not in match[1] or match[1].endswith("]")):
        return match[1], match[2]
    return name, ""
