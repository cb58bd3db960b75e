"""Choosing a theme with a live view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on

from rknntui.screens.dialogs.dialogs import Dialog
from rknntui.widgets.line_list import Rows, TextRows

if TYPE_CHECKING:
    from textual.app import ComposeResult


class ThemeDialog(Dialog):
    """The names of the themes.

    The cursor shows each, Enter keeps it, Esc takes the old one back.
    """

    TITLE_TEXT = "Theme"
    KEYS_TEXT = "↑↓ preview · Enter apply · Esc cancel"
    DEFAULT_CSS = "ThemeDialog { align: right middle; background: $background 0%; } "

    def __init__(self, names: list[str], current: str) -> None:
        super().__init__()
        self._names = names
        self._before = current

    def compose(self) -> ComposeResult:
        yield self.box(TextRows())

    def on_mount(self) -> None:
        rows = self.query_one(TextRows)
        rows.styles.height = min(len(self._names), 14)
        rows.parent.styles.width = 40  # type: ignore[union-attr]
        rows.set_lines([[(f"{name} ", "")] for name in self._names])
        if self._before in self._names:
            rows.cursor = self._names.index(self._before)

    @on(Rows.Highlighted)
    def _look(self, event: Rows.Highlighted) -> None:
        self.workbench.theming.use(self._names[event.index])

    @on(Rows.Chosen)
    def _keep(self, event: Rows.Chosen) -> None:
        self.dismiss(self._names[event.index])

    async def action_dismiss(self, result: object = None) -> None:
        """Esc: the colours of before."""
        self.workbench.theming.use(self._before)
        self.dismiss(None)
