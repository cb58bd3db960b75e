"""Findings as wrapped lines, with the one under the cursor known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine import Finding, sanitize
from rknntui.keys.actions import key_text
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.strips import Line
from rknntui.widgets.wrap import wrap


def wrapped(text: str, width: int, style: str, indent: str = "") -> list[Line]:
    """A text as lines of one style."""
    return [[(indent + row, style)] for row in wrap(text, max(10, width - len(indent)))]


def finding_lines(findings: Iterable[Finding], width: int, applies: str) -> list[Line]:
    """Findings with cause and remedy, wrapped; the sign says how serious they are.

    Args:
        findings: in their order.
        width: cells.
        applies: id of the action that applies a remedy.
    """
    signs = {"error": ("✗", "bad"), "warning": ("!", "warn"), "info": ("i", "dim")}
    lines: list[Line] = []
    for finding in findings:
        sign, style = signs[finding.severity]
        where = sanitize(finding.where, 60)
        what = f"{where}: {sanitize(finding.what)}" if where else finding.what
        rows = wrap(what, max(10, width - 2))
        lines += [
            [(f"{sign} " if i == 0 else "  ", style), (row, "")] for i, row in enumerate(rows)
        ]
        if finding.cause:
            lines += wrapped(f"Cause: {sanitize(finding.cause)}", width, "dim", "  ")
        if finding.remedy:
            key = f" ({key_text(applies)} applies it)" if finding.changes else ""
            remedy = f"Fix: {sanitize(finding.remedy)}{key}"
            lines += wrapped(remedy, width, "dim", "  ")
    return lines


class FindingRows(TextRows):
    """Findings with cause and remedy, wrapped to the width.

    Args:
        applies: id of the action that applies a remedy.
        id: of the widget.
    """

    def __init__(self, applies: str, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._applies = applies
        self._findings: tuple[Finding, ...] = ()
        self._more: tuple[Line, ...] = ()
        self._of: list[int] = []
        self._width = 0

    def show(self, findings: Sequence[Finding], more: Sequence[Line] = ()) -> None:
        """Show findings, then lines that are none."""
        self._findings, self._more = tuple(findings), tuple(more)
        self._lay_out()
        self.screen.refresh_bindings()

    def watch_cursor(self, old: int, new: int) -> None:
        """Another finding may have a remedy, or none."""
        super().watch_cursor(old, new)
        self.screen.refresh_bindings()

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor."""
        return self._findings[self._of[self.cursor]] if self.cursor < len(self._of) else None

    def chosen(self) -> Sequence[Finding]:
        """What a remedy may be applied of: with the focus that under the cursor, else any."""
        here = self.finding
        if self.has_focus and here is not None and here.changes:
            return [here]
        return self._findings

    def on_resize(self) -> None:
        """Wrap anew."""
        if self.size.width != self._width:
            self._lay_out()

    def _lay_out(self) -> None:
        self._width = self.size.width
        room = self.scrollable_content_region.width or self.app.size.width
        lines: list[Line] = []
        self._of = []
        for index, finding in enumerate(self._findings):
            own = finding_lines([finding], max(20, room - 3), self._applies)
            lines += own
            self._of += [index] * len(own)
        self.set_lines([*lines, *self._more], keep_cursor=True)
