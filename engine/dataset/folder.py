"""The choice of pictures from a folder, the same on every machine for the same names and seed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import DatasetError, UsageError
from engine.base.events import Progress, Reporter
from engine.base.text import sanitize, some_of
from engine.dataset.decode import image_fault, named
from engine.options.dataset import IMAGE_SUFFIXES

_SPACES = frozenset(" \t\n\r\x0b\x0c")
_SHOWN = 5


@dataclass(frozen=True)
class SampledImages:
    """Pictures of a folder, sorted by relative path.

    Attributes:
        files: absolute paths of those chosen.
        found: how many pictures the folder has by their suffix.
        skipped: (file or folder, why) of what was met and could not be read.
    """

    files: tuple[Path, ...]
    found: int
    skipped: tuple[tuple[Path, str], ...]


def sample_images(
    folder: Path,
    count: int,
    seed: int,
    reporter: Reporter | None = None,
    *,
    list_in: Path | None = None,
) -> SampledImages:
    """Choose ``count`` readable pictures below ``folder``, hidden files and folders aside.

    All pictures are sorted by relative path and shuffled by ``random.Random(seed)``; the first
    ``count`` that can be decoded are taken.

    Args:
        folder: absolute path of the folder.
        count: at least 1.
        seed: of the shuffle.
        reporter: told of the progress, asked whether to stop.
        list_in: absolute path of the folder of a list that shall name the pictures; those whose
            relative path has a space, at which a list splits its lines, are left out. None where
            no list is written: every name will do.

    Raises:
        UsageError: ``count`` is below 1.
        DatasetError: not a folder, no picture, or none that the list could name.
    """
    if count < 1:
        raise UsageError(
            f"{count} images were asked for; at least 1 is needed.",
            remedy="Give a count above 0.",
        )
    if not folder.is_dir():
        raise DatasetError(
            f"{named(folder)} is not a folder.",
            remedy="Give a folder that holds jpg, png or bmp images.",
        )
    unreadable: list[tuple[Path, str]] = []
    names = sorted(_images(folder, unreadable))
    order = names if list_in is None else _nameable(folder, names, list_in, unreadable)
    order = list(order)
    random.Random(seed).shuffle(order)
    taken: list[str] = []
    for name in order:
        if len(taken) == count:
            break
        if reporter is not None:
            reporter.check_cancelled()
            reporter.emit(Progress("dataset", len(taken), min(count, len(order)), name))
        why = image_fault(folder / name)
        if why:
            unreadable.append((folder / name, why))
        else:
            taken.append(name)
    if not taken:
        reasons = "; ".join(f"{sanitize(str(p), 120)}: {why}" for p, why in unreadable[:_SHOWN])
        raise DatasetError(
            f"{named(folder)} has no readable image.",
            cause=reasons or "It holds no file that ends in jpg, jpeg, png or bmp.",
            remedy="Give a folder of jpg, png or bmp images; npy files need a dataset.txt.",
        )
    return SampledImages(
        tuple(folder / name for name in sorted(taken)), len(names), tuple(sorted(unreadable))
    )


def _images(folder: Path, unreadable: list[tuple[Path, str]]) -> Iterator[str]:
    """Relative paths with slashes; links to folders are not followed, so there is no loop."""

    def note(error: OSError) -> None:
        unreadable.append((Path(error.filename or folder), error.strerror or "unreadable"))

    for root, folders, files in os.walk(folder, onerror=note):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES:
                yield (Path(root) / name).relative_to(folder).as_posix()


def _nameable(
    folder: Path, names: list[str], list_in: Path, left_out: list[tuple[Path, str]]
) -> list[str]:
    """The pictures that a list in ``list_in`` can name; the others go to ``left_out``.

    Raises:
        DatasetError: it could name none of them.
    """
    kept = []
    for name in names:
        if _SPACES.isdisjoint(os.path.relpath(folder / name, list_in)):
            kept.append(name)
        else:
            left_out.append((folder / name, "its path has a space, so a list cannot name it"))
    if names and not kept:
        shown = some_of([repr(sanitize(name, 120)) for name in names], _SHOWN)
        raise DatasetError(
            f"A list cannot name the images of {named(folder)}: their paths have spaces ({shown}).",
            cause="A dataset list splits its lines at spaces.",
            remedy="Give the folder itself as the dataset: it needs no list. Or rename the files; "
            "where the space is in a folder above them, write the list into their folder.",
        )
    return kept
