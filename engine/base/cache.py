"""Results of stages on disk, one folder per stage hash, and in memory.

``CACHE/stages/STAGE-HASH/`` holds the files of one result and ``index.json`` with the size and
SHA-256 of each. A folder is filled under another name and renamed, so it is there whole or not at
all; what does not fit its index is dropped and made again. At most 2 GB (10**9 bytes) or a tenth
of the disk, whichever is less, or ``RKNNTUI_CACHE_MB`` (10**6 bytes; 0: no cache); what was not
used for longest goes first. A cache that cannot be written costs a finding and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from engine.base.files import read_regular
from engine.base.findings import Finding
from engine.base.paths import cache_folder, private_folder
from engine.base.process import try_lock

T = TypeVar("T")

_INDEX = "index.json"
_PART = ".part-"
_PART_SECONDS = 3600.0
_INDEX_LIMIT = 1 << 20
_DEFAULT_LIMIT = 2_000_000_000


def cache_limit(folder: Path) -> int:
    """How many bytes the cache may take."""
    megabytes = os.environ.get("RKNNTUI_CACHE_MB", "").strip()
    if megabytes.isdecimal():
        return int(megabytes) * 1_000_000
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return min(_DEFAULT_LIMIT, shutil.disk_usage(place).total // 10)
    except OSError:
        return _DEFAULT_LIMIT


class StageCache:
    """The cache on disk; several processes may use one folder.

    Args:
        folder: of the stages; by default in the user's cache folder.
        limit: in bytes; by default :func:`cache_limit`.
    """

    def __init__(self, folder: Path | None = None, limit: int | None = None) -> None:
        self.folder = folder if folder is not None else cache_folder() / "stages"
        self.limit = cache_limit(self.folder) if limit is None else limit
        self.finding: Finding | None = None

    def get(self, stage: str, key: str) -> dict[str, bytes] | None:
        """The files of a result; None where it is not there or damaged (it is removed then)."""
        folder = self._place(stage, key)
        try:
            index = json.loads(read_regular(folder / _INDEX, _INDEX_LIMIT))
            if any(Path(name).name != name for name in index["files"]):
                raise ValueError("a name leads out of the folder")
            left = int(index["size"])
            files = {}
            for name in index["files"]:
                files[name] = read_regular(folder / name, left)
                left -= len(files[name])
            if any(_digest(data) != index["files"][name] for name, data in files.items()):
                raise ValueError("a checksum does not fit")
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(folder)
        return files

    def has(self, stage: str, key: str) -> bool:
        """Whether a result is there; whether it is whole is told by :meth:`get`."""
        return (self._place(stage, key) / _INDEX).is_file()

    def put(self, stage: str, key: str, files: Mapping[str, bytes]) -> None:
        """Keep a result; a failure becomes :attr:`finding`."""
        size = sum(len(data) for data in files.values())
        if size > self.limit:
            return
        part: Path | None = None
        try:
            private_folder(self.folder)
            part = Path(tempfile.mkdtemp(prefix=_PART, dir=self.folder))
            for name, data in files.items():
                (part / name).write_bytes(data)
            index = {"files": {name: _digest(data) for name, data in files.items()}, "size": size}
            (part / _INDEX).write_text(json.dumps(index), encoding="ascii")
            place = self._place(stage, key)
            if place.exists():  # another process was faster, or it is being made anew
                shutil.rmtree(place, ignore_errors=True)
            part.rename(place)
            part = None
            self.prune()
        except OSError as error:
            # another process that keeps the same result at the same moment is no trouble
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                self.finding = _finding(self.folder, error)
        finally:
            if part is not None:
                shutil.rmtree(part, ignore_errors=True)

    def drop(self, stage: str, key: str) -> None:
        """Remove a result that is of no use any more, if it is there."""
        shutil.rmtree(self._place(stage, key), ignore_errors=True)

    def size(self) -> tuple[int, int]:
        """How many results there are, and their bytes."""
        count = total = 0
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                if entry.is_dir(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        count, total = count + 1, total + _size(entry.path)
        return count, total

    def clear(self) -> None:
        """Remove all results; another process that looks for one makes it again.

        Raises:
            OSError: one cannot be removed.
        """
        if self.folder.is_dir():
            for entry in list(os.scandir(self.folder)):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)

    def prune(self) -> None:
        """Remove what was not used for longest until the rest fits; one process at a time."""
        with try_lock(self.folder / ".lock") as mine:
            if not mine:
                return
            kept: list[tuple[float, int, Path]] = []
            for entry in os.scandir(self.folder):
                if not entry.is_dir(follow_symlinks=False):
                    continue
                with contextlib.suppress(OSError):
                    used = entry.stat().st_mtime
                    if entry.name.startswith(_PART):
                        if time.time() - used > _PART_SECONDS:  # of a process that was killed
                            shutil.rmtree(entry.path, ignore_errors=True)
                        continue
                    kept.append((used, _size(entry.path), Path(entry.path)))
            total = sum(size for _, size, _ in kept)
            for _, size, path in sorted(kept, key=lambda item: item[0]):
                if total <= self.limit:
                    break
                shutil.rmtree(path, ignore_errors=True)
                total -= size

    def _place(self, stage: str, key: str) -> Path:
        return self.folder / f"{stage}-{key}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _size(folder: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())


def _finding(folder: Path, error: OSError) -> Finding:
    return Finding(
        "cache-not-written",
        "warning",
        str(folder),
        f"Results could not be kept for the next build: {error.strerror or error}.",
        cause="The cache folder is full or read-only.",
        remedy="Free space, or set XDG_CACHE_HOME to a folder that you have permission to write "
        "to.",
    )


class LruCache:
    """The results used last in a warm process, by key; for several threads.

    Args:
        count: how many values are kept at most.
        limit: how many bytes they may weigh together; the last one is kept whatever it weighs.
    """

    def __init__(self, count: int = 24, limit: int = 256_000_000) -> None:
        self._count = count
        self._limit = limit
        self._total = 0
        self._kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Any | None:
        """What is kept under a key, or None."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def get_or_make(
        self, key: str, make: Callable[[], T], weight: Callable[[T], int] = lambda _: 0
    ) -> T:
        """What is kept under a key, else what ``make`` gives, which is kept then."""
        value: T | None = self.get(key)
        if value is None:
            value = make()
            self.put(key, value, weight(value))
        return value

    def put(self, key: str, value: Any, weight: int = 0) -> None:
        """Keep a value of about ``weight`` bytes, and forget those not used for longest."""
        with self._lock:
            self._total += weight - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = (value, weight)
            while len(self._kept) > self._count or (
                self._total > self._limit and len(self._kept) > 1
            ):
                _, (_, freed) = self._kept.popitem(last=False)
                self._total -= freed

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._total = 0
