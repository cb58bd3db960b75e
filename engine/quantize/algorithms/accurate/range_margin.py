"""Range margins: how far a channel's range goes beyond the observed values.

A range that ends at the largest value of few samples clips every sample that goes further, and
clipping costs more than rounding; a range with much room rounds everything more coarsely. How much
room is right differs from tensor to tensor: a channel with 20,000 values a picture has shown its
range, one with 20 has not. So every tensor chooses among rules by cross-validation over the
calibration samples: ranges from some of them, judged on the others by what they lose per value,

    rounding: r^2 / (12 255^2)            clipping: mean of max(x - r, 0)^2

How the losses on single samples add up is a choice: their sum protects the one picture that goes
furthest, which then decides for all and widens every channel; the sum of their logarithms serves
the others. Neither is the better one on every graph:
:mod:`~engine.quantize.algorithms.accurate.select` tries.

What a sample has beyond r follows from its tail over a threshold u < r, which is taken as
exponential, the limit law of light tails (Pickands 1975). With ``m1 = E[max(x - u, 0)]`` and
``m2 = E[max(x - u, 0)^2]`` the mean excess is ``b = m2 / (2 m1)``, and what lies beyond r has the
energy ``m2 exp(-(r - u) / b)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.quantize.algorithms.accurate.statistics import TailStats

_ROUNDING = 1.0 / (12.0 * 255.0**2)

# In the place of a loss of 0: of a tensor that is 0 everywhere.
_LEAST = 1e-30
_FOLDS = 4

# A rule: which copies of the samples count beside them (``augmentation``; the last is the milder),
# by what the largest value is multiplied, and what share of the tensor's largest end every
# channel's end is at least. The last serves channels that fire rarely: what one of them did not
# show in twenty pictures, its neighbours did.
_COPIES = ((), (2,), (1, 2))
_FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0)
_FLOORS = (0.0, 0.5, 1.0)

# What clipping counts against rounding of the same energy. Its errors have one sign and stand side
# by side, so that layers behind add them up; but they are rare, and poolings leave little of them.
_CLIP = {"far": 2.0, "most": 0.5}

WEIGHINGS = tuple(_CLIP)
"""``far``: the sum of the losses counts, ``most``: the sum of their logarithms."""

# Where there are too few samples to judge rules by.
_CAUTIOUS = (2, 3, 2)


def tail_thresholds(peaks: np.ndarray) -> np.ndarray:
    """(channels,): above which half of the samples have values.

    Args:
        peaks: (samples, channels), the largest value of each sample.
    """
    middle = np.median(peaks, axis=0)
    largest = peaks.max(axis=0)
    # with one sample, or where all reach the same, half of the peak stands in
    thresholds: np.ndarray = np.where(middle < largest, middle, 0.5 * largest)
    return thresholds


@dataclass(frozen=True)
class MarginRules:
    """How one end of a tensor's range is set, as indices of copies, factor, floor.

    Attributes:
        each: for channels with ends of their own.
        one: where all channels have to have the same end.
    """

    each: tuple[int, ...]
    one: tuple[int, ...]


def best_margin_rules(
    tail_stats: TailStats, samples: int, gain: np.ndarray, share: float
) -> dict[str, MarginRules]:
    """The rules with the least loss on held-out samples, by each weighing.

    Args:
        tail_stats: rows of the samples, then of each copy of them.
        samples: number of samples.
        gain: (channels,): how much noise of each channel counts.
        share: of the noise of rounding that counts (a value that a Relu cut to 0 is exact).
    """
    if samples < _FOLDS:
        return dict.fromkeys(WEIGHINGS, MarginRules(_CAUTIOUS, _CAUTIOUS))
    rows = np.arange(samples)
    losses = np.zeros((len(WEIGHINGS), len(_COPIES), len(_FACTORS), len(_FLOORS)))
    for fold in range(_FOLDS):
        seen = np.delete(rows, np.s_[fold::_FOLDS])
        losses += _losses(
            tail_stats, rows[fold::_FOLDS], _ends(tail_stats, seen, samples), gain, share
        )
    same = losses.copy()
    same[..., :-1] = np.inf
    return {
        weighing: MarginRules(_least(row), _least(one))
        for weighing, row, one in zip(WEIGHINGS, losses, same, strict=True)
    }


def _least(table: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(table.argmin(), table.shape))


def range_ends(
    tail_stats: TailStats, rows: np.ndarray, samples: int, rule: tuple[int, ...]
) -> np.ndarray:
    """(channels,): the end of the range of every channel, not negative.

    Args:
        tail_stats: rows of the samples, then of each copy of them.
        rows: the samples that may be looked at.
        samples: number of samples.
        rule: of :class:`MarginRules`.
    """
    end: np.ndarray = _ends(tail_stats, rows, samples)[rule]
    return end


def _ends(tail_stats: TailStats, rows: np.ndarray, samples: int) -> np.ndarray:
    """(copies, factors, floors, channels): the ends by every rule."""
    turns = len(tail_stats.peak) // samples
    largest = np.stack(
        [
            np.maximum.reduce(
                [tail_stats.peak[rows + t * samples].max(axis=0) for t in (0, *turn) if t < turns]
            )
            for turn in _COPIES
        ]
    )
    grown = np.maximum(largest, 0.0)[:, None, None] * np.array(_FACTORS)[None, :, None, None]
    least = grown.max(axis=-1, keepdims=True) * np.array(_FLOORS)[None, None, :, None]
    ends: np.ndarray = np.maximum(grown, least)
    return ends


def _losses(
    tail_stats: TailStats, rows: np.ndarray, ends: np.ndarray, gain: np.ndarray, share: float
) -> np.ndarray:
    """(weighings, ...): what ranges with these ends (..., channels) lose on some samples."""
    rounding = (ends**2) @ (gain * share * _ROUNDING)
    far, most = np.zeros(rounding.shape), np.zeros(rounding.shape)
    for row in rows:
        first, second, peak = tail_stats.first[row], tail_stats.second[row], tail_stats.peak[row]
        beyond = first > 0
        decay = np.where(beyond, second / np.where(beyond, 2 * first, 1.0), 1.0)
        over = np.maximum(ends - tail_stats.threshold, 0.0) / np.maximum(decay, 1e-30)
        clipped = np.where(beyond & (peak > ends), second * np.exp(-np.minimum(over, 700.0)), 0.0)
        lost = clipped @ gain
        far += rounding + _CLIP["far"] * lost
        most += np.log(rounding + _CLIP["most"] * lost + _LEAST)
    return np.stack([far, most])
