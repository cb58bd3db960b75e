"""Making an environment of rknn-toolkit2: venv, packages that work together, a first import."""

from __future__ import annotations

import contextlib
import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.base.errors import EngineError, ToolkitError, UsageError
from engine.base.events import (
    LogLine,
    NullReporter,
    Reporter,
    StageFinished,
    StageStarted,
)
from engine.base.files import output_errors
from engine.base.paths import private_file, private_folder
from engine.base.text import human_bytes
from engine.compile.environments import registry
from engine.compile.environments.checking import examine
from engine.compile.environments.clearing import clear, remove
from engine.compile.environments.known import DEFAULT_NAME, environment_of, known
from engine.compile.environments.pins import Pins, pins_of
from engine.compile.environments.places import (
    UNFINISHED,
    given_folder,
    held,
    python_of,
    read_ready,
    site_time,
    toolkits_folder,
    write_ready,
)
from engine.compile.environments.pythons import check_platform, find_python
from engine.compile.environments.registry import Entry
from engine.compile.environments.steps import Plan, Steps
from engine.compile.environments.wheels import check_wheels
from engine.wire.vendor import ToolkitEnvironment, ToolkitInstallParams

__all__ = ["install"]

_STAGES = (
    ("vendor.python", "Making the Python environment"),
    ("vendor.packages", "Installing what the toolkit needs"),
    ("vendor.toolkit", "Installing the toolkit"),
    ("vendor.check", "Importing the toolkit"),
)
_GIB = 1 << 30
_ROOM_PYTHON = 200 << 20
_ROOM_CPU = int(2.5 * _GIB)
"""What is taken while it is made with the CPU build of torch: 1.6 GiB stay."""
_ROOM_CUDA = 9 * _GIB
"""The same with the build of torch for CUDA, which PyPI has for x86-64: 5.6 GiB stay."""
_TEMPORARY = "tmp"


def install(params: ToolkitInstallParams, reporter: Reporter) -> ToolkitEnvironment:
    """Make an environment, unless it is there.

    It is made under a mark that only a successful import of the toolkit takes away: what was
    interrupted is never taken for it, and made again at the next start.

    Raises:
        ToolkitError: it cannot be made: no Python, no room, a wheel is missing, pip failed.
        UsageError: the name cannot be used.
        OutputError: its folder cannot be written.
        JobCancelledError: the user cancelled; nothing is left of it.
    """
    check_platform()
    suited = pins_of(params.version)
    name, folder = _target(params, suited[0].toolkit)
    if not params.again and (there := _found_ready(name, folder, suited, reporter)):
        return there
    python, version = find_python([one.python for one in suited], params.python)
    pins = next(one for one in suited if one.python == version)
    wheels = check_wheels(Path(params.wheels).absolute(), pins) if params.wheels else ()
    plan = Plan(name, folder, pins, python, wheels, params.index)
    with output_errors(folder), held(folder, alone=True) as lock:
        if not params.again and (there := _found_ready(name, folder, suited, reporter)):
            return there  # another program made it meanwhile
        existed = folder.exists()
        clear(folder, reporter)
        try:
            _check_room(plan, reporter)
            _make(plan, reporter, lock)
        except BaseException:
            _leave_nothing(folder, keep=existed)
            raise
    return _listed(plan)


# ------------------------------------------------------------------------------------------- where


def _target(params: ToolkitInstallParams, version: str) -> tuple[str, Path]:
    """Name and folder of what is made."""
    known_ones = {one.name: one for one in known()}
    given = Path(params.folder).absolute() if params.folder else None
    if given is None and params.name is None:
        given = given_folder()
    name = registry.check_name(params.name) if params.name else None
    if given is not None:
        there = next((one.name for one in known_ones.values() if Path(one.folder) == given), None)
        if there is not None and name in (None, there):
            return there, given
        if name is not None and name in known_ones:
            raise _taken(name, known_ones[name].folder)
        if name is None:
            name = _name_for(version, known_ones)
        return name, given
    if name is None:
        name = _name_for(version, known_ones)
    if name in known_ones:
        if not known_ones[name].managed:
            raise _taken(name, known_ones[name].folder)
        return name, Path(known_ones[name].folder)
    return name, toolkits_folder() / name


def _name_for(version: str, known_ones: dict[str, ToolkitEnvironment]) -> str:
    """``toolkit2``, or with the version where another toolkit has that name."""
    other = known_ones.get(DEFAULT_NAME)
    if other is None or (other.managed and other.version in ("", version)):
        return DEFAULT_NAME
    return f"{DEFAULT_NAME}-{version}"


def _taken(name: str, folder: str) -> UsageError:
    return UsageError(
        f"The name {name} is taken by the environment in {folder}.",
        cause="It was adopted, or made in another folder.",
        remedy=f"Give another one with --name, or run `rknntui vendor remove {name}` first.",
    )


def _found_ready(
    name: str, folder: Path, suited: Sequence[Pins], reporter: Reporter
) -> ToolkitEnvironment | None:
    """The finished environment of these versions, if it is there and can be used."""
    there = next((one for one in known() if Path(one.folder) == folder), None)
    if there is None or read_ready(folder).get("key") not in {one.key for one in suited}:
        return None
    if there.state == "unchecked":  # packages came or went since it was made
        there = examine(there, reporter)
    if there.state != "ready":
        return None
    reporter.emit(LogLine(f"{name} is there already, in {folder}."))
    return there


# -------------------------------------------------------------------------------------------- room


def _check_room(plan: Plan, reporter: Reporter) -> None:
    needed = _ROOM_CPU
    if plan.wheels:
        # unpacked they take three to four times their size
        needed = 4 * sum(one.path.stat().st_size for one in plan.wheels) + _ROOM_PYTHON
    folder = plan.folder
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ToolkitError(
            f"{folder} has room for {human_bytes(free)}, and {human_bytes(needed)} are needed.",
            cause="The toolkit with its packages, torch above all, is large.",
            remedy="Free space, or choose a folder on another disk with --folder.",
        )
    large = not plan.wheels and plan.index is None and platform.machine() == "x86_64"
    if large and free < _ROOM_CUDA:
        text = (
            f"{human_bytes(free)} are free. PyPI's torch for x86-64 is the build for CUDA, with "
            f"which up to {human_bytes(_ROOM_CUDA)} are needed; with the index "
            "https://download.pytorch.org/whl/cpu it takes a quarter of that."
        )
        reporter.emit(LogLine(text, "warning"))


# ------------------------------------------------------------------------------------------ making


def _make(plan: Plan, reporter: Reporter, lock: int) -> None:
    inner = str(python_of(plan.folder))
    pip = [inner, "pip", "install", "--no-input", "--disable-pip-version-check"]
    pip += ["--only-binary=:all:", "--no-warn-script-location", "--progress-bar=off"]
    temporary = plan.folder / _TEMPORARY
    with output_errors(plan.log):
        private_folder(plan.log.parent)
        private_file(plan.log).close()
    steps = Steps(plan, reporter, lock, temporary)
    with _stage(reporter, 0) as (stage, title):
        steps.run(stage, title, [plan.python, "venv", str(plan.folder)])
    temporary.mkdir()
    first, second = plan.pip_arguments()
    late = len(plan.pins.second)
    with _stage(reporter, 1) as (stage, title):
        steps.run(stage, title, [*pip, *first], plan.count - late)
    with _stage(reporter, 2) as (stage, title):
        steps.run(stage, title, [*pip, *second], late)
    shutil.rmtree(temporary)
    with _stage(reporter, 3):
        found = examine(environment_of(_entry(plan)), reporter, keep=False)
        if found.state != "ready":
            raise _not_importable(found, plan)
    write_ready(plan.folder, plan.pins.key)


@contextlib.contextmanager
def _stage(reporter: Reporter, index: int) -> Iterator[tuple[str, str]]:
    stage, title = _STAGES[index]
    begun = time.monotonic()
    reporter.emit(StageStarted(stage, title, index, len(_STAGES)))
    yield stage, title
    reporter.emit(StageFinished(stage, time.monotonic() - begun))


def _not_importable(found: ToolkitEnvironment, plan: Plan) -> ToolkitError:
    first = next(iter(found.findings), None)
    if first is None:
        return ToolkitError("The toolkit cannot be imported.", remedy=f"See {plan.log}.")
    # what was made is taken away again: a command within it would help nobody
    return ToolkitError(
        f"The toolkit was installed and cannot be used: {first.what}",
        cause=first.cause,
        remedy=first.remedy
        if "apt-get" in first.remedy
        else "Try another Python with --python. " + f"What pip said is in {plan.log}.",
    )


def _leave_nothing(folder: Path, *, keep: bool) -> None:
    """What was begun is taken away; where that fails the mark stays in it."""
    with contextlib.suppress(OSError, EngineError):
        if keep:
            clear(folder, NullReporter())
            (folder / UNFINISHED).unlink()
        else:
            remove(folder, NullReporter())


def _entry(plan: Plan) -> Entry:
    return Entry(
        name=plan.name,
        folder=str(plan.folder),
        python=str(python_of(plan.folder)),
        python_version=plan.pins.python,
        generation=2,
        version=plan.pins.toolkit,
        managed=True,
    )


def _listed(plan: Plan) -> ToolkitEnvironment:
    """Remember it as checked; the folder's own mark is enough where that cannot be written."""
    entry = replace(_entry(plan), checked=True, ok=True, site=site_time(plan.folder))
    with contextlib.suppress(EngineError), registry.changed() as entries:
        before = entries.get(plan.name)
        entries[plan.name] = replace(entry, default=before is not None and before.default)
    return next((one for one in known() if Path(one.folder) == plan.folder), environment_of(entry))
