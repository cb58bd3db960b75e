"""The file of environments: names, folders, what the last check found. Tolerant of damage."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engine.base.errors import OutputError, UsageError
from engine.base.files import atomic_write, output_errors, read_regular
from engine.base.findings import Finding
from engine.base.paths import private_folder, state_folder
from engine.base.plain import Values
from engine.base.process import try_lock

__all__ = ["Entry", "changed", "check_name", "read"]

_LIMIT = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_LOCK_SECONDS = 10.0


@dataclass(frozen=True)
class Entry:
    """A row of the file.

    Attributes:
        name, folder, python, python_version, generation, version, managed, default: as
            :class:`engine.wire.vendor.ToolkitEnvironment` has them.
        checked: whether ``ok`` and ``findings`` are of a check.
        ok: whether that imported the toolkit.
        site: time of its packages at that check, in ns: later changes make it void.
    """

    name: str
    folder: str
    python: str
    python_version: str = ""
    generation: int = 2
    version: str = ""
    managed: bool = False
    default: bool = False
    checked: bool = False
    ok: bool = False
    site: int = 0
    findings: tuple[Finding, ...] = ()


def check_name(name: str) -> str:
    """A name that is fit for a folder and a command line.

    Raises:
        UsageError: it is not.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a toolkit's environment.",
            cause="A name has at most 40 letters, digits, dots, dashes and underscores, and begins "
            "with a letter or a digit.",
            remedy="Give another one with --name.",
        )
    return name


def read() -> tuple[Entry, ...]:
    """The rows; what is damaged is left out, as the environments themselves are still there."""
    try:
        found = json.loads(read_regular(_path(), _LIMIT).decode("utf-8"))
        rows = found["environments"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()
    entries: dict[str, Entry] = {}
    for row in rows if isinstance(rows, list) else ():
        with contextlib.suppress(KeyError, TypeError, ValueError):
            entry = _entry(row)
            entries.setdefault(entry.name, entry)
    return tuple(entries.values())


@contextlib.contextmanager
def changed() -> Iterator[dict[str, Entry]]:
    """The rows by name, to be changed in the block and written at its end; one writer at a time.

    Raises:
        OutputError: the file cannot be written.
    """
    path = _path()
    with output_errors(path), contextlib.ExitStack() as stack:
        private_folder(path.parent)
        end = time.monotonic() + _LOCK_SECONDS
        while not stack.enter_context(try_lock(path.with_suffix(".lock"))):
            if time.monotonic() > end:
                raise OutputError(
                    f"{path} could not be written: another program holds it.",
                    cause="A program of this kind was stopped while it wrote.",
                    remedy="End that program and try again.",
                )
            time.sleep(0.05)
        entries = {entry.name: entry for entry in read()}
        yield entries
        rows = [_row(entry) for entry in entries.values()]
        text = json.dumps({"version": 1, "environments": rows}, indent=1)
        atomic_write(path, text.encode("ascii"), overwrite=True, private=True)


def _path() -> Path:
    return state_folder() / "toolkits.json"


def _row(entry: Entry) -> dict[str, object]:
    row = {name: getattr(entry, name) for name in _FIELDS}
    return {**row, "findings": [one.to_dict() for one in entry.findings]}


_FIELDS: dict[str, type] = {
    "name": str,
    "folder": str,
    "python": str,
    "python_version": str,
    "generation": int,
    "version": str,
    "managed": bool,
    "default": bool,
    "checked": bool,
    "ok": bool,
    "site": int,
}


def _entry(row: Values) -> Entry:
    known = {name: row[name] for name in _FIELDS if name in row}
    for name, value in known.items():
        if type(value) is not _FIELDS[name]:
            raise TypeError(name)
    entry = Entry(**known)
    whole = os.path.isabs(entry.folder) and os.path.isabs(entry.python)  # noqa: PTH117
    if not whole or entry.generation not in (1, 2) or not _NAME.fullmatch(entry.name):
        raise ValueError(entry.name)
    try:
        findings = tuple(map(Finding.from_dict, row.get("findings", ())))
    except (TypeError, ValueError):
        return replace(entry, checked=False)  # what was found is lost, not where it was
    return replace(entry, findings=findings)
