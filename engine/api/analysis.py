"""``accuracy_analysis``: what each generation gives as inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import DatasetError, UsageError

if TYPE_CHECKING:
    from engine.jobs.pipeline import Pipeline

__all__ = ["analyse_inputs"]


def analyse_inputs(pipeline: Pipeline, generation: int, given: Mapping[str, Any]) -> str:
    """Analyse one sample and write the snapshot; the table as text.

    Raises:
        EngineError: an input does not fit, or the folder cannot be written.
    """
    from engine.jobs.analysis import analyse_build

    inputs = given["inputs"]
    if generation == 1:
        files = _files_of_list(inputs)
    elif not isinstance(inputs, list | tuple) or not all(isinstance(p, str | Path) for p in inputs):
        raise UsageError(
            "accuracy_analysis needs a list of paths as inputs.",
            remedy="Give one picture or npy per input, as inputs=['./dog.jpg'].",
        )
    else:
        files = [Path(p) for p in inputs]
    result = analyse_build(pipeline, files, Path(given["output_dir"]), force=True)
    return result.table(generation) if given["calc_qnt_error"] else ""


def _files_of_list(path: Any) -> list[Path]:
    from engine.dataset import read_dataset

    if not isinstance(path, str | Path):
        raise UsageError(
            "accuracy_analysis of generation 1 needs a dataset file as inputs.",
            cause="A list of paths is generation 2's way (000:1311).",
            remedy="Write the paths of one sample in a line of a text file.",
        )
    dataset = read_dataset(Path(path))
    if len(dataset) != 1:
        raise DatasetError(
            f"{path} has {len(dataset)} samples; accuracy_analysis takes one line.",
            remedy="Leave one line in it.",
        )
    return list(dataset.entries[0])
