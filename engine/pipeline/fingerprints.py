"""What decides a result beside the recipe: hashes of files, versions of libraries, our code.

Hashes are kept for as long as a file keeps its size and time of change.
"""

from __future__ import annotations

import hashlib
import os
import stat
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.cache import LruCache
from engine.base.errors import SourceModelError
from engine.base.files import missing_error, sha256_of
from engine.base.version import version_of

if TYPE_CHECKING:
    from engine.dataset import Dataset

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
        if _files.get(stamp) is None and not stat.S_ISREG(path.stat().st_mode):
            raise SourceModelError(
                f"{path} is not a file.",
                cause="It is a folder, or a device or pipe, which may never end.",
                remedy="Give a file.",
            )
        return _files.get_or_make(stamp, lambda: sha256_of(path))
    except FileNotFoundError as error:
        raise missing_error(path) from error
    except OSError as error:
        raise SourceModelError(
            f"{path} could not be read: {error.strerror or error}.",
            cause="You may not read it, or it is not a path of a file.",
            remedy="Check that it is a file and that you have permission to read it.",
        ) from error


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
    return _datasets.get_or_make(stamp, lambda: dataset_digest(dataset))


@cache
def library_versions() -> tuple[tuple[str, str], ...]:
    """(name, version) of the libraries that decide numbers or bytes."""
    names = ("numpy", "onnx", "onnx-ir", "onnxruntime", "pillow", "protobuf")
    return tuple((name, version_of(name) or "unknown") for name in names)


@cache
def code_fingerprint() -> str:
    """Hexadecimal SHA-256 of the engine's own code (its files take some milliseconds to read)."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith((".py", ".csv", ".yaml")):
                path = Path(folder, name)
                digest.update(str(path)[len(str(root)) :].replace(os.sep, "/").encode("utf-8"))
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
