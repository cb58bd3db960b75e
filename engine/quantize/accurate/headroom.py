"""How far a channel's range should reach beyond what calibration saw.

A range that ends at the largest value of few samples clips every sample that goes further, and
clipping costs more than rounding; a range with much room rounds everything more coarsely. How much
room is right differs from tensor to tensor: a channel with 20,000 values a picture has shown its
range, one with 20 has not. So every tensor chooses among rules by cross-validation over the
calibration samples: ranges from some of them, judged on the others by what they lose per value,

    rounding: r^2 / (12 255^2)            clipping: mean of max(x - r, 0)^2

What a sample has beyond r follows from its tail over a threshold u < r, which is taken as
exponential, the limit law of light tails (Pickands 1975). With ``m1 = E[max(x - u, 0)]`` and
``m2 = E[max(x - u, 0)^2]`` the mean excess is ``b = m2 / (2 m1)``, and what lies beyond r has the
energy ``m2 exp(-(r - u) / b)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.quantize.accurate.statistics import Tails

__all__ = ["Rules", "best_rules", "range_ends", "thresholds"]

_ROUNDING = 1.0 / (12.0 * 255.0**2)
_FOLDS = 4

# A rule: which copies of the samples count beside them (see ``copies``; the last is the milder),
# by what the largest value is multiplied, and what share of the tensor's largest end every
# channel's end is at least. The last serves channels that fire rarely: what one of them did not
# show in twenty pictures, its neighbours did.
_COPIES = ((), (2,), (1, 2))
_FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0)
_FLOORS = (0.0, 0.5, 1.0)

# Clipping counts more than rounding of the same energy: its errors have one sign and stand side by
# side, so that layers behind add them up.
_CLIP = 2.0

# Where there are too few samples to judge rules by.
_CAUTIOUS = (2, 3, 2)


def thresholds(peaks: np.ndarray) -> np.ndarray:
    """(channels,): above which half of the samples have values.

    Args:
        peaks: (samples, channels), the largest value of each sample.
    """
    middle = np.median(peaks, axis=0)
    largest = peaks.max(axis=0)
    # with one sample, or where all reach the same, half of the peak stands in
    found: np.ndarray = np.where(middle < largest, middle, 0.5 * largest)
    return found


@dataclass(frozen=True)
class Rules:
    """The rules that one end of a tensor's range follows, as indices of copies, factor, floor.

    Attributes:
        each: for channels with ends of their own.
        one: where all channels have to have the same end.
    """

    each: tuple[int, ...]
    one: tuple[int, ...]


def best_rules(tails: Tails, samples: int, gain: np.ndarray, share: float) -> Rules:
    """The rules that lose least on samples that they have not seen.

    Args:
        tails: rows of the samples, then of each copy of them.
        samples: number of samples.
        gain: (channels,): how much noise of each channel counts.
        share: of the noise of rounding that counts (a value that a Relu cut to 0 is exact).
    """
    if samples < _FOLDS:
        return Rules(_CAUTIOUS, _CAUTIOUS)
    rows = np.arange(samples)
    losses = np.zeros((len(_COPIES), len(_FACTORS), len(_FLOORS)))
    for fold in range(_FOLDS):
        seen = np.delete(rows, np.s_[fold::_FOLDS])
        losses += _losses(tails, rows[fold::_FOLDS], _ends(tails, seen, samples), gain, share)
    same = losses.copy()
    same[..., :-1] = np.inf
    each, one = (np.unravel_index(table.argmin(), table.shape) for table in (losses, same))
    return Rules(tuple(int(i) for i in each), tuple(int(i) for i in one))


def range_ends(tails: Tails, rows: np.ndarray, samples: int, rule: tuple[int, ...]) -> np.ndarray:
    """(channels,): the end of the range of every channel, not negative.

    Args:
        tails: rows of the samples, then of each copy of them.
        rows: the samples that may be looked at.
        samples: number of samples.
        rule: of :class:`Rules`.
    """
    end: np.ndarray = _ends(tails, rows, samples)[rule]
    return end


def _ends(tails: Tails, rows: np.ndarray, samples: int) -> np.ndarray:
    """(copies, factors, floors, channels): the ends by every rule."""
    turns = len(tails.peak) // samples
    largest = np.stack(
        [
            np.maximum.reduce(
                [tails.peak[rows + t * samples].max(axis=0) for t in (0, *turn) if t < turns]
            )
            for turn in _COPIES
        ]
    )
    grown = np.maximum(largest, 0.0)[:, None, None] * np.array(_FACTORS)[None, :, None, None]
    least = grown.max(axis=-1, keepdims=True) * np.array(_FLOORS)[None, None, :, None]
    ends: np.ndarray = np.maximum(grown, least)
    return ends


def _losses(
    tails: Tails, rows: np.ndarray, ends: np.ndarray, gain: np.ndarray, share: float
) -> np.ndarray:
    """What ranges with these ends (..., channels) lose on some samples, (...)."""
    losses = (ends**2) @ (gain * share * _ROUNDING)
    for row in rows:
        first, second, peak = tails.first[row], tails.second[row], tails.peak[row]
        beyond = first > 0
        decay = np.where(beyond, second / np.where(beyond, 2 * first, 1.0), 1.0)
        over = np.maximum(ends - tails.threshold, 0.0) / np.maximum(decay, 1e-30)
        clipped = np.where(beyond & (peak > ends), second * np.exp(-np.minimum(over, 700.0)), 0.0)
        losses += _CLIP * (clipped @ gain) / len(rows)
    return losses
