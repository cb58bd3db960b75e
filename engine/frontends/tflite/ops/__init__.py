"""One function for each operator, in one table."""

from __future__ import annotations

from engine.frontends.facts import reasons
from engine.frontends.tflite.convert import CONTROL, Tables
from engine.frontends.tflite.ops import conv_pool, elementwise, recurrent, reduce, shape_ops
from engine.frontends.tflite.ops.folding import FOLDS

__all__ = ["FOLDS", "REFUSALS", "TABLES"]

REFUSALS = reasons(__package__, "refusals.toml")
"""Operator -> why; those of StableHLO and unknown ones are refused without standing here."""

_ROOMS = (conv_pool, elementwise, recurrent, reduce, shape_ops)

TABLES = Tables(
    handlers=CONTROL | {name: write for room in _ROOMS for name, write in room.HANDLERS.items()},
    folds=FOLDS,
    refusals=REFUSALS,
)
