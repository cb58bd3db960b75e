"""What is told of the outputs of a run, on this machine or on a board, and their npy files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from engine.base.errors import OutputExistsError
from engine.base.events import ArtifactWritten, Reporter
from engine.base.files import atomic_write, output_errors
from engine.wire.build import SimulatedOutput, TopValue


def figures_of_output(name: str, array: np.ndarray, top: int, label: str) -> SimulatedOutput:
    """Statistics and the largest values of an output, over its finite values.

    Args:
        name: of the output.
        array: its values, of any shape and number type.
        top: how many of the largest values are told.
        label: where they come from: ``simulated``, ``measured``, ``emulated``.
    """
    flat = np.ravel(array).astype(np.float64)
    places = np.flatnonzero(np.isfinite(flat))
    values = flat[places]
    best = np.argsort(-values, kind="stable")[: min(top, values.size)]
    with np.errstate(over="ignore"):  # sums of the largest doubles are infinite, and told as such
        mean = float(values.mean()) if values.size else None
    return SimulatedOutput(
        name=name,
        shape=tuple(array.shape),
        dtype=str(array.dtype),
        label=label,
        top=tuple(TopValue(int(places[i]), float(values[i])) for i in best),
        minimum=float(values.min()) if values.size else None,
        maximum=float(values.max()) if values.size else None,
        mean=mean,
        not_finite=int(flat.size - values.size),
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


def npy_bytes(array: np.ndarray) -> bytes:
    """An array as the content of an npy file."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()
