"""What is compiled and how: chips, quantizer, samples of the second opinion, toolkit."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.compile import COMPILE, CompileParams
from rknntui.keys.commandline import command_with
from rknntui.screens.deploy.forms import stem_of
from rknntui.screens.dialogs.new_file import ask_overwrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.wire.vendor import ToolkitEnvironment
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.state import Session

Settle = Callable[[CompileParams], None]
_AUTO = "automatic"


def settings_words(now: CompileParams) -> tuple[str, str, str, str]:
    """Quantizer, second opinion, whether a difference is accepted, and toolkit: for the line on
    top, empty where it would tell the default.
    """
    count = now.samples
    if isinstance(count, int):
        opinion = f"second opinion: {count} sample{'' if count == 1 else 's'}" if count else ""
    else:
        opinion = f"second opinion on {sanitize(Path(count).name, 40)}"
    return (
        f"quantizer {now.quantizer or _AUTO}",
        opinion or "no second opinion",
        "differences accepted" if now.accept_difference else "",
        f"toolkit {sanitize(now.toolkit, 40)}" if now.toolkit else "",
    )


def compile_command(session: Session, request: CompileParams, path: str) -> list[str]:
    """The command that compiles so; empty where no model is open."""
    if session.container is not None:
        return []
    return command_with("compile", session, replace(request, path=path))


def file_name(workspace: Workspace, chips: Sequence[str]) -> str:
    """The name that is proposed; ``{chip}`` stands for the chip where there are several."""
    chip = chips[0] if len(chips) == 1 else "{chip}"
    return f"{stem_of(workspace)}-{chip}.rknn"


def ask_start(workspace: Workspace, request: CompileParams, *, refresh: bool = False) -> None:
    """Ask where the compiled models go, and before one is replaced; then start the job."""
    from rknntui.screens.dialogs.picker import PathPicker

    recipe = dict(workspace.session.recipe)
    title = f"compile {sanitize(stem_of(workspace), 60)} for {', '.join(request.chips)}"

    def start(path: str, *, force: bool) -> None:
        params = replace(request, recipe=recipe, path=path, refresh=refresh, force=force)
        workspace.start_job(COMPILE, params, title)

    def chosen(path: str | None) -> None:
        if path is not None:
            there = [file for file in _files(path, request.chips) if os.path.lexists(file)]
            ask_overwrite(workspace.app, there, lambda force: start(path, force=force))

    proposed = str(Path.cwd() / file_name(workspace, request.chips))
    heading = "Compile to" + (" ({chip}: the chip)" if len(request.chips) > 1 else "")
    workspace.app.push_screen(PathPicker(heading, proposed, folders=True, new=True), chosen)


def _files(path: str, chips: Sequence[str]) -> list[str]:
    """The files that would be written; a folder's own names are for the engine to look at."""
    if "{chip}" in path:
        return [path.replace("{chip}", chip) for chip in chips]
    return [path] if len(chips) == 1 and not Path(path).is_dir() else []


def ask_settings(
    workspace: Workspace,
    known: Sequence[ToolkitEnvironment],
    now: CompileParams,
    then: Settle,
) -> None:
    """Ask how it is compiled: quantizer, second opinion, toolkit, time limit."""
    from rknntui.screens.dialogs.request import RequestDialog

    names = [sanitize(row.name, 40) for row in known]
    hints = {
        "quantizer": "ours, vendor; empty: ours where the dtype has a way through Q/DQ pairs",
        "samples": "of the second opinion: a number, or a folder of pictures; 0: none",
        "toolkit": f"{', '.join(names) or 'none is known'}; empty: the generation's default",
        "seconds": "of one step of the toolkit; empty: no limit",
    }

    def check(asked: CompileParams) -> CompileParams:
        if asked.toolkit is not None and asked.toolkit not in names:
            raise ValueError(f"There is no toolkit {asked.toolkit!r}: {hints['toolkit']}.")
        return asked

    def chosen(asked: CompileParams | None) -> None:
        if asked is not None:
            then(asked)

    dialog = RequestDialog("How it is compiled", now, list(hints), hints, check)
    workspace.app.push_screen(dialog, chosen)
