"""Trying an environment: its toolkit is imported in a process of its own."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from engine.base.errors import EngineError, ToolkitError
from engine.base.events import Progress, Reporter
from engine.base.findings import Finding
from engine.compile.environments import registry
from engine.compile.environments.judging import generation_of, judge, modules_to_import
from engine.compile.environments.known import find_any
from engine.compile.environments.places import site_time
from engine.compile.environments.probe import Probe, probe
from engine.compile.environments.registry import Entry
from engine.wire.vendor import ToolkitEnvironment

__all__ = ["check", "examine", "look_into"]


def check(name: str | None, reporter: Reporter) -> ToolkitEnvironment:
    """Import the toolkit of an environment, and name the package that keeps it from that.

    Args:
        name: of the environment; None: the default of generation 2.

    Raises:
        ToolkitError: there is none of that name.
        JobCancelledError: the user cancelled.
    """
    found = find_any(name)
    if found.state in ("missing", "unfinished"):
        return found
    return examine(found, reporter)


def examine(
    environment: ToolkitEnvironment, reporter: Reporter, *, keep: bool = True
) -> ToolkitEnvironment:
    """Try an environment.

    Args:
        keep: whether the registry remembers what came out.

    Returns:
        It with state ``ready`` or ``broken`` and what was found.

    Raises:
        JobCancelledError: the user cancelled.
    """
    site = site_time(Path(environment.folder))
    try:
        seen, findings = look_into(environment.python, reporter)
    except ToolkitError as error:
        seen, findings = None, (Finding.of_error("toolkit-python", environment.name, error),)
    broken = any(one.severity == "error" for one in findings)
    found = replace(environment, state="broken" if broken else "ready", findings=findings)
    if seen is not None:
        generation, version = generation_of(seen)
        found = replace(
            found,
            python_version=seen.version,
            generation=generation or environment.generation,
            version=version or environment.version,
        )
    if keep:
        with contextlib.suppress(EngineError):  # a full disk: what was found is told anyway
            _remember(found, site)
    return found


def look_into(python: str, reporter: Reporter) -> tuple[Probe, tuple[Finding, ...]]:
    """What an interpreter has, and what is wrong with its toolkit.

    Raises:
        ToolkitError: it is no Python 3.6 or later.
        JobCancelledError: the user cancelled.
    """
    seen = probe(python, reporter)
    modules = modules_to_import(seen)
    if modules:
        reporter.emit(Progress("vendor.check", 0, 1, f"{len(modules)} packages"))
        seen = probe(python, reporter, modules)
    return seen, judge(seen, python)


def _remember(found: ToolkitEnvironment, site: int) -> None:
    with registry.changed() as entries:
        before = entries.get(found.name)
        entries[found.name] = Entry(
            name=found.name,
            folder=found.folder,
            python=found.python,
            python_version=found.python_version,
            generation=found.generation,
            version=found.version,
            managed=found.managed,
            default=before is not None and before.default,
            checked=True,
            ok=found.state == "ready",
            site=site,
            findings=found.findings,
        )
