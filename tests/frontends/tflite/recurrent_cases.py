"""Recurrent layers: every kind of cell that TFLite's kernels know."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.tflite_models import Case, In, const, single

_RNG = np.random.default_rng(23)
_UNITS, _FEATURES, _BATCH, _STEPS = 5, 4, 2, 6


def _w(*shape: int, size: float = 0.5) -> In:
    return const(_RNG.normal(size=shape).astype(np.float32) * size)


def _state(width: int) -> In:
    return In((_BATCH, width), variable=True)


def _cell(
    *, coupled: bool = False, peephole: bool = False, projection: int = 0, size: float = 0.5
) -> list[In | None]:
    """Inputs 1 to 17: weights, recurrent weights, peepholes, biases, projection."""

    def gates(count: int, *shape: int, size: float = 0.5) -> list[In | None]:
        """One for each gate; where the gates are coupled the first has none."""
        return [None if coupled and i == 0 else _w(*shape, size=size) for i in range(count)]

    kernel = gates(4, _UNITS, _FEATURES, size=size)
    recurrent = gates(4, _UNITS, projection or _UNITS)
    seen = gates(3, _UNITS) if peephole else [None] * 3
    more = [_w(projection, _UNITS), _w(projection)] if projection else [None, None]
    return [*kernel, *recurrent, *seen, *gates(4, _UNITS), *more]


def _lstm(
    note: str,
    *,
    major: bool = False,
    clip: float = 0.0,
    projection_clip: float = 0.0,
    norm: bool = False,
    **cell: object,
) -> Case:
    x = In((_STEPS, _BATCH, _FEATURES) if major else (_BATCH, _STEPS, _FEATURES))
    width = int(cell.get("projection", 0) or _UNITS)  # type: ignore[call-overload]
    coefficients: list[In | None] = [_w(_UNITS) if norm else None for _ in range(4)]
    if norm and cell.get("coupled"):
        coefficients[0] = None
    return single(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        x,
        *_cell(**cell),
        _state(width),
        _state(_UNITS),
        *coefficients,
        fusedActivationFunction=4,
        cellClip=clip,
        projClip=projection_clip,
        timeMajor=major,
        note=note,
    )


def _both(note: str, *, merge: bool, major: bool = True, clip: float = 0.0) -> Case:
    x = In((_STEPS, _BATCH, _FEATURES) if major else (_BATCH, _STEPS, _FEATURES))
    states = [_state(_UNITS) for _ in range(4)]
    return single(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        x,
        *_cell(),
        *_cell(peephole=True),
        *states,
        *[None] * 9,
        fusedActivationFunction=4,
        cellClip=clip,
        timeMajor=major,
        mergeOutputs=merge,
        out=[In()] if merge else [In(), In()],
        note=note,
    )


def _full(note: str, projection: int = 0) -> Case:
    inputs = [In((_BATCH, _FEATURES)), *_cell(projection=projection)]
    states = [_state(projection or _UNITS), _state(_UNITS)]
    return single("LSTM", *inputs, *states, fusedActivationFunction=4, kernelType=0, note=note)


def _rnn(op: str, *shape: int, act: int = 4, ways: int = 1, note: str = "", **options: Any) -> Case:
    """A simple layer over inputs of a shape."""
    inputs: list[In | None] = [In((*shape, _FEATURES))]
    for _ in range(ways):
        inputs += [_w(_UNITS, _FEATURES), _w(_UNITS, _UNITS), _w(_UNITS), _state(_UNITS)]
    inputs += [None] * 3 * (ways - 1)
    return single(op, *inputs, fusedActivationFunction=act, note=note, **options)


CASES = [
    _lstm("plain"),
    _lstm("time-major", major=True),
    _lstm("clip-idle", clip=10.0),
    _lstm("clip-acts", clip=0.3, size=2.0),
    _lstm("coupled", coupled=True),
    _lstm("peephole", peephole=True),
    _lstm("coupled-peephole", coupled=True, peephole=True),
    _lstm("projection", projection=3, projection_clip=0.2),
    _lstm("norm", norm=True),
    _lstm("norm-coupled-peephole-projection", norm=True, coupled=True, peephole=True, projection=3),
    _both("apart", merge=False),
    _both("merged", merge=True),
    # merged and batch-major is left out: TFLite's kernel writes its second batch wrongly
    _both("batch-major-clip", merge=False, major=False, clip=0.3),
    _full("full"),
    _full("full-projection", 3),
    single(
        "LSTM",
        In((_BATCH, _FEATURES)),
        In((_BATCH, _UNITS)),
        _w(4 * _UNITS, _FEATURES + _UNITS),
        _w(4 * _UNITS),
        In((_BATCH, _UNITS)),
        fusedActivationFunction=4,
        kernelType=1,
        out=[In(), In(), In(), In()],
        note="basic",
        version=2,
        given=2,
    ),
    _rnn("UNIDIRECTIONAL_SEQUENCE_RNN", _BATCH, _STEPS, timeMajor=False),
    _rnn("UNIDIRECTIONAL_SEQUENCE_RNN", _STEPS, _BATCH, act=1, timeMajor=True, note="relu-major"),
    _rnn("BIDIRECTIONAL_SEQUENCE_RNN", _STEPS, _BATCH, ways=2, timeMajor=True, mergeOutputs=True),
    _rnn("RNN", _BATCH),
    single(
        "SVDF",
        In((_BATCH, _FEATURES)),
        _w(6, _FEATURES),
        _w(6, 7),
        _w(3),
        _state(7 * 6),
        rank=2,
        fusedActivationFunction=1,
    ),
]
