"""Augmentation: copies of a calibration image that extend the observed ranges.

Twenty pictures show few of the values that a channel can take. A mirrored, shrunk or enlarged
picture with more contrast is as likely a picture, and finds more of them. The copies serve ranges
alone: means and second moments come from the samples as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.graph.ir import TensorSpec

__all__ = ["COPIES", "are_images", "augment"]

COPIES = 2
"""Copies of every sample: one half as large with more contrast, and one enlarged."""

# Strong on purpose: what is looked for are ends of ranges.
_SMALLER, _LARGER, _CONTRAST = 2.0, 1.8, 1.8


def are_images(inputs: Sequence[TensorSpec]) -> bool:
    """Whether all inputs are (1, 1 or 3, H, W) float32 of some size."""
    return bool(inputs) and all(
        spec.dtype == "float32"
        and len(spec.shape) == 4
        and spec.shape[1] in (1, 3)
        and all((size or 0) >= 8 for size in spec.shape[2:])
        for spec in inputs
    )


def augment(
    feed: Mapping[str, np.ndarray], limits: Mapping[str, tuple[float, float]], turn: int
) -> dict[str, np.ndarray]:
    """An augmented sample, mirrored: half as large with more contrast (turn 0), or enlarged (1).

    Args:
        feed: input -> (1, C, H, W) float32.
        limits: input -> smallest and largest value over all samples; no copy goes beyond.
        turn: which copy.
    """
    copy = {}
    for name, array in feed.items():
        mirrored = array[..., ::-1]
        if turn:
            copy[name] = _resized(mirrored, 1 / _LARGER)
            continue
        middle = float(array.mean())
        strong = middle + (_resized(mirrored, _SMALLER) - middle) * _CONTRAST
        copy[name] = np.clip(strong, *limits[name]).astype(np.float32)
    return copy


def _resized(array: np.ndarray, step: float) -> np.ndarray:
    """Every ``step``-th pixel around the middle; beyond the borders the picture is mirrored."""
    rows, columns = (_places(size, step) for size in array.shape[2:])
    resized: np.ndarray = np.ascontiguousarray(array[:, :, rows][:, :, :, columns])
    return resized


def _places(size: int, step: float) -> np.ndarray:
    places = np.floor((np.arange(size) - size / 2) * step + size / 2).astype(np.int64)
    places = np.abs(places) % (2 * size)
    mirrored: np.ndarray = np.where(places >= size, 2 * size - 1 - places, places)
    return mirrored
