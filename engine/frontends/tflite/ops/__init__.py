"""One function for each operator, in one table."""

from __future__ import annotations

from engine.frontends.facts import reasons
from engine.frontends.tflite.ops import conv_pool, elementwise, recurrent, reduce, shape_ops
from engine.frontends.tflite.ops.folding import CONTROL, FOLDS

__all__ = ["FOLDS", "HANDLERS", "REFUSALS", "refusal_of"]

REFUSALS = reasons(__package__, "refusals.toml")
"""Operator -> why; those of StableHLO and unknown ones are refused without standing here."""

_ROOMS = (conv_pool, elementwise, recurrent, reduce, shape_ops)

HANDLERS = CONTROL | {name: write for room in _ROOMS for name, write in room.HANDLERS.items()}
"""Operator -> what writes it."""


def refusal_of(kind: str) -> str:
    """Why a load will surely refuse an operator; empty where it may be written or computed."""
    if kind in HANDLERS or kind in FOLDS:
        return ""
    return REFUSALS.get(kind, "this version does not know it")
