"""Answers of the worker that are tables: samples of a dataset, ranges of a build's tensors."""

from __future__ import annotations

from pathlib import Path

from engine.base.errors import UsageError
from engine.dataset import read_dataset
from engine.services.registry import answers
from engine.services.state import get_pipeline, recipe_at, recipe_of
from engine.wire.dataset import DATASET_LIST, ListParams, Samples
from engine.wire.model import RANGES, RangeRow, Ranges
from engine.wire.requests import ModelTarget

MOST_SAMPLES = 20_000


@answers(DATASET_LIST)
def samples(params: ListParams) -> Samples:
    """The samples of a dataset in their order, at most 20,000 of them, read from its list or chosen
    from its folder.
    """
    chosen = recipe_of(params.recipe or {}).dataset
    if chosen.dataset is None:
        raise UsageError(
            "There is no dataset yet.", remedy="Set dataset to a dataset.txt or a folder."
        )
    path = Path(chosen.dataset)
    dataset = read_dataset(path, count=chosen.dataset_count, seed=chosen.dataset_seed)
    entries = (
        (dataset.lines[index] if dataset.lines else 0, tuple(map(str, entry)))
        for index, entry in enumerate(dataset.entries[:MOST_SAMPLES])
    )
    return Samples(len(dataset), tuple(entries))


@answers(RANGES)
def ranges(params: ModelTarget) -> Ranges:
    """The quant table of a build as rows."""
    table = get_pipeline(recipe_at(params)).quantized.table
    return Ranges(
        tuple(
            RangeRow(
                tensor=name,
                dtype=quant.dtype,
                scales=len(quant.scale),
                scale=min(quant.scale),
                scale_max=max(quant.scale),
                zero_point=quant.zero_point[0] if len(set(quant.zero_point)) == 1 else None,
                minimum=None if quant.minimum is None else min(quant.minimum),
                maximum=None if quant.maximum is None else max(quant.maximum),
                observed_minimum=quant.observed_minimum,
                observed_maximum=quant.observed_maximum,
            )
            for name, quant in table.items()
        )
    )
