"""What is kept from one start to the next: unsaved recipes by their file, and the interface.

A file that this version cannot read is set aside, never overwritten; one that cannot be written
stays in memory. Either is told in a line.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import field, fields, replace
from pathlib import Path
from socket import gethostname
from typing import Annotated, Any, TypeVar

from engine import (
    EngineError,
    atomic_write,
    open_regular,
    private_folder,
    sanitize,
    state_folder,
    visible,
)
from engine.wire.codec import Whole, encode, read_request
from engine.wire.record import record
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


@record
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

    path: str | None = None
    recipe: Values = field(default_factory=dict)
    saved: Values = field(default_factory=dict)
    recipe_path: str | None = None
    built: Values | None = None
    undo: tuple[Values, ...] = ()
    redo: tuple[Values, ...] = ()

    @property
    def model(self) -> str:
        """That of the recipe; empty where there is none."""
        return str(self.recipe.get("model") or "") if self.path else ""

    @property
    def file(self) -> str:
        """The file that the recipe belongs to: its own, else the model."""
        return self.recipe_path or self.model


@record
class State(Draft):
    """What the next start shows: the recipe that was open, saved or not, and the interface.

    Attributes:
        workspace: that was shown.
        theme: by name.
        views: path of a model -> the groups of its graph that were open.
        dividers: place of a line between two panes -> percent of the one before it.
        background: whether figures are asked for by themselves.
        recent: files that were open, the newest first.
        board: that is used.
        ssh_boards: addresses of boards over SSH that the user has named.
        board_chips: id of a board -> its chip, of those that told it.
    """

    workspace: str = ""
    theme: str = ""
    views: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dividers: dict[str, Annotated[int, Whole(1, 99)]] = field(default_factory=dict)
    background: bool = True
    recent: tuple[str, ...] = ()
    board: str | None = None
    ssh_boards: tuple[str, ...] = ()
    board_chips: dict[str, str] = field(default_factory=dict)


D = TypeVar("D", bound=Draft)
Tell = Callable[[str], object]
"""Takes a line about a file that cannot be read or written."""


def read(kind: type[D], path: Path, tell: Tell) -> D | None:
    """What a file keeps; None where there is none that this version reads."""
    try:
        with open_regular(path) as stream:
            data = json.loads(stream.read(LIMIT))
        if data.get("version") != VERSION:
            raise ValueError(f"it is of version {data.get('version')}")
        known = {one.name for one in fields(kind)}
        return read_request(kind, {name: item for name, item in data.items() if name in known})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, RecursionError, EngineError) as error:
        aside = path.with_suffix(".damaged")
        with contextlib.suppress(OSError):
            path.replace(aside)
        tell(f"{path.name} cannot be read, and is {aside.name} now: {_why(error)}")
        return None


def write(path: Path, value: Draft, tell: Tell) -> bool:
    """Write it for this user alone; whether that could be done."""
    data = {"version": VERSION, **encode(replace(value, undo=value.undo[-STEPS:], redo=()))}
    content = json.dumps(data, indent=1).encode()
    if len(content) > LIMIT:
        content = json.dumps({**data, "undo": []}).encode()
    try:
        private_folder(path.parent)
        atomic_write(path, content, overwrite=True, private=True)
    except (OSError, EngineError) as error:
        tell(f"Not kept for the next start: {_why(error)}")
        return False
    return True


def _why(error: Exception) -> str:
    return sanitize(" ".join(str(error).split()), 300)


class Drafts:
    """The drafts of this run, and of earlier ones.

    One workbench at a time has a file: another one that opens it keeps its drafts apart.

    Args:
        folder: where they are kept for later runs; None keeps them in memory only.
        tell: takes a line about a draft that cannot be read or written.

    Attributes:
        other: who else has the open file; empty where nobody has.
    """

    def __init__(self, folder: Path | None = None, tell: Tell = bool) -> None:
        self._folder = folder
        self._tell = tell
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
        path = str(draft.path)
        self._known[path] = draft
        if self._folder is None:
            return
        write(self._file(path), draft, self._tell)
        with contextlib.suppress(OSError):
            files = sorted(self._folder.glob("*.json"), key=lambda p: -p.stat().st_mtime)
            for old in files[KEPT:]:
                old.unlink(missing_ok=True)

    def keep_last(self, last: Draft) -> None:
        """Keep what an earlier run left unsaved, where this run opens something else."""
        if last.model and last.recipe != last.saved:
            self.keep(Draft(last.file, *(getattr(last, f.name) for f in fields(Draft)[1:])))

    def forget(self, path: str) -> None:
        """Drop the draft of a file: it was saved, or taken back."""
        self._known[path] = None
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._file(path).unlink()

    def of(self, path: str | None) -> Draft | None:
        """The draft of a model or recipe file, if there is one."""
        if path is not None and path not in self._known and self._folder is not None:
            places = (self._file(path), self._file(path, "-2.json"))
            found = (read(Draft, place, self._tell) for place in places)
            ours = (one for one in found if one is not None and one.path == path == one.file)
            self._known[path] = next(ours, None)
        return self._known.get(path or "")

    def _file(self, path: str, suffix: str = "") -> Path:
        name = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        apart = "-2.json" if self.other and path == self._claimed else ".json"
        return (self._folder or Path()) / f"{name}{suffix or apart}"


def told(left: str | None, draft: Draft | None) -> list[str]:
    """What to say when a file was opened: of the unsaved recipe that was left, and of this one's.

    Args:
        left: the file whose unsaved recipe was kept; None where nothing was unsaved.
        draft: that came back; None where there was none.
    """
    texts, undo = [], key_text("app.undo")
    if left is not None:
        name = sanitize(left.rsplit("/", 1)[-1], 60)
        back = f"{undo} or opening the file brings them back."
        texts.append(f"Your changes of {name} are kept as a draft. {back}")
    if draft is not None:
        names = {*draft.recipe, *draft.saved}
        count = sum(draft.recipe.get(name) != draft.saved.get(name) for name in names)
        options = "1 option" if count == 1 else f"{count} options"
        texts.append(f"Your changes of {options} are restored from the draft. {undo} undoes them.")
    return texts


_STATE = "interface.json"
"""The file of what the next start shows."""


def load_state(tell: Tell) -> State:
    """What the last run saved; that of a first run where there is nothing."""
    state = read(State, state_folder() / _STATE, tell) or State()
    return read_request(State, _clean(encode(state)))


def save_state(state: State, tell: Tell) -> bool:
    """Remember ``state``; whether it could be written."""
    return write(state_folder() / _STATE, state, tell)


def _clean(data: Any) -> Any:
    """``data`` with every text as names of a model are shown, since widgets show what is restored.

    Recursion is bounded by that of the parser before it.
    """
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, dict):
        return {visible(key): _clean(value) for key, value in data.items()}
    return [_clean(value) for value in data] if isinstance(data, list | tuple) else data
