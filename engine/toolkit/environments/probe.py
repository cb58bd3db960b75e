"""A look into an environment: its packages, and which of them can be imported."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from engine.base import confine
from engine.base.errors import ToolkitError
from engine.base.events import Reporter
from engine.base.process import exit_reason
from engine.base.text import sanitize
from engine.toolkit.environments.places import PACKAGES
from engine.toolkit.environments.programs import clean_environment, run

FACT_SECONDS = 60.0
"""How long an interpreter may take to say what it is."""
IMPORT_SECONDS = 240.0
"""How long all imports may take together: torch alone takes ten seconds on a cold disk."""

_SAID_LIMIT = 16 << 20
_FAR = Path(__file__).with_name("far_probe.py")


class Package(NamedTuple):
    """A package as it is installed."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """How an import went.

    Attributes:
        module: that was imported.
        error: what it raised; empty where it succeeded.
        missing: the module that was not found, where that was it.
        ended: how the process ended in it (``was killed by SIGILL``); empty where it did not.
    """

    module: str
    error: str = ""
    missing: str = ""
    ended: str = ""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return not self.error and not self.ended


@dataclass(frozen=True)
class Probe:
    """What an interpreter said.

    Attributes:
        version: ``3.8.18``.
        prefix: folder of the environment.
        machine, libc: ``x86_64``, ``glibc 2.36``.
        packages: normalized name -> what is installed.
        attempts: of the imports that were asked for, in order.
        said: the end of what the imports printed.
        executable: the interpreter as it knows itself; empty where that is no file.
    """

    version: str
    prefix: str
    machine: str
    libc: str
    packages: Mapping[str, Package] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    said: str = ""
    executable: str = ""

    @property
    def generation(self) -> int:
        """Of the toolkit there; 0 where there is none."""
        return next((n for n, package in PACKAGES.items() if package in self.packages), 0)

    @property
    def toolkit(self) -> str:
        """The version of the toolkit there."""
        return self.packages[PACKAGES[self.generation]].version if self.generation else ""


def probe(
    python: str, reporter: Reporter, modules: Sequence[str] = (), *, seconds: float | None = None
) -> Probe:
    """Ask an interpreter what it has; nothing of it is loaded into this process.

    What is imported is confined to a folder that goes afterwards.

    Args:
        python: the interpreter.
        reporter: asked for cancellation.
        modules: to import one after the other; what they raise is told.
        seconds: until it is ended; None: :data:`FACT_SECONDS`, with modules
            :data:`IMPORT_SECONDS` more.

    Raises:
        ToolkitError: it cannot be started, is no Python 3.6 or later, or says nothing of use.
        JobCancelledError: the user cancelled.
    """
    limit = seconds if seconds is not None else FACT_SECONDS + (IMPORT_SECONDS if modules else 0)
    with tempfile.TemporaryDirectory(prefix="rknntui-probe-") as name:
        folder = Path(name)
        log = folder / "log"
        lines: list[str] = []
        room = _SAID_LIMIT

        def take(line: str) -> None:
            nonlocal room
            room -= len(line) + 1
            if room < 0:
                raise _no_python(python, "says more than any Python would", lines[-1:])
            lines.append(line)

        variables = clean_environment() | {"HOME": name, "TMPDIR": name}
        ended = run(
            [python, "-I", "-B", str(_FAR), str(log), str(confine.__file__), *modules],
            reporter,
            environment=variables,
            on_line=take,
            folder=folder,
            seconds=limit,
        )
        said = _end_of(log)
    how = "did not end in time" if ended.late else exit_reason(ended.returncode)[0]
    return _read(python, lines, how, said)


def _no_python(python: str, how: str, said: Sequence[str]) -> ToolkitError:
    last = next((line for line in reversed(said) if line.strip()), "")
    return ToolkitError(
        f"{python} does not answer as a Python: it {how}.",
        cause=f"It said: {sanitize(last, 300)}" if last else "It said nothing.",
        remedy="Name the interpreter (bin/python) of a Python 3.6 or later.",
    )


def _read(python: str, lines: Sequence[str], how: str, said: str) -> Probe:
    facts: Mapping[str, Any] | None = None
    attempts: list[Attempt] = []
    begun = ""
    for line in lines:
        message = _message(line)
        if isinstance(message.get("facts"), dict):
            facts = message["facts"]
        elif isinstance(message.get("begin"), str):
            begun = message["begin"]
        elif isinstance(message.get("module"), str) and message["module"] == begun:
            error, missing = message.get("error"), message.get("missing")
            attempts.append(
                Attempt(begun, sanitize(str(error or ""), 2000), sanitize(str(missing or ""), 200))
            )
            begun = ""
    if facts is None or "prefix" not in facts:
        raise _no_python(python, how, [*said.splitlines(), *lines])
    if begun:
        attempts.append(Attempt(begun, ended=how))
    executable = str(facts.get("executable", ""))
    return Probe(
        version=sanitize(str(facts.get("version", "")), 40),
        prefix=os.path.normpath(str(facts["prefix"])),
        machine=sanitize(str(facts.get("machine", "")), 40),
        libc=sanitize(" ".join(map(str, facts.get("libc") or ())), 40),
        packages=_packages(facts.get("distributions")),
        executable=executable if os.access(executable, os.X_OK) else "",
        attempts=tuple(attempts),
        said=said,
    )


def _packages(rows: Any) -> dict[str, Package]:
    packages: dict[str, Package] = {}
    for row in rows.values() if isinstance(rows, dict) else ():
        if isinstance(row, dict) and isinstance(row.get("requires"), list):
            name = sanitize(str(row.get("name", "")), 100)
            version = sanitize(str(row.get("version", "")), 60)
            requires = tuple(str(one) for one in row["requires"][:500])
            packages[canonicalize_name(name)] = Package(name, version, requires)
    return packages


def _message(line: str) -> Mapping[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _end_of(log: Path) -> str:
    try:
        with log.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 4000))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
