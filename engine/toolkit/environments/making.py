"""Making an environment of rknn-toolkit2: venv, packages that work together, a first import.

Its programs, venv and pip, have one log; where one fails, it tells why.
"""

from __future__ import annotations

import contextlib
import platform
import re
import shutil
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.utils import canonicalize_name

from engine.base.errors import EngineError, ToolkitError
from engine.base.events import (
    LogLine,
    NullReporter,
    Progress,
    Reporter,
    StageFinished,
    StageStarted,
)
from engine.base.files import output_errors
from engine.base.paths import private_file, private_folder, state_folder
from engine.base.text import human_bytes, sanitize
from engine.toolkit.environments.checking import examine
from engine.toolkit.environments.places import (
    UNFINISHED,
    clear,
    given_folder,
    held,
    python_of,
    read_ready,
    remove_folder,
    site_time,
    toolkits_folder,
    write_ready,
)
from engine.toolkit.environments.programs import (
    check_platform,
    clean_environment,
    dying_with_us,
    find_python,
    run,
)
from engine.toolkit.environments.registry import (
    DEFAULT_NAME,
    Entry,
    check_name,
    environment_of,
    known,
    remember,
    taken_error,
)
from engine.toolkit.environments.wheels import Pins, Wheel, check_wheels, pins_of
from engine.wire.vendor import ToolkitEnvironment, ToolkitInstallParams

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
_FULL = 8 << 20


@dataclass(frozen=True)
class Plan:
    """What is made, where and from what.

    Attributes:
        name: of the environment.
        folder: of it.
        pins: its packages.
        python: the interpreter that makes it.
        wheels: what is installed, where nothing is taken from a network; else empty.
        index: a further package index.
    """

    name: str
    folder: Path
    pins: Pins
    python: str
    wheels: tuple[Wheel, ...]
    index: str | None

    def pip_arguments(self) -> tuple[list[str], list[str]]:
        """What pip is told to install in its two steps."""
        first, second = list(self.pins.first), ["--no-deps", *self.pins.second]
        if self.wheels:
            # as they were found: torch asks for a newer setuptools than the toolkit works with, and
            # without an index pip cannot take first the one and then the other
            files = {str(one.path): one.name in self.pins.late for one in self.wheels}
            first = ["--no-deps", *(path for path, is_late in files.items() if not is_late)]
            second = ["--no-deps", *(path for path, is_late in files.items() if is_late)]
            # --isolated: no index and no folder of the user's configuration counts
            options = ["--isolated", "--no-index", "--no-cache-dir"]
        else:
            options = ["--extra-index-url", self.index] if self.index else []
        return [*options, *first], [*options, *second]

    @property
    def log(self) -> Path:
        """Everything that pip says."""
        return state_folder() / "logs" / f"vendor-{self.name}.log"


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
    folder = Path(params.folder).absolute() if params.folder else None
    if folder is None and params.name is None:
        folder = given_folder()
    name = check_name(params.name) if params.name else None
    if folder is not None:
        there = next((one.name for one in known_ones.values() if Path(one.folder) == folder), None)
        if there is not None and name in (None, there):
            return there, folder
        if name in known_ones:
            raise taken_error(name, known_ones[name].folder)
        return name or _name_for(version, known_ones), folder
    name = name or _name_for(version, known_ones)
    if name not in known_ones:
        return name, toolkits_folder() / name
    if not known_ones[name].managed:
        raise taken_error(name, known_ones[name].folder)
    return name, Path(known_ones[name].folder)


def _name_for(version: str, known_ones: dict[str, ToolkitEnvironment]) -> str:
    """``toolkit2``, or with the version where another toolkit has that name."""
    other = known_ones.get(DEFAULT_NAME)
    if other is None or (other.managed and other.version in ("", version)):
        return DEFAULT_NAME
    return f"{DEFAULT_NAME}-{version}"


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
    with output_errors(plan.log):
        private_folder(plan.log.parent)
        private_file(plan.log).close()
    step = partial(_run_step, plan, reporter, (lock,) if lock >= 0 else ())
    step(0, [plan.python, "venv", str(plan.folder)])
    temporary = plan.folder / _TEMPORARY
    temporary.mkdir()
    first, second = plan.pip_arguments()
    late = len(plan.pins.second)
    # before pip looks for them packages are known as far as the pins go
    step(1, [*pip, *first], len(plan.wheels or plan.pins.all) - late, temporary)
    step(2, [*pip, *second], late, temporary)
    shutil.rmtree(temporary)
    with _stage(reporter, 3):
        environment = examine(environment_of(_entry(plan)), reporter, keep=False)
        if environment.state != "ready":
            raise _not_importable(environment, plan)
    write_ready(plan.folder, plan.pins.key)


@contextlib.contextmanager
def _stage(reporter: Reporter, index: int) -> Iterator[None]:
    stage, title = _STAGES[index]
    begun = time.monotonic()
    reporter.emit(StageStarted(stage, title, index, len(_STAGES)))
    yield
    reporter.emit(StageFinished(stage, time.monotonic() - begun))


def _not_importable(environment: ToolkitEnvironment, plan: Plan) -> ToolkitError:
    first = next(iter(environment.findings), None)
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
            remove_folder(folder, NullReporter())


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
    with contextlib.suppress(EngineError):
        remember(entry)
    return next((one for one in known() if Path(one.folder) == plan.folder), environment_of(entry))


# ---------------------------------------------------------------------------------- venv and pip


def _run_step(
    plan: Plan,
    reporter: Reporter,
    keep: Sequence[int],
    index: int,
    command: Sequence[str],
    total: int = 0,
    temporary: Path | None = None,
) -> None:
    """Run a module of an interpreter as a stage.

    Args:
        plan: what is made; its log takes all that is said.
        reporter: told of progress, package by package, as pip tells it.
        keep: descriptors that it inherits.
        index: of the stage.
        command: interpreter, module and arguments.
        total: packages that it will take.
        temporary: folder for its files: a wheel of 800 MB must not fill a small /tmp.

    Raises:
        ToolkitError: it failed; says why, as far as its output tells.
        JobCancelledError: the user cancelled.
    """
    python, module, *arguments = command
    stage, title = _STAGES[index]
    lines: deque[str] = deque(maxlen=40)
    seen: set[str] = set()

    def take(line: str) -> None:
        log.write(line.encode("utf-8", "replace") + b"\n")
        lines.append(line)
        note = ""
        if match := _TAKEN.match(line):
            note = match[1] or match[2]
            seen.add(canonicalize_name(re.split(r"[=<>!~\[(-]", note)[0]))
        elif match := _LOADING.match(line):
            note = f"{match[1]} {match[2]}"
        elif line.startswith("Installing collected packages"):
            note = "unpacking"
        if note:
            reporter.emit(Progress(stage, min(len(seen), total), total, sanitize(note, 120)))

    variables = clean_environment() | ({"TMPDIR": str(temporary)} if temporary else {})
    with _stage(reporter, index), private_file(plan.log, append=True) as log:
        program = dying_with_us(python, module, *arguments)
        ended = run(program, reporter, environment=variables, on_line=take, keep=keep)
        if ended.returncode:
            raise _failed(title, lines, plan)


_TAKEN = re.compile(r"\s*(?:Collecting ([^\s(;]{1,100})|Processing \S*/([^\s/]{1,200})\.whl)")
_LOADING = re.compile(r"\s+(?:Downloading|Using cached) (?:\S*/)?(\S{1,200}\.whl) (\([^)]{1,30}\))")


_CAUSES = (
    (
        re.compile(r"NewConnectionError|ConnectTimeout|ReadTimeout|name resolution|ProxyError"),
        "The package index cannot be reached.",
        "Look at the network and the proxy, or install from a folder of wheels: --wheels. ",
    ),
    (
        re.compile(r"No matching distribution found for (\S{1,100})"),
        "There is no wheel of {} for this Python and machine.",
        "Look whether the index has it, or take another Python with --python. ",
    ),
)
"""What pip says, what it means and what helps."""


def _failed(what: str, lines: Collection[str], plan: Plan) -> ToolkitError:
    """Why pip or venv failed, by what it said last."""
    text = "\n".join(lines)
    if _is_full(plan.folder) or "No space left on device" in text or "Disk quota" in text:
        return ToolkitError(
            f"{what} failed.",
            cause="The disk or the quota is full.",
            remedy="Free space, or choose a folder on another disk with --folder.",
        )
    for pattern, cause, remedy in _CAUSES:
        if match := pattern.search(text):
            return ToolkitError(
                f"{what} failed.",
                cause=cause.format(*map(sanitize, match.groups())),
                remedy=f"{remedy}All that was said is in {plan.log}.",
            )
    last = [line for line in lines if line.strip()][-3:]
    said = " ".join(line for line in lines if line.startswith("ERROR:")) or " ".join(last)
    return ToolkitError(
        f"{what} failed.",
        cause=f"It said: {sanitize(said, 600)}",
        remedy=f"All that it said is in {plan.log}.",
    )


def _is_full(folder: Path) -> bool:
    """Whether hardly anything more fits there: what venv runs does not say so itself."""
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < _FULL
    return False
