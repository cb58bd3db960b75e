"""Operators that are refused, with the reason (``refusals.toml``)."""

from __future__ import annotations

from engine.frontends.facts import facts

__all__ = ["REFUSALS"]

REFUSALS = {
    operator: why
    for why, operators in facts(__name__, "refusals.toml").items()
    for operator in operators.split()
}
"""Operator -> why; those of StableHLO and unknown ones are refused without standing here."""
