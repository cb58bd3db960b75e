"""Whether what is heavy loads and computes right."""

from __future__ import annotations

from typing import Literal

from engine.wire.method import Nothing, Query
from engine.wire.record import record

__all__ = ["DOCTOR", "Check", "Checks"]


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


@record
class Checks:
    """What the worker found."""

    checks: tuple[Check, ...]


DOCTOR = Query("doctor", Nothing, Checks)
