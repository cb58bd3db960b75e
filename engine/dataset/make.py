"""``dataset.txt`` from a folder of pictures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import OutputExistsError
from engine.base.events import Reporter
from engine.base.files import atomic_write
from engine.dataset.dataset_list import Dataset
from engine.dataset.folder import sample_images


@dataclass(frozen=True)
class MadeDataset:
    """A list that was written.

    Attributes:
        path: of the list.
        dataset: what it holds.
        found: number of pictures in the folder, chosen or not.
        skipped: (file, why) of pictures that could not be read, or not be named in a list.
    """

    path: Path
    dataset: Dataset
    found: int
    skipped: tuple[tuple[Path, str], ...]


def make_dataset(
    folder: Path,
    out: Path,
    count: int = 100,
    seed: int = 0,
    force: bool = False,
    reporter: Reporter | None = None,
) -> MadeDataset:
    """Write a list of ``count`` pictures of ``folder`` (recursive), chosen by ``seed``.

    Paths are written relative to the list's own folder, so that both can be moved together.

    Raises:
        DatasetError: not a folder, no readable picture, or only paths with spaces.
        OutputExistsError: ``out`` exists and ``force`` is false.
        OutputError: ``out`` cannot be written.
    """
    if out.exists() and not force:
        raise OutputExistsError(
            f"{out} exists already.",
            remedy="Allow overwriting (--force) or choose another name.",
        )
    # ".." is only right from the real place of the list, so links are resolved
    start = out.parent.resolve()
    chosen = sample_images(folder.resolve(), count, seed, reporter, list_in=start)
    names = [os.path.relpath(path, start) for path in chosen.files]
    text = "".join(f"{name}\n" for name in names)
    atomic_write(out, os.fsencode(text), overwrite=force)
    dataset = Dataset(
        out,
        tuple((out.parent / name,) for name in names),
        tuple(range(1, len(names) + 1)),
        chosen.skipped,
    )
    return MadeDataset(out, dataset, chosen.found, chosen.skipped)
