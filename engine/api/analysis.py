"""``accuracy_analysis``: what each generation gives as inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.api.signatures import SNAPSHOT, Parameters
from engine.api.status import path_text
from engine.base.errors import DatasetError, UsageError
from engine.base.text import sanitize

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline

__all__ = ["analyse_inputs"]


def analyse_inputs(pipeline: Pipeline, generation: int, given: Parameters) -> str:
    """Analyse one sample and write the snapshot; the table as text, empty where none is wanted.

    Raises:
        UsageError: an argument that needs a board, or that this version does not have.
        EngineError: an input does not fit, or the folder cannot be written.
    """
    from engine.pipeline.analysis import analyse_build

    _refuse_board(given)
    inputs = given["inputs"]
    if generation == 1:
        files = _files_of_list(inputs)
    elif not isinstance(inputs, list | tuple) or not all(isinstance(p, str | Path) for p in inputs):
        raise UsageError(
            "accuracy_analysis needs a list of paths as inputs.",
            remedy="Give one image or npy per input, as inputs=['./dog.jpg'].",
        )
    else:
        files = [Path(p) for p in inputs]
    errors = bool(given["calc_qnt_error"])
    where = given["output_dir"]  # None in the vendor's own examples: the manuals' default
    folder = Path(path_text(SNAPSHOT if where is None else where, "output_dir"))
    result = analyse_build(pipeline, files, folder, force=True, errors=errors)
    return result.table(generation) if errors else ""


def _refuse_board(given: Parameters) -> None:
    """Refuse what later versions of the vendor's code have for boards, with the reason."""
    for name in ("target", "device_id"):
        if given.get(name) is not None:
            raise UsageError(
                f"accuracy_analysis with {name} needs a board.",
                cause="It compares the layers with those that ran there; devices come in a later "
                "version.",
                remedy=f"Leave {name} at None.",
            )
    form = given.get("dump_file_type", "tensor")
    if form not in ("tensor", "npy"):
        raise UsageError(
            f"dump_file_type {sanitize(repr(form), 40)} is not known.",
            cause="A snapshot here always holds every tensor twice, as text and as npy.",
            remedy="Keep 'tensor'.",
        )


def _files_of_list(path: Any) -> list[Path]:
    from engine.dataset import read_dataset

    if not isinstance(path, str | Path):
        raise UsageError(
            "accuracy_analysis of generation 1 needs a dataset file as inputs.",
            cause="A list of paths is generation 2's form (manual of V1.3.2, section 3.6.13).",
            remedy="Write the paths of one sample in a line of a text file.",
        )
    dataset = read_dataset(Path(path))
    if len(dataset) != 1:
        raise DatasetError(
            f"{path} has {len(dataset)} samples; accuracy_analysis takes one line.",
            remedy="Leave one line in it.",
        )
    return list(dataset.entries[0])
