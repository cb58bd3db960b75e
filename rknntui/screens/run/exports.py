"""Exporting the build: which form, to which file, and what was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import CONTAINER_NOTE, human_bytes, sanitize
from engine.wire.build import EXPORT, Exported, ExportForm, ExportParams
from rknntui.keys.text import with_keys
from rknntui.screens.dialogs.new_file import ask_new_file
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.app import App

    from rknntui.screens.base.workspace import Workspace
    from rknntui.widgets.strips import Line

__all__ = ["ask_export", "show_exported"]


def ask_export(workspace: Workspace) -> None:
    """Ask for the form, then for the file, and start the job."""
    from rknntui.screens.dialogs.dialogs import ConfirmDialog

    recipe = dict(workspace.session.recipe)

    def form_chosen(form: ExportForm | None) -> None:
        if form is None:
            return

        def export(path: str, force: bool) -> None:
            params = ExportParams(recipe=recipe, path=path, format=form, force=force)
            workspace.start_job(EXPORT, params, f"export {sanitize(Path(path).name, 80)}")

        stem = Path(str(recipe.get("model") or "model")).stem
        name = stem + {"rknn": ".rknn", "onnx": "-qdq.onnx", "tflite": "-int8.tflite"}[form]
        ask_new_file(workspace.app, "Export to", Path.cwd() / name, export)

    answers = [
        ("r", ".rknn container", "rknn"),
        ("q", "QDQ ONNX", "onnx"),
        ("t", "TFLite", "tflite"),
    ]
    question = f"Choose the file type. {CONTAINER_NOTE}"
    workspace.app.push_screen(ConfirmDialog("Export", question, answers), form_chosen)


def show_exported(app: App[None], result: Exported) -> None:
    """Tell what was written, and how it is used."""
    from rknntui.screens.dialogs.dialogs import TextDialog

    lines: list[Line] = [
        [(sanitize(result.path, 300), "accent")],
        [(f"{human_bytes(result.bytes)}, SHA-256", "")],
        [(result.sha256, "dim")],
        [],
        *[[(row, "")] for row in wrap(result.note, 70)],
        [],
        [(with_keys("{app.open} opens it here again."), "dim")] * (result.format == "rknn"),
    ]
    app.push_screen(TextDialog("Exported", lines))
