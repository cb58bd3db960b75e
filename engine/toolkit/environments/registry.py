"""Which environments there are, and which of them is used.

The file of environments has names, folders and what the last check found; it may be lost or
damaged, as those of ours have marks of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import fields, replace
from itertools import count
from pathlib import Path
from typing import Any

from engine.base.errors import OutputError, ToolkitError, UsageError
from engine.base.files import atomic_write, output_errors, read_regular
from engine.base.findings import Finding
from engine.base.paths import private_folder, state_folder
from engine.base.process import try_lock
from engine.base.text import did_you_mean
from engine.toolkit.environments.places import (
    ENVIRONMENT_VARIABLE,
    PACKAGES,
    UNFINISHED,
    earlier_folder,
    folder_size,
    given_folder,
    installed,
    is_managed,
    python_of,
    read_ready,
    site_time,
    toolkits_folder,
)
from engine.wire.codec import encode, typed
from engine.wire.record import record
from engine.wire.vendor import ToolkitEnvironment, ToolkitPlace, ToolkitState

_LIMIT = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_LOCK_SECONDS = 10.0


@record
class Entry(ToolkitPlace):
    """A row of the file.

    Attributes:
        checked: whether ``ok`` and ``findings`` are of a check.
        ok: whether that imported the toolkit.
        site: time of its packages at that check, in ns: later changes make it void.
    """

    checked: bool = False
    ok: bool = False
    site: int = 0
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, environment: ToolkitEnvironment, **more: Any) -> Entry:
        """The row of an environment; ``more`` is what only rows have."""
        return cls(**_place_of(environment), **more)


def _place_of(one: ToolkitPlace) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in fields(ToolkitPlace)}


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


def taken_error(name: str, folder: str) -> UsageError:
    """A name that another environment has."""
    return UsageError(
        f"The name {name} is taken by the environment in {folder}.",
        cause="It was adopted, or made in another folder.",
        remedy=f"Give another one with --name, or run `rknntui vendor remove {name}` first.",
    )


# ---------------------------------------------------------------------------------------- the file


def read() -> tuple[Entry, ...]:
    """The rows; what is damaged is left out, as the environments themselves are still there."""
    try:
        content = json.loads(read_regular(_path(), _LIMIT).decode("utf-8"))
        rows = content["environments"]
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
        rows = [encode(entry) for entry in entries.values()]
        text = json.dumps({"version": 1, "environments": rows}, indent=1)
        atomic_write(path, text.encode("ascii"), overwrite=True, private=True)


def remember(entry: Entry) -> None:
    """Write a row; whether it is the default stays as it was.

    Raises:
        OutputError: the file cannot be written.
    """
    with changed() as entries:
        before = entries.get(entry.name)
        entries[entry.name] = replace(entry, default=before is not None and before.default)


def _path() -> Path:
    return state_folder() / "toolkits.json"


def _entry(row: dict[str, Any]) -> Entry:
    known_fields = {one.name: row[one.name] for one in fields(Entry) if one.name in row}
    try:
        entry = typed(Entry, known_fields)
    except TypeError:  # what was found is lost, not where it was
        entry = typed(Entry, {**known_fields, "findings": (), "checked": False})
    whole = os.path.isabs(entry.folder) and os.path.isabs(entry.python)  # noqa: PTH117
    if not whole or entry.generation not in (1, 2) or not _NAME.fullmatch(entry.name):
        raise ValueError(entry.name)
    return entry


# ------------------------------------------------------------------------------- the environments

DEFAULT_NAME = "toolkit2"
"""Of the environment that is made where no name is given."""

INSTALL = {
    2: "Run `rknntui vendor install`, or name one that you have: `rknntui vendor adopt PYTHON`.",
    1: "Make a Python 3.6 or 3.8 environment with the vendor's rknn-toolkit wheel, then run "
    "`rknntui vendor adopt PYTHON`.",
}
"""Generation -> how to get an environment."""


def known(*, sizes: bool = False) -> tuple[ToolkitEnvironment, ...]:
    """All environments, the defaults first; nothing is run to find them.

    Args:
        sizes: whether their bytes on disk are added up, which takes a second for a large one.
    """
    environments = [environment_of(entry) for entry in _entries()]
    marked = _with_defaults(environments)
    marked.sort(key=lambda one: (not one.default, one.generation != 2))
    if sizes:
        marked = [replace(one, size=folder_size(Path(one.folder))) for one in marked]
    return tuple(marked)


def find(generation: int, name: str | None = None) -> ToolkitEnvironment:
    """The environment to use.

    Args:
        generation: 1 or 2, of the chip.
        name: of the environment; None for the default of the generation.

    Raises:
        ToolkitError: there is none, it is of the other generation, or it cannot be used.
    """
    environment = find_any(name, generation)
    if environment.generation != generation:
        raise ToolkitError(
            f"The environment {name} has {PACKAGES[environment.generation]}, and this chip "
            f"needs {PACKAGES[generation]}.",
            cause="The chip is of the other generation.",
            remedy="Name another environment: `rknntui vendor list` shows them.",
        )
    return _usable(environment)


def find_any(name: str | None, generation: int = 2) -> ToolkitEnvironment:
    """The environment of a name, or the default of a generation; whatever its state.

    Raises:
        ToolkitError: there is none.
    """
    if name is not None:
        return named(name)
    suited = [one for one in known() if one.generation == generation]
    if not suited:
        raise ToolkitError(
            f"There is no environment of the vendor's {PACKAGES[generation]}.",
            cause="None was made or adopted yet.",
            remedy=INSTALL[generation],
        )
    return suited[0]  # the default comes first


def named(name: str) -> ToolkitEnvironment:
    """The environment of a name, whatever its state.

    Raises:
        ToolkitError: there is none of that name.
    """
    environments = {one.name: one for one in known()}
    if name not in environments:
        raise ToolkitError(
            f"There is no toolkit's environment of the name {name!r}.",
            cause=did_you_mean(name, environments),
            remedy="`rknntui vendor list` shows those that are known.",
        )
    return environments[name]


def _usable(environment: ToolkitEnvironment) -> ToolkitEnvironment:
    """The environment itself.

    Raises:
        ToolkitError: it is not to be used; says why and what to do.
    """
    if environment.state in ("ready", "unchecked"):
        return environment
    finding = next((one for one in environment.findings if one.severity == "error"), None)
    raise ToolkitError(
        finding.what
        if finding
        else f"The environment {environment.name} in {environment.folder} is {environment.state}.",
        cause=finding.cause if finding else "",
        remedy=finding.remedy if finding else INSTALL[environment.generation],
    )


def _entries() -> list[Entry]:
    """The rows of the registry, and the environments that need none."""
    listed = list(read())
    folder_of_user = given_folder()
    if folder_of_user is not None and not any(
        Path(entry.folder) == folder_of_user for entry in listed
    ):
        # first, and so the one of that name, for who sets the variable
        listed.insert(0, _entry_of(DEFAULT_NAME, folder_of_user))
    places = {Path(entry.folder) for entry in listed}
    for folder in _unlisted():
        if folder not in places:
            name = DEFAULT_NAME if folder == earlier_folder() else folder.name
            listed.append(_entry_of(name, folder))
    entries: dict[str, Entry] = {}
    for entry in listed:
        name = free_name(entry.name, entries)
        entries[name] = replace(entry, name=name)
    return list(entries.values())


def _unlisted() -> list[Path]:
    """Environments of ours that the registry may not know: it was lost, or the making killed."""
    try:
        folders = sorted(path for path in toolkits_folder().iterdir() if path.is_dir())
    except OSError:
        folders = []
    return [folder for folder in (*folders, earlier_folder()) if is_managed(folder)]


def _entry_of(name: str, folder: Path) -> Entry:
    package = installed(folder)
    return Entry(
        name=name,
        folder=str(folder),
        python=str(python_of(folder)),
        generation=package.generation or 2,
        managed=is_managed(folder),
    )


def free_name(name: str, taken: Collection[str]) -> str:
    """A name that is not taken: itself, or with a number behind it."""
    if name not in taken:
        return name
    return next(other for n in count(2) if (other := f"{name}-{n}") not in taken)


def environment_of(entry: Entry) -> ToolkitEnvironment:
    """A row as it is told: with what lies in its folder now."""
    folder = Path(entry.folder)
    state, findings = _state(entry, folder)
    here = installed(folder)
    place = _place_of(entry)
    place |= {name: value for name, value in vars(here).items() if value}
    return ToolkitEnvironment(**place, state=state, findings=findings)


def _state(entry: Entry, folder: Path) -> tuple[ToolkitState, tuple[Finding, ...]]:
    if entry.managed and (folder / UNFINISHED).exists():
        return "unfinished", (_unfinished(entry),)
    if not Path(entry.python).exists():
        return "missing", (_missing(entry, folder),)
    site = site_time(folder)
    if entry.checked and entry.site == site:
        return ("ready" if entry.ok else "broken"), entry.findings
    ready = read_ready(folder) if entry.managed else {}
    # the earlier script wrote no time; it was the last to touch what it made
    return ("ready" if ready and ready.get("site", site) == site else "unchecked"), ()


def _unfinished(entry: Entry) -> Finding:
    return Finding(
        "toolkit-unfinished",
        "error",
        entry.name,
        f"The environment {entry.name} is not finished.",
        "It is being made or removed now, or that was interrupted.",
        "Run `rknntui vendor install` again"
        + ("." if entry.name == DEFAULT_NAME else f" with --name {entry.name}."),
    )


def _missing(entry: Entry, folder: Path) -> Finding:
    there = folder.exists()
    return Finding(
        "toolkit-missing",
        "error",
        entry.name,
        f"The environment {entry.name} has no {entry.python}."
        if there
        else f"The folder of the environment {entry.name} is gone: {folder}.",
        "The Python that it was made with was removed."
        if there
        else f"It was moved or deleted, or {ENVIRONMENT_VARIABLE} names another place.",
        f"{INSTALL[entry.generation]} `rknntui vendor remove {entry.name}` forgets this one.",
    )


def _with_defaults(environments: list[ToolkitEnvironment]) -> list[ToolkitEnvironment]:
    """One default a generation: the variable's, else the marked, else the first that is usable."""
    folder = given_folder()
    chosen = set()
    for generation in (1, 2):
        suited = [one for one in environments if one.generation == generation]
        usable = [one for one in suited if one.state in ("ready", "unchecked")]
        ranked = [
            *(one for one in suited if folder is not None and Path(one.folder) == folder),
            *(one for one in suited if one.default),
            *usable,
            *suited,
        ]
        if ranked:
            chosen.add(ranked[0].name)
    return [replace(one, default=one.name in chosen) for one in environments]
