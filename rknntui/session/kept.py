"""What is kept from one start to the next: unsaved recipes by their file, and the interface."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from socket import gethostname
from typing import Any

from rknntui.keys.actions import key_text

Values = dict[str, object]
"""Option name -> value; who reads one looks what it is."""

VERSION = 1
LIMIT = 4 << 20
"""Bytes of a file."""
KEPT = 50
"""So many drafts stay on disk; the newest do."""
STEPS = 20
"""Steps that undo goes back in a recipe of an earlier run."""


@dataclass(frozen=True)
class Draft:
    """A recipe that differs from its file, as it was left.

    Attributes:
        path: what was open, by which the draft is found again: a model or a recipe file.
        recipe: option name -> value.
        saved: the recipe as its file had it, or as opening the model gave it.
        recipe_path: the recipe's file, where there is one.
        built: the recipe of the last build, where there was one.
        undo, redo: the recipes before and after, the nearest one last.
    """

    path: str
    recipe: Values
    saved: Values
    recipe_path: str | None = None
    built: Values | None = None
    undo: tuple[Values, ...] = ()
    redo: tuple[Values, ...] = ()


def drafts_folder() -> Path:
    """Where drafts lie on disk."""
    from engine import state_folder

    return state_folder() / "drafts"


class Drafts:
    """The drafts of this run, and of earlier ones.

    One workbench at a time has a file: another one that opens it keeps its drafts apart.

    Args:
        folder: where they are kept for later runs; None keeps them in memory only.

    Attributes:
        other: who else has the open file; empty where nobody has.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, Draft | None] = {}
        self._lock: int | None = None
        self._claimed = ""
        self.other = ""

    def claim(self, path: str | None) -> str:
        """Take a file as the open one (None: none is); who else has it, told once, else empty."""
        if self._folder is None or path == (self._claimed or None):
            return ""
        if self._lock is not None:
            os.close(self._lock)
        self._lock, self._claimed, self.other = None, path or "", ""
        if path is not None:
            with contextlib.suppress(OSError):  # a full disk: nobody is told, nothing is lost
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._take(self._file(path, ".lock"))
        return self.other

    def _take(self, place: Path) -> None:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.other = os.read(handle, 200).decode("utf-8", "replace") or "another process"
            os.close(handle)
            return
        self._lock = handle
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {gethostname()}".encode())

    def keep(self, draft: Draft) -> None:
        """Keep a draft in the place of an older one of the same file."""
        self._known[draft.path] = draft
        self._write(draft)

    def keep_last(self, state: Mapping[str, object]) -> None:
        """Keep what an earlier run left unsaved, where this run opens something else.

        Args:
            state: of the interface, as that run saved it.
        """
        last = draft_of(state)
        if last is not None and last.recipe != last.saved:
            self.keep(replace(last, path=last.recipe_path or str(last.recipe["model"])))

    def forget(self, path: str) -> None:
        """Drop the draft of a file: it was saved, or taken back."""
        self._known[path] = None
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._file(path).unlink()

    def of(self, path: str | None) -> Draft | None:
        """The draft of a model or recipe file, if there is one."""
        if path is None:
            return None
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    # -- disk --------------------------------------------------------------------------------------

    def _file(self, path: str, suffix: str = "") -> Path:
        name = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        apart = "-2.json" if self.other and path == self._claimed else ".json"
        return (self._folder or Path()) / f"{name}{suffix or apart}"

    def _write(self, draft: Draft) -> None:
        """Write a draft; one that cannot be written is kept in memory."""
        if self._folder is None:
            return
        data = {
            "version": VERSION,
            "when": round(time.time()),
            "path": draft.path,
            "recipe": draft.recipe,
            "saved": draft.saved,
            "recipe_path": draft.recipe_path,
            "built": draft.built,
            "undo": list(draft.undo[-STEPS:]),
        }
        if len(json.dumps(data)) > LIMIT:
            data["undo"] = []
        write_json(self._file(draft.path), data)
        with contextlib.suppress(OSError):
            files = sorted(self._folder.glob("*.json"), key=lambda p: -p.stat().st_mtime)
            for old in files[KEPT:]:
                old.unlink(missing_ok=True)

    def _read(self, path: str) -> Draft | None:
        """The draft of an earlier run; None where there is none that this version reads."""
        if self._folder is None:
            return None
        places = (self._file(path), self._file(path, "-2.json"))
        return next(filter(None, (self._draft_at(place, path) for place in places)), None)

    def _draft_at(self, place: Path, path: str) -> Draft | None:
        data = read_json(place, LIMIT)
        if not isinstance(data, dict) or data.get("version") != VERSION:
            return None
        draft = draft_of(data)
        ours = draft is not None and path in (draft.recipe_path, draft.recipe["model"])
        return draft if ours and data.get("path") == path else None


def draft_of(data: Mapping[str, object]) -> Draft | None:
    """The draft in plain data of an earlier run; None where it is none.

    Args:
        data: ``path``, ``recipe``, ``saved``, ``recipe_path``, ``built`` and ``undo``, none of them
            checked.
    """
    path, recipe, saved = data.get("path"), data.get("recipe"), data.get("saved")
    if not isinstance(path, str) or not isinstance(recipe, dict) or not recipe.get("model"):
        return None
    recipe_path, built, undo = data.get("recipe_path"), data.get("built"), data.get("undo")
    steps = [step for step in undo if isinstance(step, dict)] if isinstance(undo, list) else []
    return Draft(
        path,
        recipe,
        saved if isinstance(saved, dict) else {},
        recipe_path if isinstance(recipe_path, str) else None,
        built if isinstance(built, dict) else None,
        tuple(steps),
    )


def told(left: str | None, draft: Draft | None) -> list[str]:
    """What to say when a file was opened: of the unsaved recipe that was left, and of this one's.

    Args:
        left: the file whose unsaved recipe was kept; None where nothing was unsaved.
        draft: that came back; None where there was none.
    """
    from engine import sanitize

    texts, undo = [], key_text("app.undo")
    if left is not None:
        name = sanitize(left.rsplit("/", 1)[-1], 60)
        back = f"{undo} or opening the file brings them back."
        texts.append(f"Your changes of {name} are kept as a draft. {back}")
    if draft is not None:
        names = {
            n for n in {*draft.recipe, *draft.saved} if draft.recipe.get(n) != draft.saved.get(n)
        }
        count = "1 option" if len(names) == 1 else f"{len(names)} options"
        texts.append(f"Your changes of {count} are restored from the draft. {undo} undoes them.")
    return texts


# The state of the interface that is kept from one start to the next.
#
# Versioned JSON, ignored when unreadable.

STATE_VERSION = 1


def _state_file() -> Path:
    from engine import state_folder

    return state_folder() / "interface.json"


def load_state() -> dict[str, object]:
    """What the last run saved; empty when there is nothing, or nothing that this version reads."""
    try:
        state = _clean(read_json(_state_file(), LIMIT))
    except RecursionError:
        return {}
    if not isinstance(state, dict) or state.get("version") != STATE_VERSION:
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


def moved_dividers(state: Mapping[str, object]) -> dict[str, int]:
    """Place of a line between two panes -> percent of the one before it, where it was moved."""
    moved = state.get("dividers")
    return {
        str(name): share
        for name, share in (moved.items() if isinstance(moved, dict) else ())
        if isinstance(share, int) and 0 < share < 100
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


def save_state(state: Mapping[str, object]) -> None:
    """Remember ``state``; silently does nothing where the folder cannot be written."""
    write_json(_state_file(), {"version": STATE_VERSION, **state})


def read_json(path: Path, limit: int) -> Any:
    """The plain data of a file; None where there is none that can be read.

    Args:
        path: of the file.
        limit: bytes that are read.
    """
    from engine import open_regular

    try:
        with open_regular(path) as stream:
            return json.loads(stream.read(limit))
    except (OSError, ValueError, RecursionError):
        return None


def write_json(path: Path, data: Mapping[str, object]) -> None:
    """Write plain data for this user alone; nothing happens where it cannot be written."""
    from engine import EngineError, atomic_write, private_folder

    with contextlib.suppress(OSError, EngineError, UnicodeError):
        private_folder(path.parent)
        content = json.dumps(data, indent=1).encode()
        atomic_write(path, content, overwrite=True, private=True)
