"""Whether what is heavy loads and computes right."""

from __future__ import annotations

from typing import Literal

from engine.wire.method import Nothing, Query
from engine.wire.record import record

__all__ = ["DOCTOR", "Check", "Checks"]


@record
class Check:
    """One thing that was looked at: ``ok``, ``note`` (works, but know it) or ``bad``."""

    name: str
    state: Literal["ok", "note", "bad"]
    found: str
    remedy: str = ""


@record
class Checks:
    """What the worker found."""

    checks: tuple[Check, ...]


DOCTOR = Query("doctor", Nothing, Checks)
