"""Where the output of toolkits is kept: a folder for each compilation, the newest of them."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from engine.base.files import output_errors
from engine.base.paths import private_file, private_folder, state_folder

__all__ = ["LogFolder"]

_KEPT = 20


class LogFolder:
    """A folder in the user's state folder for what toolkits print during one compilation.

    Attributes:
        raw: matches the paths of the toolkits' own logs in it.

    Raises:
        OutputError: it cannot be made.
    """

    def __init__(self) -> None:
        place = state_folder() / "compile"
        with output_errors(place):
            private_folder(place)
            _prune(place)
            stamp = time.strftime("%Y%m%d-%H%M%S")
            name = f"{stamp}-{os.getpid()}-{secrets.token_hex(3)}"
            self.folder = private_folder(place / name)
        self.raw = re.compile(re.escape(str(self.folder / "toolkit")) + r"(?:-\d+)?\.log")

    def path(self, name: str) -> Path:
        """A file in it."""
        return self.folder / name

    def write(self, path: Path, text: str) -> None:
        """Keep a log; where that fails, the compilation goes on without it."""
        with contextlib.suppress(OSError), private_file(path) as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))

    @contextlib.contextmanager
    def file(self, name: str, content: bytes) -> Iterator[Path]:
        """A file for the time of the block.

        Raises:
            OutputError: it cannot be written.
        """
        path = self.path(name)
        try:
            with output_errors(path):
                path.write_bytes(content)
            yield path
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _prune(place: Path) -> None:
    """Remove all but the newest folders; their names begin with their time."""
    found = sorted(each for each in place.iterdir() if each.is_dir())
    for each in found[: max(0, len(found) - _KEPT + 1)]:
        shutil.rmtree(each, ignore_errors=True)
