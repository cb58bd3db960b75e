"""Answers of the worker about a user's Python: which files a recipe names, and whether they may
run. Nothing here runs any of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.files import sha256_of
from engine.jobs.confirmed import allowed_code, confirm, confirmed_digest
from engine.jobs.queries import text_of

__all__ = ["confirm_file", "files"]


def files(params: dict[str, Any]) -> dict[str, Any]:
    """The Python files that a recipe names, for the dialog that asks about them.

    Returns:
        ``files``: per file ``path`` (absolute), ``names`` of classes, ``sha256`` (empty where it
        cannot be read) and ``state``: ``allowed`` (by this request), ``confirmed``, ``changed``
        since it was confirmed, ``new`` or ``missing``.
    """
    from engine.jobs.warm import recipe_of

    names: dict[Path, list[str]] = {}
    for code in recipe_of(params).source.custom_ops or ():
        file, _, name = code.rpartition(":")
        names.setdefault(Path(file).resolve(), []).append(name)
    return {"files": [{"names": classes, **_state(path)} for path, classes in names.items()]}


def _state(path: Path) -> dict[str, str]:
    try:
        digest = sha256_of(path) if path.is_file() else ""
    except OSError:
        digest = ""
    if not digest:
        return {"path": str(path), "sha256": "", "state": "missing"}
    known = confirmed_digest(path)
    if path in allowed_code():
        state = "allowed"
    elif known is None:
        state = "new"
    else:
        state = "confirmed" if known == digest else "changed"
    return {"path": str(path), "sha256": digest, "state": state}


def confirm_file(params: dict[str, Any]) -> dict[str, Any]:
    """Let a file run from now on, by its ``path`` and the ``sha256`` that the user was shown."""
    path, digest = Path(text_of(params, "path")), text_of(params, "sha256")
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise UsageError("sha256 is the hexadecimal SHA-256 that code.files told.")
    return {"path": str(path.resolve()), "sha256": confirm(path, digest)}
