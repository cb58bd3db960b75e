"""Writing the report of an estimate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.wire.cost import COST_ESTIMATE
from rknntui.screens.dialogs.new_file import ask_new_file

if TYPE_CHECKING:
    from engine.wire.cost import EstimateParams, Estimates
    from rknntui.cost_report import Kind
    from rknntui.screens.base.workspace import Workspace

_KINDS: dict[str, Kind] = {"Chips": "chips", "Memory": "tensors"}


def ask_report(workspace: Workspace, params: EstimateParams, view: str) -> None:
    """Ask for a file, then estimate and write it; what it is about depends on the view.

    Args:
        workspace: that asks.
        params: chips and what is varied, with layers and tensors over time.
        view: that is shown.
    """
    session = workspace.session
    stem = Path(str(session.recipe.get("model") or session.path or "model")).stem
    kind = _KINDS.get(view, "layers")

    def write(path: str, force: bool) -> None:
        if problem := _problem(path):
            workspace.notify(problem, severity="warning", markup=False)
            return
        then = partial(_write, workspace, path, force, kind)
        workspace.ask(COST_ESTIMATE, params, then)

    start = Path.cwd() / f"{stem}-{kind}.html"
    ask_new_file(workspace.app, "Report (.html, .csv, .svg)", start, write)


def _problem(path: str) -> str:
    from rknntui.cost_report import REPORTS

    known = Path(path).suffix.lower() in REPORTS
    return "" if known else f"A report ends in {', '.join(REPORTS)}."


def _write(workspace: Workspace, path: str, force: bool, kind: Kind, found: Estimates) -> None:
    from engine import EngineError, atomic_write
    from rknntui.cost_report import report_text

    text = report_text(found, Path(path).suffix, kind)
    try:
        atomic_write(Path(path), text.encode("utf-8"), overwrite=force)
    except EngineError as error:
        workspace.workbench.show_error(error)
    else:
        workspace.notify(f"Wrote {path} (estimated).", markup=False)
