"""One function for each operator, in one table."""

from __future__ import annotations

from engine.frontends.tflite.convert import Tables
from engine.frontends.tflite.ops import (
    control,
    elementwise,
    lstm,
    moves,
    reduce,
    rnn,
    weights,
    windows,
)
from engine.frontends.tflite.ops.folding import FOLDS
from engine.frontends.tflite.ops.refusals import REFUSALS

__all__ = ["FOLDS", "TABLES"]

_ROOMS = (control, elementwise, lstm, moves, reduce, rnn, weights, windows)

TABLES = Tables(
    handlers={name: handler for room in _ROOMS for name, handler in room.HANDLERS.items()},
    folds=FOLDS,
    refusals=REFUSALS,
)
