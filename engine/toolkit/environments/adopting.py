"""Environments that the user made: taken in by name, and forgotten; and which is the default."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from engine.base.errors import ToolkitError, UsageError
from engine.base.events import Reporter
from engine.toolkit.environments.checking import look_into
from engine.toolkit.environments.places import (
    ENVIRONMENT_VARIABLE,
    folder_size,
    given_folder,
    held,
    is_managed,
    python_of,
    remove_folder,
    site_time,
)
from engine.toolkit.environments.registry import (
    Entry,
    changed,
    check_name,
    find_any,
    free_name,
    known,
    named,
    taken_error,
)
from engine.wire.vendor import (
    ToolkitAdoptParams,
    ToolkitEnvironment,
    ToolkitName,
    ToolkitRemoved,
)


def adopt(params: ToolkitAdoptParams, reporter: Reporter) -> ToolkitEnvironment:
    """Take in an environment with rknn-toolkit2 or rknn-toolkit; nothing is written there.

    One whose toolkit cannot be imported is taken in too, as ``broken``, with what is wrong.

    Raises:
        ToolkitError: there is no interpreter, or no toolkit in its environment.
        UsageError: the name cannot be used.
        OutputError: the registry cannot be written.
        JobCancelledError: the user cancelled.
    """
    python = _interpreter(params.python)
    if params.name is not None:
        check_name(params.name)
    seen, findings = look_into(python, reporter)
    generation = seen.generation
    if not generation:
        raise ToolkitError(findings[0].what, cause=findings[0].cause, remedy=findings[0].remedy)
    python = seen.executable or python  # a shim of pyenv leads to another one tomorrow
    known_ones = {one.name: one for one in known()}
    before = next((one for one in known_ones.values() if one.python == python), None)
    if before is not None and before.managed:
        raise UsageError(
            f"{python} is of the environment {before.name}, which this program made.",
            remedy=f"Use it by that name; `rknntui vendor check {before.name}` tries it.",
        )
    name = params.name or (before.name if before else free_name(f"toolkit{generation}", known_ones))
    if name in known_ones and known_ones[name].python != python:
        raise taken_error(name, known_ones[name].folder)
    entry = Entry(
        name=name,
        folder=seen.prefix,
        python=python,
        python_version=seen.version,
        generation=generation,
        version=seen.toolkit,
        checked=True,
        ok=not any(one.severity == "error" for one in findings),
        site=site_time(Path(seen.prefix)),
        findings=findings,
    )
    with changed() as entries:
        for other in [n for n, one in entries.items() if one.python == python]:
            del entries[other]  # the same one under its old name
        entries[name] = entry
    return named(name)


def _interpreter(python: str) -> str:
    """The path of an interpreter; its links stay, as they say which environment it is of."""
    path = Path(python).expanduser()
    if path.is_dir():
        places = [python_of(path), path / "bin" / "python3"]
        program = next((str(one) for one in places if one.exists()), None)
        if program is None:
            raise ToolkitError(
                f"{python} has no bin/python.",
                cause="It is no Python environment, or the Python that it was made with is gone.",
                remedy="Name the folder of an environment, or its interpreter.",
            )
    else:
        program = str(path) if path.exists() else shutil.which(python)
    if program is None or not os.access(program, os.X_OK):
        raise ToolkitError(
            f"There is no program {python}.",
            cause="The path is misspelled, or it may not be run.",
            remedy="Name the interpreter (bin/python) of the environment, or its folder.",
        )
    return os.path.abspath(program)  # noqa: PTH100


def remove(params: ToolkitName, reporter: Reporter) -> ToolkitRemoved:
    """Remove an environment of ours; forget one that was adopted.

    Raises:
        ToolkitError: there is none of that name, or it is in use.
        OutputError: it cannot be removed.
        JobCancelledError: the user cancelled; it is ``unfinished`` then.
    """
    environment = find_any(params.name)
    folder = Path(environment.folder)
    files = environment.managed and is_managed(folder)
    freed = 0
    if files:
        with held(folder, alone=True):
            freed = folder_size(folder)
            remove_folder(folder, reporter)
        (folder.parent / f"{folder.name}.lock").unlink(missing_ok=True)
    with changed() as entries:
        listed = entries.pop(environment.name, None)
    if not files and listed is None and folder == given_folder():
        raise ToolkitError(
            f"{environment.folder} is named by {ENVIRONMENT_VARIABLE} and was not made "
            "by this program.",
            cause="It is known as long as that variable names it.",
            remedy=f"Run: unset {ENVIRONMENT_VARIABLE}",
        )
    return ToolkitRemoved(environment.name, environment.folder, files_removed=files, freed=freed)


def make_default(name: str | None) -> ToolkitEnvironment:
    """Have an environment used for its generation where none is named.

    Args:
        name: of the environment; None: the default of generation 2, which is marked as such.

    Raises:
        ToolkitError: there is none of that name.
        OutputError: the registry cannot be written.
    """
    environment = find_any(name)
    name = environment.name
    with changed() as entries:
        for other, entry in list(entries.items()):
            if entry.generation == environment.generation:
                entries[other] = replace(entry, default=other == name)
        if name not in entries:
            entries[name] = Entry.of(replace(environment, default=True))
    return named(name)
