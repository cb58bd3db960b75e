"""What the interface remembers from one start to the next.

Versioned JSON, ignored when unreadable.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load", "save"]

VERSION = 1
LIMIT = 4 << 20


def _path() -> Path:
    from engine import state_folder

    return state_folder() / "interface.json"


def load() -> dict[str, Any]:
    """What the last run saved; empty when there is nothing, or nothing that this version reads."""
    try:
        with _path().open("rb") as stream:
            state = json.loads(stream.read(LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(state, dict) or state.get("version") != VERSION:
        return {}
    return state


def save(state: dict[str, Any]) -> None:
    """Remember ``state``; silently does nothing where the folder cannot be written."""
    from engine import EngineError, atomic_write

    path = _path()
    content = json.dumps({"version": VERSION, **state}, indent=1).encode()
    with contextlib.suppress(OSError, EngineError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_write(path, content, overwrite=True)
