"""Help for what has the focus: keys of the widget, of the workspace and of the workbench."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rknntui.compat import bindings_in_reach
from rknntui.keys.text import key_text, with_keys
from rknntui.screens.dialogs.dialogs import TextDialog, paragraphs
from rknntui.widgets.wrap import wrap
from rknntui.workspaces import WORKSPACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import Binding

    from rknntui.app import Workbench
    from rknntui.widgets.paint import Line

__all__ = ["HelpDialog"]

_KEYS = 19
"""Cells of the column of keys."""


class HelpDialog(TextDialog):
    """All keys that work where the focus is, from the inside outwards."""

    def __init__(self, app: Workbench) -> None:
        workspace = app.workspace
        title = WORKSPACES[app.current].title if workspace else "RKNN TUI"
        super().__init__(f"Help: {title}", partial(_lines, app, bindings_in_reach(app.screen)))


def _lines(app: Workbench, reach: Sequence[tuple[str, list[Binding]]], width: int) -> list[Line]:
    workspace = app.workspace
    lines = paragraphs([("", with_keys(workspace.HELP), "")], width) if workspace else []
    for name, bindings in reach:
        rows = _rows(app, bindings, width)
        if not rows:
            continue
        heading = "In this list" if "workspace" not in name else "In this workspace"
        if name.startswith((type(app).__name__, "Screen")):
            heading = "Everywhere"
        lines += [[], [(heading, "head")], *rows]
    palette = key_text("app.command-palette")
    lines += [[], [(f"Mouse: click, wheel. {palette} lists every action with its help.", "dim")]]
    return lines


def _rows(app: Workbench, bindings: list[Binding], width: int) -> list[Line]:
    keys: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for binding in bindings:
        text = binding.tooltip or binding.description
        if not text or binding.system:
            continue
        keys.setdefault(binding.action, []).append(app.get_key_display(binding))
        texts[binding.action] = text
    lines: list[Line] = []
    for action, text in texts.items():
        shown = f"  {' '.join(keys[action]):<{_KEYS - 3}} "
        for number, row in enumerate(wrap(text, width - _KEYS)):
            lines.append([(shown if number == 0 else " " * _KEYS, "key"), (row, "")])
    return lines
