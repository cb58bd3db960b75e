"""What a doctor looks at: this machine, the worker, the toolkits, a board."""

from __future__ import annotations

from typing import Literal

from engine.base.errors import EngineError
from engine.base.findings import Finding, Severity
from engine.wire.method import Nothing, Query
from engine.wire.record import record


@record
class Check:
    """One thing that was looked at, on this machine or on a board.

    Attributes:
        name: what it is.
        state: ``ok``, ``note`` (works, but know it), ``bad``, or ``skipped``: not looked at.
        found: what there is, or why it was skipped.
        remedy: what to do about it, in words.
        commands: what does it, for the user to run; the program runs none of them.
    """

    name: str
    state: Literal["ok", "note", "bad", "skipped"]
    found: str
    remedy: str = ""
    commands: tuple[str, ...] = ()

    @classmethod
    def of_error(cls, name: str, error: EngineError) -> Check:
        """What an error says of the thing that was looked at."""
        return cls(name, "bad", error.what, error.advice)

    @classmethod
    def of_finding(cls, name: str, finding: Finding, commands: tuple[str, ...] = ()) -> Check:
        """A finding as a check: a warning is a note, an error is bad."""
        remedy = " ".join(part for part in (finding.cause, finding.remedy) if part)
        return cls(name, _STATES[finding.severity], finding.what, remedy, commands)


_STATES: dict[Severity, Literal["ok", "note", "bad"]] = {
    "info": "ok",
    "warning": "note",
    "error": "bad",
}


@record
class Checks:
    """What the worker found."""

    checks: tuple[Check, ...]


DOCTOR = Query("doctor", Nothing, Checks)
