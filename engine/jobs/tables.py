"""Answers of the worker that are tables: samples of a dataset, ranges of a build's tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.base.errors import UsageError

__all__ = ["ranges", "samples"]

MOST_SAMPLES = 20_000


def samples(params: dict[str, Any]) -> dict[str, Any]:
    """The samples of a dataset in their order, read from its list or chosen from its folder.

    Returns:
        ``total`` and ``entries`` [[line, [path per input]]], at most 20,000 of them; ``line`` is 0
        where the dataset is a folder.
    """
    from engine.dataset import read_dataset
    from engine.jobs.warm import recipe_of

    chosen = recipe_of({"recipe": params.get("recipe") or {}}).dataset
    if chosen.dataset is None:
        raise UsageError(
            "There is no dataset yet.", remedy="Set dataset to a dataset.txt or a folder."
        )
    path = Path(chosen.dataset)
    dataset = read_dataset(path, count=chosen.dataset_count, seed=chosen.dataset_seed)
    entries = [
        [dataset.lines[index] if dataset.lines else 0, [str(path) for path in entry]]
        for index, entry in enumerate(dataset.entries[:MOST_SAMPLES])
    ]
    return {"total": len(dataset), "entries": entries}


def ranges(params: dict[str, Any]) -> dict[str, Any]:
    """The quant table of a build as rows.

    Returns:
        ``tensors`` [{tensor, dtype, scales, scale, scale_max, zero_point, minimum, maximum,
        observed_minimum, observed_maximum}]; per channel ``scale`` is the smallest, ``scale_max``
        the largest, and the range spans all channels; what a tensor does not have is None.
    """
    from engine.jobs.warm import pipeline_of, recipe_of

    rows = []
    for name, quant in pipeline_of(recipe_of(params)).quantized.table.items():
        rows.append(
            {
                "tensor": name,
                "dtype": quant.dtype,
                "scales": len(quant.scale),
                "scale": min(quant.scale),
                "scale_max": max(quant.scale),
                "zero_point": quant.zero_point[0] if len(set(quant.zero_point)) == 1 else None,
                "minimum": None if quant.minimum is None else min(quant.minimum),
                "maximum": None if quant.maximum is None else max(quant.maximum),
                "observed_minimum": quant.observed_minimum,
                "observed_maximum": quant.observed_maximum,
            }
        )
    return {"tensors": rows}
