"""The programs that make an environment: venv and pip, with one log, and why they failed."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ToolkitError
from engine.base.events import Progress, Reporter
from engine.base.paths import private_file, state_folder
from engine.base.text import sanitize
from engine.compile.environments.children import dying_with_us, run
from engine.compile.environments.pins import Pins
from engine.compile.environments.pythons import clean_environment
from engine.compile.environments.requirements import normal_name
from engine.compile.environments.wheels import Wheel

__all__ = ["Plan", "Steps"]


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

    @property
    def count(self) -> int:
        """Packages, as far as they are known before pip looks for them."""
        return len(self.wheels or self.pins.all)

    def pip_arguments(self) -> tuple[list[str], list[str]]:
        """What pip is told to install in its two steps."""
        first, second = list(self.pins.first), ["--no-deps", *self.pins.second]
        if self.wheels:
            # as they were found: torch asks for a newer setuptools than the toolkit works with, and
            # without an index pip cannot take first the one and then the other
            late = {normal_name(one.partition("==")[0]) for one in self.pins.second}
            files = {str(one.path): one.name in late for one in self.wheels}
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


_FULL = 8 << 20


class Steps:
    """Programs that make an environment, one after the other, with one log."""

    def __init__(self, plan: Plan, reporter: Reporter, lock: int, temporary: Path) -> None:
        self._plan, self._reporter = plan, reporter
        self._keep = (lock,) if lock >= 0 else ()
        # a wheel of 800 MB must not fill a small /tmp
        self._environment = clean_environment() | {"TMPDIR": str(temporary)}
        self._stage, self._total = "", 0
        self._seen: set[str] = set()

    def run(self, stage: str, what: str, command: Sequence[str], total: int = 0) -> None:
        """Run a module of an interpreter.

        Args:
            stage: that its progress is of.
            what: it does, for errors.
            command: interpreter, module and arguments.
            total: packages that it will take.

        Raises:
            ToolkitError: it failed; says why, as far as its output tells.
            JobCancelledError: the user cancelled.
        """
        python, module, *arguments = command
        self._stage, self._total = stage, total
        self._seen.clear()
        told: list[str] = []
        environment = dict(self._environment)
        if module == "venv":
            environment.pop("TMPDIR")  # it lies in what is being made
        with private_file(self._plan.log, append=True) as log:

            def take(line: str) -> None:
                log.write(line.encode("utf-8", "replace") + b"\n")
                told.append(line)
                del told[:-40]
                self._tell(line)

            ended = run(
                dying_with_us(python, module, *arguments),
                self._reporter,
                environment=environment,
                on_line=take,
                keep=self._keep,
            )
        if ended.returncode:
            raise _failed(what, told, self._plan)

    def _tell(self, line: str) -> None:
        """Progress, package by package, as pip tells it."""
        if found := _TAKEN.match(line):
            name = found[1] or found[2]
            self._seen.add(normal_name(re.split(r"[=<>!~\[(-]", name)[0]))
            self._note(name)
        elif found := _LOADING.match(line):
            self._note(f"{found[1]} {found[2]}")
        elif line.startswith("Installing collected packages"):
            self._note("unpacking")

    def _note(self, text: str) -> None:
        done = min(len(self._seen), self._total)
        self._reporter.emit(Progress(self._stage, done, self._total, sanitize(text, 120)))


_TAKEN = re.compile(r"\s*(?:Collecting ([^\s(;]{1,100})|Processing \S*/([^\s/]{1,200})\.whl)")
_LOADING = re.compile(r"\s+(?:Downloading|Using cached) (?:\S*/)?(\S{1,200}\.whl) (\([^)]{1,30}\))")


def _failed(what: str, told: Sequence[str], plan: Plan) -> ToolkitError:
    """Why pip or venv failed, by what it said last."""
    text = "\n".join(told)
    last = [line for line in told if line.strip()][-3:]
    said = " ".join(line for line in told if line.startswith("ERROR:")) or " ".join(last)
    cause, remedy = f"It said: {sanitize(said, 600)}", f"All that it said is in {plan.log}."
    if _is_full(plan.folder) or "No space left on device" in text or "Disk quota" in text:
        cause = "The disk or the quota is full."
        remedy = "Free space, or choose a folder on another disk with --folder."
    elif re.search(
        r"NewConnectionError|ConnectTimeout|ReadTimeout|name resolution|ProxyError", text
    ):
        cause = "The package index cannot be reached."
        remedy = (
            "Look at the network and the proxy, or install from a folder of wheels: --wheels. "
            f"All that was said is in {plan.log}."
        )
    elif found := re.search(r"No matching distribution found for (\S{1,100})", text):
        cause = f"There is no wheel of {sanitize(found[1])} for this Python and machine."
        remedy = (
            "Look whether the index has it, or take another Python with --python. "
            f"All that was said is in {plan.log}."
        )
    return ToolkitError(f"{what} failed.", cause=cause, remedy=remedy)


def _is_full(folder: Path) -> bool:
    """Whether hardly anything more fits there: what venv runs does not say so itself."""
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < _FULL
    return False
