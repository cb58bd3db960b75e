"""A board under the doctor's examination: what its steps share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.devices.doctor.commands import shell_command
from engine.devices.probe.compatibility import ModelFacts
from engine.devices.probe.identify import BoardIdentity
from engine.devices.probe.versions import Versions
from engine.devices.transport import Transport
from engine.wire.board import BoardState
from engine.wire.doctor import Check

__all__ = ["Case", "TestTensor", "home", "make_writable"]

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
