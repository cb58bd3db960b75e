"""Operators that are refused, with the reason (``refusals.toml``)."""

from __future__ import annotations

from engine.frontends.facts import reasons

__all__ = ["REFUSALS"]

REFUSALS = reasons(__package__, "refusals.toml")
"""Operator -> why; those of StableHLO and unknown ones are refused without standing here."""
