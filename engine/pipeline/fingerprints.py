"""Fingerprints of files: hashes, kept for as long as a file keeps its size and time of change."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.cache import LruCache
from engine.base.errors import SourceModelError
from engine.base.files import missing_error, sha256_of

if TYPE_CHECKING:
    from engine.dataset import Dataset

__all__ = ["digest_of", "digest_of_dataset", "file_fingerprint"]

_files = LruCache(256)
_datasets = LruCache(8)


def file_fingerprint(path: Path) -> str:
    """What changes when a file does: its place, size, times and inode.

    Raises:
        OSError: it is missing or unreadable.
    """
    facts = path.stat()
    return f"{path.absolute()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{facts.st_ino}"


def digest_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file.

    Raises:
        SourceModelError: it is missing, unreadable or a folder.
    """
    try:
        stamp = file_fingerprint(path)
        known: str | None = _files.get(stamp)
        if known is None and not stat.S_ISREG(path.stat().st_mode):
            raise SourceModelError(
                f"{path} is not a file.",
                cause="It is a folder, or a device or pipe, which may never end.",
                remedy="Give a file.",
            )
        if known is None:
            known = sha256_of(path)
            _files.put(stamp, known)
    except FileNotFoundError as error:
        raise missing_error(path) from error
    except OSError as error:
        raise SourceModelError(
            f"{path} could not be read: {error.strerror or error}.",
            cause="You may not read it, or it is not a path of a file.",
            remedy="Check that it is a file and that you have permission to read it.",
        ) from error
    return known


def digest_of_dataset(dataset: Dataset) -> str:
    """SHA-256 of what the samples hold, in their order.

    Raises:
        DatasetError: a file is missing or unreadable; names its line.
    """
    from engine.dataset import dataset_digest

    try:
        stamp = "\n".join(file_fingerprint(path) for entry in dataset.entries for path in entry)
    except OSError:
        return dataset_digest(dataset)  # which tells the line
    known: str | None = _datasets.get(stamp)
    if known is None:
        known = dataset_digest(dataset)
        _datasets.put(stamp, known)
    return known
