"""The choice of pictures from a folder, the same on every machine for the same names and seed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import DatasetError, UsageError
from engine.base.events import Progress, Reporter
from engine.base.text import printable
from engine.dataset.decode import named, readable_picture

__all__ = ["PICTURE_SUFFIXES", "Chosen", "choose_pictures"]

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp"})
_BLANKS = frozenset(" \t\n\r\x0b\x0c")
_SHOWN = 5


@dataclass(frozen=True)
class Chosen:
    """Pictures of a folder, sorted by relative path.

    Attributes:
        files: absolute paths of those chosen.
        found: how many pictures the folder has by their suffix.
        skipped: (file or folder, why) of what was met and could not be read.
    """

    files: tuple[Path, ...]
    found: int
    skipped: tuple[tuple[Path, str], ...]


def choose_pictures(
    folder: Path, start: Path, count: int, seed: int, reporter: Reporter | None = None
) -> Chosen:
    """Choose ``count`` readable pictures below ``folder``, hidden files and folders aside.

    All pictures are sorted by relative path and shuffled by ``random.Random(seed)``; the first
    ``count`` that can be decoded are taken.

    Args:
        folder: absolute path of the folder.
        start: absolute path of the folder at which the relative paths of a list start.
        count: at least 1.
        seed: of the shuffle.
        reporter: told of the progress, asked whether to stop.

    Raises:
        UsageError: ``count`` is below 1.
        DatasetError: not a folder, no picture, or a path with a blank, which a list cannot hold.
    """
    if count < 1:
        raise UsageError(
            f"{count} pictures were asked for; at least 1 is needed.",
            remedy="Give a count above 0.",
        )
    if not folder.is_dir():
        raise DatasetError(
            f"{named(folder)} is not a folder.",
            remedy="Give a folder that holds jpg, png or bmp pictures.",
        )
    unreadable: list[tuple[Path, str]] = []
    names = sorted(_pictures(folder, unreadable))
    _refuse_blanks([os.path.relpath(folder / name, start) for name in names])
    order = list(names)
    random.Random(seed).shuffle(order)
    taken: list[str] = []
    for name in order:
        if len(taken) == count:
            break
        if reporter is not None:
            reporter.check_cancelled()
            reporter.emit(Progress("dataset", len(taken), min(count, len(order)), name))
        why = readable_picture(folder / name)
        if why:
            unreadable.append((folder / name, why))
        else:
            taken.append(name)
    if not taken:
        reasons = "; ".join(f"{printable(str(p), 120)}: {why}" for p, why in unreadable[:_SHOWN])
        raise DatasetError(
            f"{named(folder)} has no readable picture.",
            cause=reasons or "It holds no file that ends in jpg, jpeg, png or bmp.",
            remedy="Give a folder of jpg, png or bmp pictures; npy files need a dataset.txt.",
        )
    return Chosen(
        tuple(folder / name for name in sorted(taken)), len(names), tuple(sorted(unreadable))
    )


def _pictures(folder: Path, unreadable: list[tuple[Path, str]]) -> Iterator[str]:
    """Relative paths with slashes; links to folders are not followed, so there is no loop."""

    def note(error: OSError) -> None:
        unreadable.append((Path(error.filename or folder), error.strerror or "unreadable"))

    for root, folders, files in os.walk(folder, onerror=note):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith(".") and Path(name).suffix.lower() in PICTURE_SUFFIXES:
                yield (Path(root) / name).relative_to(folder).as_posix()


def _refuse_blanks(texts: list[str]) -> None:
    blank = [text for text in texts if not _BLANKS.isdisjoint(text)]
    if not blank:
        return
    shown = ", ".join(repr(printable(text, 120)) for text in blank[:_SHOWN])
    more = f" and {len(blank) - _SHOWN} more" if len(blank) > _SHOWN else ""
    raise DatasetError(
        f"{len(blank)} of {len(texts)} paths have a blank: {shown}{more}.",
        cause="A dataset list splits its lines at blanks, so it cannot name these files.",
        remedy="Rename these files or folders without blanks. If the blank is in a folder above "
        "the pictures, write the dataset file into their folder: its paths are relative.",
    )
