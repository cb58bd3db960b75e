"""What is told of the outputs of a run, on this machine or on a board, and their npy files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from engine.base.errors import OutputExistsError
from engine.base.events import ArtifactWritten, Reporter
from engine.base.files import atomic_write, output_errors
from engine.graph.ir.arrays import npy_bytes
from engine.graph.metrics import error_sums
from engine.wire.build import BesideFloat, SimulatedOutput, TopValue


def figures_of_output(
    name: str, array: np.ndarray, top: int, label: str, reference: np.ndarray | None = None
) -> SimulatedOutput:
    """Statistics and the largest values of an output, over its finite values.

    Args:
        name: of the output.
        array: its values, of any shape and number type.
        top: how many of the largest values are told.
        label: where they come from: ``simulated``, ``measured``, ``emulated``.
        reference: the float graph's values of the same sample; None where they are not known.
    """
    flat = np.ravel(array).astype(np.float64)
    values = flat[np.isfinite(flat)]
    best = _largest(flat, top)
    with np.errstate(over="ignore"):  # sums of the largest doubles are infinite, and told as such
        mean = float(values.mean()) if values.size else None
    return SimulatedOutput(
        name=name,
        shape=tuple(array.shape),
        dtype=str(array.dtype),
        label=label,
        top=best,
        minimum=float(values.min()) if values.size else None,
        maximum=float(values.max()) if values.size else None,
        mean=mean,
        not_finite=int(flat.size - values.size),
        beside=None if reference is None else _beside(array, reference, best),
    )


def _largest(flat: np.ndarray, top: int) -> tuple[TopValue, ...]:
    places = np.flatnonzero(np.isfinite(flat))
    best = places[np.argsort(-flat[places], kind="stable")[:top]]
    return tuple(TopValue(int(place), float(flat[place])) for place in best)


def _beside(
    array: np.ndarray, reference: np.ndarray, best: Sequence[TopValue]
) -> BesideFloat | None:
    """How far an output is from float; None where they have other shapes."""
    if array.shape != reference.shape:
        return None
    flat = np.ravel(reference).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(flat - np.ravel(array).astype(np.float64))
    largest = float(apart.max()) if apart.size else 0.0
    sums = error_sums(reference, array)[0]
    there = [float(flat[value.index]) for value in best]
    return BesideFloat(
        sums.sqnr,
        sums.cosine,
        largest if math.isfinite(largest) else None,
        _largest(flat, len(best)),
        tuple(value if math.isfinite(value) else None for value in there),
    )


def output_files(names: Iterable[str], folder: Path | None, *, force: bool) -> tuple[Path, ...]:
    """The file of each output; looked at before anything is computed. None without a folder.

    Raises:
        OutputExistsError: one of them exists, and nobody allowed to overwrite it.
        OutputError: the folder cannot be made.
    """
    if folder is None:
        return ()
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for index, name in enumerate(names):
        plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:100]
        # a file system counts bytes
        stem = plain.encode("utf-8", "replace")[:200].decode("utf-8", "ignore") or "output"
        path = folder / f"{stem}.npy"
        while path in files:
            stem += f"_{index}"
            path = folder / f"{stem}.npy"
        if path.exists() and not force:
            raise OutputExistsError(
                f"{path} exists already.",
                remedy="Allow overwriting (--force) or choose another folder.",
            )
        files.append(path)
    return tuple(files)


def save_outputs(
    arrays: Mapping[Path, np.ndarray], reporter: Reporter, *, force: bool
) -> tuple[str, ...]:
    """Write each array to its npy file; the paths as texts.

    Raises:
        OutputError, OutputExistsError: a file cannot be written, or is there meanwhile.
    """
    for path, array in arrays.items():
        atomic_write(path, npy_bytes(array), overwrite=force)
        reporter.emit(ArtifactWritten(str(path), "npy", path.stat().st_size))
    return tuple(map(str, arrays))
