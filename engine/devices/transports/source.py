"""A file of this machine that goes to a board."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from engine.base.errors import UsageError
from engine.base.files import open_regular
from engine.base.text import sanitize

__all__ = ["Source"]


class Source:
    """A file that is open for reading; what is wrong with it is not taken for a fault of a board.

    Args:
        path: the file.

    Attributes:
        size: its bytes, when it was opened.

    Raises:
        UsageError: it is missing, a folder or a device, or may not be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._stream = open_regular(path)
        except OSError as error:
            raise self._error(error) from error
        self.size = os.fstat(self._stream.fileno()).st_size

    def read(self, size: int) -> bytes:
        """The next bytes; empty at the end.

        Raises:
            UsageError: they cannot be read.
        """
        try:
            return self._stream.read(size)
        except OSError as error:
            raise self._error(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def _error(self, error: OSError) -> UsageError:
        return UsageError(
            f"{sanitize(str(self._path))} could not be read: {error.strerror or error}.",
            cause="It is missing or no file, or its disk is damaged.",
            remedy="Check the path and its permissions.",
        )
