"""Compiling: the chips that it is for, how it is done, and what is said of what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine import compiled_facts, known_chips, sanitize
from engine.wire.compile import COMPILE, Compiled, CompileParams
from engine.wire.formats import PROGRESS
from rknntui.keys.actions import with_keys
from rknntui.keys.commandline import command_with
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.wrap import finding_lines, told, wrapped

if TYPE_CHECKING:
    from engine import StageProgress
    from engine.wire.vendor import ToolkitEnvironment
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

APPLIES = "chips.apply-remedy"
_ACCEPTS = "--accept-difference"
_HERE = "Here {chips.run} asks again how it is compiled: tick accept-difference there."
COMPILE_FORM = Form(
    "Compile",
    (CompileParams,),
    {"chips": "marked in the table", "force": "asked for where a file is there"},
)


class Targets:
    """The chips: what is known of them, which are marked, and how they are compiled for.

    Args:
        session: has the model, the recipe, what was compiled and the jobs.

    Attributes:
        facts: of all chips, in their order.
        marked: those that are compared, and compiled for.
        settings: quantizer, samples and toolkit.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.facts = {row.name: row for row in known_chips()}
        self.marked: dict[str, None] = {}
        self.settings = CompileParams(recipe={}, path="")

    def mark(self, *names: str) -> None:
        """Mark chips; where all of them are, none."""
        every = all(name in self.marked for name in names)
        for name in names:
            if every:
                del self.marked[name]
            else:
                self.marked[name] = None

    def wanted(self, looked_at: str) -> tuple[str, ...]:
        """The chips that are compiled for: those marked, else the target's, else that one."""
        marked = tuple(name for name in self.facts if name in self.marked)
        return marked or (self._session.chip or looked_at,)

    @property
    def outdated(self) -> bool:
        """Whether the recipe changed since the last compilation."""
        last = self._session.last_of(COMPILE)
        return last is not None and last[0].recipe != self._session.recipe

    @property
    def job(self) -> JobView | None:
        """The compilation of the open model that runs, else the last one of this run."""
        return self._session.jobs.newest(COMPILE.name, ours=True)

    @property
    def states(self) -> dict[str, str]:
        """Chip -> what became of it, or what a running compilation does for it."""
        states = {name: _ended(row) for name, row in self._session.compilations.items()}
        if self.job is not None and self.compiling:
            states |= chip_states(self.job, self.compiling)
        return states

    @property
    def compiling(self) -> tuple[str, ...]:
        """The chips of the open model that are being compiled for."""
        job = self.job
        chips = job.params.get("chips") if job is not None and job.running else ()
        return tuple(map(str, chips)) if isinstance(chips, list | tuple) else ()


def _ended(compiled: Compiled) -> str:
    if compiled.problem:
        return "✗ failed"
    return "✓ cached" if compiled.cached else "✓ compiled"


def chip_states(job: JobView, chips: Iterable[str]) -> dict[str, str]:
    """What a compilation that runs does for each chip; stages name theirs."""
    words = {name: re.split(r"[\s:-]", f"{name} {s.title}") for name, s in job.stages.items()}
    return {
        chip: _state([s for name, s in job.stages.items() if chip in words[name]]) for chip in chips
    }


def _state(stages: list[StageProgress]) -> str:
    if not stages:
        return "waiting"
    running = next((stage for stage in stages if stage.seconds is None), None)
    if running is None:
        return "✓ compiled"
    return f"▶ {PROGRESS.text(running.fraction)}" if running.total else "▶ compiles"


def file_name(workspace: Workspace, chips: Sequence[str]) -> str:
    """The name that is proposed; ``{chip}`` stands for the chip where there are several."""
    chip = chips[0] if len(chips) == 1 else "{chip}"
    return f"{workspace.session.stem}-{chip}.rknn"


def compile_command(workspace: Workspace, targets: Targets, chips: Sequence[str]) -> list[str]:
    """The command that compiles so; empty where no model is open."""
    if workspace.session.container is not None:
        return []
    request = replace(targets.settings, chips=tuple(chips), path=file_name(workspace, chips))
    return command_with("compile", workspace.session, request)


def ask_compile(
    workspace: Workspace,
    targets: Targets,
    chips: tuple[str, ...],
    toolkits: Sequence[ToolkitEnvironment],
) -> None:
    """Ask where the compiled models go and how they are made, then start the job."""
    names = ", ".join(chips)

    def start(asked: CompileParams) -> None:
        targets.settings = replace(asked, refresh=False)
        title = f"compile {sanitize(workspace.session.stem, 60)} for {names}"
        workspace.start_writing(COMPILE, asked, title, *_files(asked.path, chips))

    path = str(Path.cwd() / file_name(workspace, chips))
    recipe = dict(workspace.session.recipe)
    now = replace(targets.settings, recipe=recipe, chips=chips, path=path)
    choices = {"toolkit": [sanitize(row.name, 40) for row in toolkits]}
    COMPILE_FORM.ask(workspace.app, now, then=start, choices=choices, title=f"Compile for {names}")


def _files(path: str, chips: Sequence[str]) -> list[str]:
    """The files that would be written; a folder's own names are for the engine to look at."""
    if "{chip}" in path:
        return [path.replace("{chip}", chip) for chip in chips]
    return [path] if len(chips) == 1 and not Path(path).is_dir() else []


# What is said of what came of it.


def error_lines(error: Mapping[str, str | int], width: int, of: str = "") -> list[Line]:
    """What, likely cause and fix of an error; ``of``: whose it is."""
    what, cause, remedy = (
        sanitize(str(error.get(part) or ""), 2000) for part in ("what", "cause", "remedy")
    )
    lines = wrapped(f"✗ {of}{what}", width, "bad")
    lines += wrapped(f"Likely cause: {cause}", width, "dim") if cause else []
    return lines + (wrapped(f"Fix: {remedy}", width, "good") if remedy else [])


def failed_lines(job: JobView | None, width: int) -> list[Line]:
    """Why the last job made nothing."""
    if job is None or job.running or job.error is None or job.state == "cancelled":
        return []
    return error_lines(job.error, width)


def compiled_lines(found: Compiled | None, width: int) -> list[Line]:
    """What became of a chip: why nothing, or what was found, the second opinion and the file."""
    if found is None:
        return []
    lines: list[Line] = []
    if found.problem:
        error = {"what": found.problem, "cause": found.cause, "remedy": found.remedy}
        lines += error_lines(error, width, f"{found.chip}: ")
        lines += wrapped(with_keys(_HERE), width, "good") if _ACCEPTS in found.remedy else []
    # a warning stands on the first line: a low screen has few
    warnings = [finding for finding in found.findings if finding.severity != "info"]
    lines += finding_lines(warnings, width, APPLIES) + told(compiled_facts(found), width, "")
    rest = [finding for finding in found.findings if finding.severity == "info"]
    return lines + finding_lines(rest, width, APPLIES)
