"""The state of the interface that is kept from one start to the next.

Versioned JSON, ignored when unreadable.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERSION = 1
LIMIT = 4 << 20


def _path() -> Path:
    from engine import state_folder

    return state_folder() / "interface.json"


def load() -> dict[str, object]:
    """What the last run saved; empty when there is nothing, or nothing that this version reads."""
    from engine import open_regular

    try:
        with open_regular(_path()) as stream:
            state = _clean(json.loads(stream.read(LIMIT)))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(state, dict) or state.get("version") != VERSION:
        return {}
    return state


def opened_groups(state: Mapping[str, object]) -> dict[str, list[str]]:
    """Path of a model -> the groups of its graph that were open."""
    views = state.get("views")
    return {
        str(path): [name for name in groups if isinstance(name, str)]
        for path, groups in (views if isinstance(views, dict) else {}).items()
        if isinstance(groups, list)
    }


def _clean(data: object) -> object:
    """``data`` with every text as names of a model are shown, since widgets show what is restored.

    Recursion is bounded by that of the parser before it.
    """
    from engine import visible

    if isinstance(data, str):
        return visible(data)
    if isinstance(data, dict):
        return {visible(key): _clean(value) for key, value in data.items()}
    return [_clean(value) for value in data] if isinstance(data, list) else data


def save(state: Mapping[str, object]) -> None:
    """Remember ``state``; silently does nothing where the folder cannot be written."""
    from engine import EngineError, atomic_write, private_folder

    path = _path()
    content = json.dumps({"version": VERSION, **state}, indent=1).encode()
    with contextlib.suppress(OSError, EngineError):
        private_folder(path.parent)
        atomic_write(path, content, overwrite=True, private=True)
