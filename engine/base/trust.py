"""Whose Python may run in the worker: files that a user named or confirmed, by path and hash.

A recipe names the classes of custom operators as ``FILE.py:Name`` and may come from anybody, as may
the folder that it lies in. So a file runs only where it was given on the command line
(``--allow-code FILE.py``), for that request, or where it was confirmed in the workbench, for as
long as its bytes stay what they were (SECURITY.md).

Confirmations lie in ``confirmed-code.json`` in the state folder: ``{"version": 1, "files":
{absolute path: SHA-256}}``. A file that cannot be read confirms nothing. Standard library only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from engine.base.errors import EngineError, OutputError, UsageError
from engine.base.files import atomic_write, output_errors, read_bounded, sha256_of
from engine.base.paths import private_folder, state_folder
from engine.base.process import try_lock

_VERSION = 1
_LIMIT = 1 << 20
_TRIES = 100
_WAIT_SECONDS = 0.02

_allowed: ContextVar[frozenset[Path]] = ContextVar("allowed_code", default=frozenset())


@contextmanager
def trusting(paths: Any) -> Iterator[None]:
    """Trust the files of one request's ``allow_code`` for the time of the block.

    Raises:
        UsageError: ``paths`` is no list of paths.
    """
    allowed = [] if paths is None else paths
    if not isinstance(allowed, list) or not all(isinstance(p, str) and p for p in allowed):
        raise UsageError("allow_code is a list of paths of Python files.")
    token = _allowed.set(frozenset(Path(path).resolve() for path in allowed))
    try:
        yield
    finally:
        _allowed.reset(token)


def trusted_code() -> frozenset[Path]:
    """The files that the present request allows, absolute."""
    return _allowed.get()


def trust_file(path: Path, sha256: str | None = None) -> str:
    """Let a file run from now on, for as long as it stays as it is.

    Args:
        path: the Python file.
        sha256: of the bytes that the user was shown; None for those that are there now.

    Returns:
        The SHA-256 that was confirmed.

    Raises:
        OutputError: the file is gone, or the confirmation could not be written.
    """
    place = path.resolve()
    with output_errors(place):
        digest = sha256 if sha256 is not None else sha256_of(place)
    file = _file()
    with output_errors(file):
        private_folder(file.parent)
        for _ in range(_TRIES):
            with try_lock(file.with_suffix(".lock")) as mine:
                if mine:
                    files = {**_confirmed(), str(place): digest}
                    data = {"version": _VERSION, "files": files}
                    content = json.dumps(data, indent=1).encode("ascii")
                    atomic_write(file, content, overwrite=True, private=True)
                    return digest
            time.sleep(_WAIT_SECONDS)
    raise OutputError(
        f"The confirmation of {place} could not be written.",
        cause=f"Another process holds {file.with_suffix('.lock')}.",
        remedy="Confirm it again.",
    )


def trusted_digest(path: Path) -> str | None:
    """The SHA-256 of the bytes that a file was confirmed with; None where it never was."""
    return _confirmed().get(str(path.resolve()))


def _file() -> Path:
    return state_folder() / "confirmed-code.json"


def _confirmed() -> dict[str, str]:
    try:
        data = json.loads(read_bounded(_file(), _LIMIT, "the list of confirmed files"))
        if data["version"] != _VERSION:
            return {}
        return {str(path): str(digest) for path, digest in data["files"].items()}
    except (EngineError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
