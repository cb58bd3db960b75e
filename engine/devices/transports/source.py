"""A file of this machine that goes to a board."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from engine.base.errors import UsageError
from engine.base.files import open_regular
from engine.base.text import sanitize

__all__ = ["open_source"]


def open_source(path: Path) -> BinaryIO:
    """Open it for reading.

    Raises:
        UsageError: it is missing, a folder or a device, or may not be read.
    """
    try:
        return open_regular(path)
    except OSError as error:
        raise UsageError(
            f"{sanitize(str(path))} could not be read: {error.strerror or error}.",
            remedy="Check the path and its permissions.",
        ) from error
