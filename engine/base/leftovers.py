"""Temporary folders that go, also where the process that made them was killed.

A folder holds a file ``.owner`` that its process keeps locked (flock), so the lock is free exactly
when the process is gone, however it ended. Those in the folder for temporary files are found by
their name, ``rknntui-...``; of those elsewhere a note with the path lies in ``STATE/leftovers``.
Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from engine.base.files import output_errors
from engine.base.paths import private_file, private_folder, state_folder

Kind = Literal["board", "convert", "jobs", "sweep", "toolkit"]
"""What a folder among the temporary ones is for: only these are found again by their name."""
_PREFIX = "rknntui-"
# what mkdtemp makes of our words: a folder that a user named is nobody's leftover
_NAME = re.compile(rf"rknntui-({'|'.join(get_args(Kind))})-[a-z0-9_]{{8}}")
OWNER = ".owner"
"""Name of the file that the owner keeps locked."""
_NOTE_LIMIT = 1 << 14
# without an owner's file: just being made, or of a process that was killed at that moment
_UNOWNED_SECONDS = 24 * 3600.0


def make_owned(kind: str, place: Path | None = None, name: str = "") -> Path:
    """Make a folder (0700) that goes at the next start once this process has ended.

    Args:
        kind: a word of its name, ``rknntui-KIND-...``.
        place: where to make it; the folder for temporary files when None.
        name: of what it becomes, where ``place`` is given: it is then ``.NAME.....part``.

    Raises:
        OSError: it cannot be made.
    """
    if place is None:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-"))
    else:
        folder = Path(tempfile.mkdtemp(prefix=f".{name[:40]}.", suffix=".part", dir=place))
    try:
        # locked first and named then: nobody finds it unlocked while its process lives
        fresh = folder / f"{OWNER}.new"
        handle = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh.rename(folder / OWNER)
        except OSError:
            os.close(handle)
            raise
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _handles[folder] = handle  # closed by the system when the process ends
    if place is not None:
        with contextlib.suppress(OSError):
            notes = private_folder(state_folder() / "leftovers")
            note = notes / f"{os.getpid()}-{secrets.token_hex(6)}"
            with private_file(note) as stream:
                stream.write(os.fsencode(folder.absolute()))
            _notes[folder] = note
    return folder


_handles: dict[Path, int] = {}
_notes: dict[Path, Path] = {}


def let_go(folder: Path) -> None:
    """Remove a folder of :func:`make_owned` and what is in it; one that is gone is no error."""
    shutil.rmtree(folder, ignore_errors=True)
    handle, note = _handles.pop(folder, None), _notes.pop(folder, None)
    if handle is not None:
        os.close(handle)
    if note is not None:
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)


def let_go_empty(folder: Path) -> None:
    """As :func:`let_go`, where nothing but its owner's file is in it."""
    with contextlib.suppress(OSError):
        if all(entry.name == OWNER for entry in folder.iterdir()):
            let_go(folder)


@contextlib.contextmanager
def owned_folder(kind: Kind) -> Iterator[Path]:
    """A temporary folder (0700) for the time of the block, as :func:`make_owned` makes it.

    Raises:
        OSError: it cannot be made.
    """
    folder = make_owned(kind)
    try:
        yield folder
    finally:
        let_go(folder)


@contextlib.contextmanager
def owned_file(kind: Kind, name: str, content: bytes) -> Iterator[Path]:
    """A file in a folder of :func:`owned_folder`, for the time of the block.

    Raises:
        OutputError: it cannot be written.
    """
    with contextlib.ExitStack() as held:
        with output_errors(Path(tempfile.gettempdir())):
            path = held.enter_context(owned_folder(kind)) / name
        with output_errors(path):
            path.write_bytes(content)
        yield path


def clear_leftovers() -> int:
    """Remove this user's folders whose processes are gone; returns how many."""
    gone = 0
    place = tempfile.gettempdir()
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and _left(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)
                gone += 1
    with contextlib.suppress(OSError), os.scandir(state_folder() / "leftovers") as entries:
        for entry in entries:
            gone += _clear_noted(Path(entry.path))
    return gone


def _clear_noted(note: Path) -> int:
    try:
        with note.open("rb") as stream:
            folder = Path(os.fsdecode(stream.read(_NOTE_LIMIT)))
        if not folder.is_absolute() or not folder.name.endswith(".part"):
            if time.time() - note.stat().st_mtime > _UNOWNED_SECONDS:  # never written whole
                note.unlink()
            return 0
        existed = folder.exists()
        if existed and not _left(folder):
            return 0
        shutil.rmtree(folder, ignore_errors=True)
        note.unlink(missing_ok=True)
    except (OSError, ValueError):
        return 0
    return int(existed)


def _left(folder: Path) -> bool:
    """Whether a folder is this user's own and its process is gone."""
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        handle = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - status.st_mtime > _UNOWNED_SECONDS
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
