"""Which environments there are, and which of them is used."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import count
from pathlib import Path

from engine.base.errors import ToolkitError
from engine.base.findings import Finding
from engine.base.text import did_you_mean
from engine.compile.environments import registry
from engine.compile.environments.places import (
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
from engine.compile.environments.registry import Entry
from engine.wire.vendor import ToolkitEnvironment, ToolkitState

__all__ = [
    "DEFAULT_NAME",
    "INSTALL",
    "environment_of",
    "find",
    "find_any",
    "free_name",
    "known",
    "named",
]

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
    found = [environment_of(entry) for entry in _entries()]
    marked = _with_defaults(found)
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
    if name is not None:
        found = named(name)
        if found.generation != generation:
            raise ToolkitError(
                f"The environment {name} has {PACKAGES[found.generation]}, and this chip needs "
                f"{PACKAGES[generation]}.",
                cause="The chip is of the other generation.",
                remedy="Name another environment: `rknntui vendor list` shows them.",
            )
    else:
        suited = [one for one in known() if one.generation == generation]
        if not suited:
            raise _none(generation)
        found = suited[0]  # the default comes first
    return _usable(found)


def find_any(name: str | None) -> ToolkitEnvironment:
    """The environment of a name, or the default of generation 2; whatever its state.

    Raises:
        ToolkitError: there is none.
    """
    if name is not None:
        return named(name)
    suited = [one for one in known() if one.generation == 2]
    if not suited:
        raise _none(2)
    return suited[0]


def named(name: str) -> ToolkitEnvironment:
    """The environment of a name, whatever its state.

    Raises:
        ToolkitError: there is none of that name.
    """
    found = {one.name: one for one in known()}
    if name not in found:
        raise ToolkitError(
            f"There is no toolkit's environment of the name {name!r}.",
            cause=did_you_mean(name, found),
            remedy="`rknntui vendor list` shows those that are known.",
        )
    return found[name]


def _none(generation: int) -> ToolkitError:
    return ToolkitError(
        f"There is no environment of the vendor's {PACKAGES[generation]}.",
        cause="None was made or adopted yet.",
        remedy=INSTALL[generation],
    )


def _usable(found: ToolkitEnvironment) -> ToolkitEnvironment:
    """The environment itself.

    Raises:
        ToolkitError: it is not to be used; says why and what to do.
    """
    if found.state in ("ready", "unchecked"):
        return found
    told = next((one for one in found.findings if one.severity == "error"), None)
    raise ToolkitError(
        told.what if told else f"The environment {found.name} in {found.folder} is {found.state}.",
        cause=told.cause if told else "",
        remedy=told.remedy if told else INSTALL[found.generation],
    )


def _entries() -> list[Entry]:
    """The rows of the registry, and the environments that need none."""
    listed = list(registry.read())
    given = given_folder()
    if given is not None and not any(Path(entry.folder) == given for entry in listed):
        # first, and so the one of that name, for who sets the variable
        listed.insert(0, _entry_of(DEFAULT_NAME, given))
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
    found = installed(folder)
    return Entry(
        name=name,
        folder=str(folder),
        python=str(python_of(folder)),
        generation=found.generation or 2,
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
    return ToolkitEnvironment(
        name=entry.name,
        folder=entry.folder,
        python=entry.python,
        python_version=here.python_version or entry.python_version,
        generation=here.generation or entry.generation,
        version=here.version or entry.version,
        managed=entry.managed,
        default=entry.default,
        state=state,
        findings=findings,
    )


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


def _with_defaults(found: list[ToolkitEnvironment]) -> list[ToolkitEnvironment]:
    """One default a generation: the variable's, else the marked, else the first that is usable."""
    given = given_folder()
    chosen = set()
    for generation in (1, 2):
        suited = [one for one in found if one.generation == generation]
        usable = [one for one in suited if one.state in ("ready", "unchecked")]
        ranked = [
            *(one for one in suited if given is not None and Path(one.folder) == given),
            *(one for one in suited if one.default),
            *usable,
            *suited,
        ]
        if ranked:
            chosen.add(ranked[0].name)
    return [replace(one, default=one.name in chosen) for one in found]
