"""Help for what has the focus: keys of the widget, of the workspace and of the workbench."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.compat import bindings_in_reach
from rknntui.screens.dialogs import TextDialog, paragraphs

if TYPE_CHECKING:
    from textual.binding import Binding

    from rknntui.shell import Shell
    from rknntui.widgets.paint import Line

__all__ = ["HelpDialog"]


class HelpDialog(TextDialog):
    """All keys that work where the focus is, from the inside outwards."""

    def __init__(self, app: Shell) -> None:
        workspace = app.workspace
        title = workspace.TITLE if workspace else "RKNN TUI"
        super().__init__(f"Help: {title}", _lines(app))


def _lines(app: Shell) -> list[Line]:
    width = min(70, app.size.width - 10)
    workspace = app.workspace
    lines = paragraphs([("", workspace.HELP, "")], width) if workspace else []
    for name, bindings in bindings_in_reach(app.screen):
        rows = _rows(app, bindings)
        if not rows:
            continue
        heading = "In this list" if "workspace" not in name else "In this workspace"
        if name.startswith((type(app).__name__, "Screen")):
            heading = "Everywhere"
        lines += [[], [(heading, "head")], *rows]
    lines += [[], [("Mouse: click, wheel. ctrl+p lists every action with its help.", "dim")]]
    return lines


def _rows(app: Shell, bindings: list[Binding]) -> list[Line]:
    keys: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for binding in bindings:
        text = binding.tooltip or binding.description
        if not text or binding.system:
            continue
        keys.setdefault(binding.action, []).append(app.get_key_display(binding))
        texts[binding.action] = text
    return [
        [(f"  {' '.join(keys[action]):<16} ", "key"), (text, "")] for action, text in texts.items()
    ]
