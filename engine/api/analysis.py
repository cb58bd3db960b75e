"""``accuracy_analysis``: what each generation gives as inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.api.log import path_text
from engine.api.signatures import SNAPSHOT, Parameters
from engine.base.errors import DatasetError, UsageError
from engine.base.text import sanitize

if TYPE_CHECKING:
    from engine.pipeline.board import BoardChoice
    from engine.pipeline.pipeline import Pipeline


def analyse_inputs(pipeline: Pipeline, generation: int, given: Parameters) -> tuple[str, str]:
    """Analyse one sample and write the snapshot; with a ``target`` the layers of a board, too.

    Returns:
        The table as text, empty where none is wanted; what the board does otherwise in a sentence,
        empty where none ran.

    Raises:
        UsageError: an argument that this version does not have, or a real board whose layers
            nobody can read (see ``compiled``).
        DeviceError: the board cannot be reached or used.
        EngineError: an input does not fit, or the folder cannot be written.
    """
    from engine.pipeline.analysis import analyse_build

    board = _board(given)
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
    result = analyse_build(pipeline, files, folder, force=True, errors=errors, board=board)
    ran = result.board
    verdict = "" if ran is None else f"{ran.verdict} ({ran.head.device}, {ran.head.label})"
    return result.table(generation) if errors else "", verdict


def _board(arguments: Parameters) -> BoardChoice | None:
    """The board that is to run, too; None for the simulator alone.

    Raises:
        UsageError: a device without a target, or another form of files.
    """
    from engine.pipeline.board import BoardChoice

    target, device, compiled = (arguments.get(name) for name in ("target", "device_id", "compiled"))
    if target is None and (device is not None or compiled is not None):
        name = "device_id" if device is not None else "compiled"
        raise UsageError(
            f"accuracy_analysis with {name} needs a target.",
            cause="Without a target nothing but the simulator runs.",
            remedy="Give the chip of the board, as target='rk3588'.",
        )
    form = arguments.get("dump_file_type", "tensor")
    if form not in ("tensor", "npy"):
        raise UsageError(
            f"dump_file_type {sanitize(repr(form), 40)} is not known.",
            cause="A snapshot here always holds every tensor twice, as text and as npy.",
            remedy="Keep 'tensor'.",
        )
    if target is None:
        return None
    if not isinstance(target, str) or not isinstance(device, str | None):
        raise UsageError(
            "target and device_id are texts.",
            remedy="Give the name of the chip and the id of list_devices().",
        )
    file = None if compiled is None else Path(path_text(compiled, "compiled"))
    return BoardChoice(device, target, file)


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
