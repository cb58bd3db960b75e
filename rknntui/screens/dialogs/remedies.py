"""Applying what a finding advises, wherever findings are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.widgets import Static

from engine import Finding, option, sanitize
from rknntui.screens.dialogs.dialogs import Dialog
from rknntui.widgets.line_list import Rows, TextRows
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.app import ComposeResult


def remedies(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that a change of the recipe remedies."""
    return [finding for finding in findings if finding.changes]


def changed_names(changes: Mapping[str, object]) -> str:
    """Changes of a recipe as a short text: ``mean_values = 127.5; quant_img_RGB2BGR = yes``."""
    return "; ".join(f"{name} = {_value(name, value)}" for name, value in changes.items())


def _value(name: str, value: object) -> str:
    if isinstance(value, Mapping) and len(value) > 2:
        return f"{len(value)} entries"
    return sanitize(option(name).render(value) if value is not None else "default", 60)


class RemedyDialog(Dialog):
    """The findings that have a remedy; dismissed with the one whose remedy is wanted, or None."""

    TITLE_TEXT = "Apply a fix"
    KEYS_TEXT = "↑↓ choose · Enter apply · Esc cancel"
    DEFAULT_CSS = """
    RemedyDialog #remedy { color: $text-muted; border-top: solid $panel; min-height: 5; }
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__()
        self._findings = tuple(findings)

    def compose(self) -> ComposeResult:
        yield self.box(TextRows(), Static("", id="remedy", markup=False))

    def on_mount(self) -> None:
        rows = self.query_one(TextRows)
        rows.styles.height = min(len(self._findings), max(3, self.app.size.height - 14))
        self._tell(0)

    def on_resize(self) -> None:
        """A row for a finding, its beginning; the whole text stands below."""
        rows = [wrap(sanitize(f"{f.where}: {f.what}"), self.text_width - 2) for f in self._findings]
        self.query_one(TextRows).set_lines(
            [[(row[0], ""), (" …" if len(row) > 1 else "", "dim")] for row in rows],
            keep_cursor=True,
        )
        self._tell(self.query_one(TextRows).cursor)

    @on(Rows.Highlighted)
    def _moved(self, event: Rows.Highlighted) -> None:
        self._tell(event.index)

    def _tell(self, index: int) -> None:
        finding = self._findings[index]
        sets = f"Sets {changed_names(finding.changes)}"
        texts = (finding.what, f"Fix: {finding.remedy}", sets)
        lines = [row for text in texts for row in wrap(sanitize(text), self.text_width)]
        self.query_one("#remedy", Static).update("\n".join(lines))

    @on(Rows.Chosen)
    def _take(self, event: Rows.Chosen) -> None:
        self.dismiss(self._findings[event.index])
