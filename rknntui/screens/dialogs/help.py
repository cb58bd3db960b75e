"""Help for what has the focus: keys of the widget, of the workspace and of the workbench."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.binding import Binding

from rknntui.compat import bindings_in_reach
from rknntui.keys.text import key_text, with_keys
from rknntui.screens.dialogs.dialogs import TextDialog, paragraphs
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.search import SearchLine
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.app import App, ComposeResult

    from rknntui.widgets.strips import Line

_KEYS = 19
"""Cells of the column of keys."""
_MOVES = {
    "app.focus_next": "Move to the next pane.",
    "app.focus_previous": "Move to the previous pane.",
    "screen.copy_text": "Copy the text selected with the mouse.",
}
"""Textual's own actions that are worth a line, in our words."""
_SILENT = ("page_left", "page_right", "scroll_left", "scroll_right", "scroll_home", "scroll_end")
"""Textual's own actions of every list that scrolls, which do nothing here."""


class HelpDialog(TextDialog):
    """All keys that work where the focus is, from the inside outwards; ``/`` filters them.

    Args:
        app: has the bindings.
        title: of the workspace, or the program's.
        about: what the workspace is for; ``{model.search}`` stands for an action's key.
    """

    BINDINGS = [Binding("slash", "search", "Search", show=False)]
    KEYS_TEXT = "/ search · y copy · Esc close"

    def __init__(self, app: App[None], title: str, about: str) -> None:
        self._words: list[str] = []
        groups = _groups(app, bindings_in_reach(app.screen))
        super().__init__(f"Help: {title}", lambda width: _lines(about, groups, self._words, width))

    def compose(self) -> ComposeResult:
        rows = TextRows()
        rows.SHOW_CURSOR = False
        yield self.box(rows, SearchLine("search: words of key or text; Enter keeps, Esc shows all"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a text is typed, ``q`` is a letter of it and Enter ends it."""
        typing = isinstance(self.focused, SearchLine)
        return not (typing and action in ("dismiss", "copy", "search"))

    def action_search(self) -> None:
        """Open the line for the search."""
        self.query_one(SearchLine).open()

    @on(SearchLine.Typed)
    def _typed(self, event: SearchLine.Typed) -> None:
        self._words = event.text.lower().split()
        self._lay_out()
        if event.done:
            self.query_one(TextRows).focus()


def _groups(
    app: App[None], reach: Sequence[tuple[str, list[Binding]]]
) -> dict[str, dict[str, str]]:
    """Heading -> keys -> what they do; keys of the screen and of the workbench are one group."""
    groups: dict[str, dict[str, str]] = {}
    for name, bindings in reach:
        heading = "In this list" if "workspace" not in name else "In this workspace"
        if name.startswith((type(app).__name__, "Screen")):
            heading = "Everywhere"
        rows = _rows(app, bindings)
        if heading == "Everywhere":  # the workbench's own first, then Textual's
            groups[heading] = {**rows, **groups.get(heading, {})}
        else:
            groups.setdefault(heading, {}).update(rows)
    return groups


def _lines(
    about: str, groups: Mapping[str, Mapping[str, str]], words: Sequence[str], width: int
) -> list[Line]:
    lines: list[Line] = []
    if about and not words:
        lines = paragraphs([("", with_keys(about), "")], width)
    for heading, rows in groups.items():
        kept = {k: t for k, t in rows.items() if all(w in f"{k} {t}".lower() for w in words)}
        if kept:
            lines += [[], [(heading, "head")], *_row_lines(kept, width)]
    if words:
        return lines[1:] or [[("no matches", "dim")]]
    palette = key_text("app.command-palette")
    for text in (
        f"Mouse: click, wheel. {palette} finds every action, option and layer.",
        "docs/glossary.md explains every word, heading, column and sign of the screens.",
    ):
        lines += [[], *([(row, "dim")] for row in wrap(text, width))]
    return lines


def _rows(app: App[None], bindings: list[Binding]) -> dict[str, str]:
    """Keys -> what they do."""
    keys: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for binding in bindings:
        text = _MOVES.get(binding.action) or binding.tooltip or binding.description
        if not text or binding.system or binding.action in _SILENT:
            continue
        keys.setdefault(binding.action, []).append(app.get_key_display(binding))
        texts[binding.action] = text
    return {" ".join(keys[action]): text for action, text in texts.items()}


def _row_lines(rows: Mapping[str, str], width: int) -> list[Line]:
    lines: list[Line] = []
    for keys, text in rows.items():
        shown = f"  {keys:<{_KEYS - 3}} "
        for number, row in enumerate(wrap(text, width - _KEYS)):
            lines.append([(shown if number == 0 else " " * _KEYS, "key"), (row, "")])
    return lines
