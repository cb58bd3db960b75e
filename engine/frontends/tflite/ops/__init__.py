"""One function for each operator, in one table."""

from __future__ import annotations

from engine.frontends.tflite.convert import Tables
from engine.frontends.tflite.ops import (
    control,
    conv_pool,
    elementwise,
    lstm,
    reduce,
    rnn,
    shape_ops,
    weights,
)
from engine.frontends.tflite.ops.folding import FOLDS
from engine.frontends.tflite.ops.refusals import REFUSALS

__all__ = ["FOLDS", "TABLES"]

_ROOMS = (control, elementwise, lstm, shape_ops, reduce, rnn, weights, conv_pool)

TABLES = Tables(
    handlers={name: handler for room in _ROOMS for name, handler in room.HANDLERS.items()},
    folds=FOLDS,
    refusals=REFUSALS,
)
