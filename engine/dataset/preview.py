"""A sample as the network sees it: a small picture, and what mean and std promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from engine.base.errors import DatasetError, UsageError
from engine.dataset.dataset_list import Dataset, with_line
from engine.dataset.preprocess import InputPlan, Preprocess
from engine.dataset.samples import ReadingStats, input_count_error, load_file
from engine.wire.dataset import Channel, Preview

if TYPE_CHECKING:
    from engine.graph.ir import TensorSpec

_MOST_CELLS = 400


def preview(
    dataset: Dataset,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess,
    index: int,
    *,
    columns: int = 40,
    rows: int = 20,
    input_index: int = 0,
) -> Preview:
    """One sample of one input.

    Args:
        dataset, inputs, preprocess: as for ``samples``.
        index: of the sample, from 0.
        columns, rows: of the thumbnail, at most 400 each; it keeps the input's proportions within.
        input_index: of the input, from 0.

    Returns:
        The thumbnail has mean and std undone and channels in the file's order; ``channels`` are of
        the values that the network gets.

    Raises:
        UsageError: there is no such sample or input.
        DatasetError: the file cannot be read or does not fit; names its line.
    """
    plans = preprocess.plans(inputs)
    if not 0 <= index < len(dataset) or not 0 <= input_index < len(plans):
        raise UsageError(
            f"There is no sample {index + 1} for input {input_index + 1}.",
            remedy=f"The dataset has {len(dataset)} samples and the model {len(plans)} inputs.",
        )
    if len(dataset.entries[index]) != len(plans):
        raise input_count_error(dataset, index, plans)
    plan, path = plans[input_index], dataset.entries[index][input_index]
    try:
        array = load_file(path, plan, ReadingStats())
    except DatasetError as error:
        raise with_line(dataset, index, error) from error
    view = _channels_first(array, plan)
    return Preview(
        file=str(path),
        input=plan.name,
        shape=tuple(plan.shape),
        samples=len(dataset),
        thumbnail=_thumbnail(view, plan, columns, rows),
        channels=tuple(_channels(view, plan)) if view.shape[0] <= 16 else (),
    )


def _channels_first(array: np.ndarray, plan: InputPlan) -> np.ndarray:
    """The first of the batch as (C, ...) float32."""
    first = array[0] if array.ndim > 1 else array
    if plan.layout == "NHWC":
        first = first.transpose(2, 0, 1)
    if not plan.layout:
        first = first[np.newaxis]
    return first.astype(np.float32)


def _channels(view: np.ndarray, plan: InputPlan) -> Iterator[Channel]:
    """What each channel has, and of a picture's which values pixels can have."""
    ends = _expected(plan) if plan.takes_images else ((None, None),) * len(view)
    for channel, (low, high) in zip(view.astype(np.float64), ends, strict=True):
        if channel.size:
            least, most = float(channel.min()), float(channel.max())
            yield Channel(least, most, float(channel.mean()), float(channel.std()), low, high)
        else:
            yield Channel(0.0, 0.0, 0.0, 0.0, low, high)


def _expected(plan: InputPlan) -> tuple[tuple[float, float], ...]:
    mean = plan.mean or (0.0,) * plan.channels
    std = plan.std or (1.0,) * plan.channels
    ends = (((0 - m) / s, (255 - m) / s) for m, s in zip(mean, std, strict=True))
    return tuple((min(pair), max(pair)) for pair in ends)


def _thumbnail(view: np.ndarray, plan: InputPlan, columns: int, rows: int) -> tuple[str, ...]:
    if not plan.takes_images:
        return ()
    pixels = view.transpose(1, 2, 0).copy()
    if plan.std is not None:
        pixels *= np.asarray(plan.std, dtype=np.float32)
    if plan.mean is not None:
        pixels += np.asarray(plan.mean, dtype=np.float32)
    shown = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    if plan.channels == 1:
        shown = np.repeat(shown, 3, axis=2)
    elif plan.channel_order is not None:
        shown = shown[..., np.argsort(plan.channel_order)]
    size = _fitted(plan.width, plan.height, columns, rows)
    small = Image.fromarray(np.ascontiguousarray(shown)).resize(size, Image.Resampling.BOX)
    return tuple(row.tobytes().hex() for row in np.asarray(small))


def _fitted(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """The largest size of the same proportions within ``columns`` x ``rows``."""
    columns, rows = (min(max(limit, 1), _MOST_CELLS) for limit in (columns, rows))
    scale = min(columns / width, rows / height)
    return max(1, min(columns, round(width * scale))), max(1, min(rows, round(height * scale)))
