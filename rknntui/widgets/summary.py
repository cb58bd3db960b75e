"""The summary of a build as lines; those that name a layer or an option lead there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from engine import OPTIONS, summary_sections
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.strips import Line, fit
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.report import Section
    from engine.wire.build import BuildSummary

Target = tuple[str, str]
"""(kind, name); the kind is ``layer`` (of a tensor), ``option``, ``view`` or ``command``."""


class SummaryRows(TextRows):
    """The sections of ``engine.summary_sections``, wrapped to the width."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._summary: BuildSummary | None = None
        self._said: Sequence[str] = ()
        self._targets: list[Target | None] = []
        self._width = 0

    def show(self, summary: BuildSummary | None, said: Sequence[str] = ()) -> None:
        """Show a build summary.

        Args:
            summary: of the build.
            said: paragraphs above it.
        """
        self._summary, self._said = summary, said
        self._lay_out()

    def on_resize(self) -> None:
        """Wrap anew."""
        if self.size.width != self._width:
            self._lay_out()

    @property
    def target(self) -> Target | None:
        """Where Enter leads from the line under the cursor."""
        return self._targets[self.cursor] if self.cursor < len(self._targets) else None

    def _lay_out(self) -> None:
        self._width = self.size.width
        lines: list[Line] = []
        self._targets = []
        if self._summary is not None:
            width = max(30, (self.scrollable_content_region.width or 80) - 4)
            lines = [[(f" {row}", "")] for text in self._said for row in wrap(text, width)]
            self._targets = [None] * len(lines)
            for section in summary_sections(self._summary):
                if lines:
                    lines.append([])
                    self._targets.append(None)
                lines.append([(f" {section.title}", "head")])
                self._targets.append(None)
                for index, (line, first) in enumerate(_section_lines(section, width)):
                    lines.append(line)
                    target = self._target_of(section.title, index, first)
                    self._targets.append(target)
        self.set_lines(lines, keep_cursor=True)

    def _target_of(self, title: str, index: int, row: int) -> Target | None:
        summary = self._summary
        if summary is None:
            return None
        if title.startswith("Worst"):
            return ("layer", summary.worst[row].layer)
        if title.startswith("Outputs"):
            return ("layer", summary.outputs[row].name)
        if title.startswith("Layers"):
            return ("view", "Layers")
        if title.startswith("Findings") and summary.findings:
            where = summary.findings[row].where
            return ("option", where) if any(o.name == where for o in OPTIONS) else None
        if title.startswith("Next"):
            return ("command", summary.next_command)
        return None


def _section_lines(section: Section, width: int) -> list[tuple[Line, int]]:
    """(line, row that it belongs to) of a section; columns aligned, single texts wrapped."""
    rows = [row for row in section.rows if len(row) > 1]
    headed = [section.columns] if "SQNR" in section.columns and rows else []
    count = max((len(row) for row in rows), default=0)
    widths = [max(cell_len(r[i]) for r in [*headed, *rows] if i < len(r)) for i in range(count)]
    if widths:
        widths[0] = max(12, widths[0] - max(0, sum(widths) + 2 * (count - 1) - width))
    out: list[tuple[Line, int]] = [(_cells(head, widths, "dim"), 0) for head in headed]
    for index, row in enumerate(section.rows):
        if len(row) > 1:
            out.append((_cells(row, widths, ""), index))
        else:
            style = "accent" if section.title == "Next step" else ""
            out += [([(f"   {t}", style)], index) for t in wrap(row[0], width) or [""]]
    return out


def _cells(row: Sequence[str], widths: Sequence[int], style: str) -> Line:
    cells = [fit(cell, widths[i]) for i, cell in enumerate(row)]
    return [("   " + "  ".join(cells).rstrip(), style)]
