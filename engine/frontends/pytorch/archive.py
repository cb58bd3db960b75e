"""The zip archive of a TorchScript file, read within bounds.

Layout (torch/csrc/jit/docs/serialization.md): below one folder ``data.pkl`` (the tree of modules),
``data/N`` (storages), ``code/**.py`` (TorchScript as text), ``constants.pkl``, ``constants/N``,
``version``, and of traced modules ``traced_inputs.pkl``.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from pathlib import Path
from types import TracebackType

from engine.base.errors import SourceModelError
from engine.base.text import human_bytes, sanitize

__all__ = ["Archive"]

_MAX_RECORDS = 200_000
_MAX_BYTES = 16 << 30
_MAX_RATIO = 200
_FREE_BYTES = 64 << 20
_CHUNK = 1 << 20
_ZIP_ERRORS = (
    *(OSError, zipfile.BadZipFile, zlib.error, EOFError),
    *(ValueError, RuntimeError, NotImplementedError),
)


class Archive:
    """An open archive; a context manager.

    Attributes:
        path: the file.
        records: record -> size when unpacked; names without the outer folder.

    Raises:
        SourceModelError: it cannot be read, is no zip archive, or unpacks to more than it may.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise self._damaged(str(error)) from error
        entries = self._zip.infolist()
        if len(entries) > _MAX_RECORDS:
            self._zip.close()
            raise self._damaged(f"it lists {len(entries)} records")
        self._refuse_twins(entries)
        self._entries = {e.filename.partition("/")[2] or e.filename: e for e in entries}
        self.records = {name: entry.file_size for name, entry in self._entries.items()}
        self._check_sizes(entries)

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()

    def _refuse_twins(self, entries: list[zipfile.ZipInfo]) -> None:
        """One folder, and one record of a name: torch's reader would take another than this one.

        It reads the folder that the first record is in, and does not tell capital letters.
        """
        folders = {entry.filename.partition("/")[0] for entry in entries}
        names = {entry.filename.lower() for entry in entries}
        if len(folders) > 1 or len(names) < len(entries):
            self._zip.close()
            raise self._damaged("it has several folders, or two records of one name")

    def _check_sizes(self, entries: list[zipfile.ZipInfo]) -> None:
        """Refuse a bomb before anybody unpacks it: torch's writer stores tensors uncompressed."""
        total = sum(entry.file_size for entry in entries)
        size = self.path.stat().st_size
        if total > _MAX_BYTES or total > _FREE_BYTES + _MAX_RATIO * size:
            self._zip.close()
            raise SourceModelError(
                f"{sanitize(self.path.name)} has {human_bytes(size)} and says that it unpacks to "
                f"{human_bytes(total)}.",
                cause="It is damaged, or made to fill the memory.",
                remedy="Save it again with torch.jit.save.",
            )

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a record of at most ``limit`` bytes.

        Raises:
            SourceModelError: missing, longer, cut, or its checksum is wrong.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise self._damaged(f"it has no {name}")
        if entry.file_size > limit:
            raise self._damaged(f"its record {name} has {human_bytes(entry.file_size)}")
        try:
            with self._zip.open(entry) as stream:
                return stream.read(limit + 1)[:limit]
        except _ZIP_ERRORS as error:
            raise self._damaged(f"{name}: {error}") from error

    def check(self) -> None:
        """Read every record once, in chunks, and compare its checksum.

        Raises:
            SourceModelError: as of :meth:`read`.
        """
        for name, entry in self._entries.items():
            try:
                with self._zip.open(entry) as stream:
                    while stream.read(_CHUNK):
                        pass
            except _ZIP_ERRORS as error:
                raise self._damaged(f"{name}: {error}") from error

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the file."""
        found = hashlib.sha256()
        try:
            with self.path.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    found.update(chunk)
        except OSError as error:
            raise self._damaged(str(error)) from error
        return found.hexdigest()

    def _damaged(self, why: str) -> SourceModelError:
        return SourceModelError(
            f"{sanitize(self.path.name)} is a damaged TorchScript archive: {sanitize(why, 200)}.",
            cause="A download or copy was cut short, or the file was changed.",
            remedy="Copy or download it again, or save it again with torch.jit.save.",
        )
