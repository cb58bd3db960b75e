"""What belongs to the job under the cursor: lines about it, or its log with a search in it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import getters, on
from textual.containers import Vertical

from engine import (
    LOG_LINES,
    compare_builds,
    recipe_of,
    result_of,
    results_of,
    sections_text,
    summary_text,
)
from engine.wire.build import BUILD, BuildSummary
from engine.wire.method import Query
from rknntui.session.job_view_model import JobView
from rknntui.widgets.job_pane import JobPane
from rknntui.widgets.line_list import SidePane
from rknntui.widgets.one_line import SearchLine
from rknntui.widgets.wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.worker import WorkType

    from engine import BuildRow, JobRecord
    from engine.wire.method import Method
    from rknntui.bridge import Bridge
    from rknntui.widgets.strips import Line


class Detail(Vertical):
    """Lines or a log; the log is read when it is shown."""

    DEFAULT_CSS = """
    Detail { height: 3fr; }
    Detail > SidePane, Detail > JobPane { height: 1fr; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="detail")
        self._views: dict[str, JobView] = {}
        self._job = ""
        self._text = ""

    def compose(self) -> ComposeResult:
        yield SidePane(id="about")
        yield JobPane(id="log")
        yield SearchLine("search the log: Enter keeps the lines, Esc shows all")

    about = getters.query_one("#about", SidePane)
    """The lines."""
    log_pane = getters.query_one("#log", JobPane)
    """The log."""

    @property
    def in_log(self) -> bool:
        """Whether keys are the log's."""
        return self.log_pane.has_focus or self.query_one(SearchLine).has_class("-open")

    def show_text(self, text: str) -> None:
        """Show a text in sections."""
        self._text = text
        self._show(log=False)
        self.call_after_refresh(self._lay_out)  # where it was hidden it has no width yet

    def show_log(self, record: JobRecord | None, live: JobView | None) -> None:
        """Show the log of a job: of one of this run as it is known, else as its record has it."""
        self._job = record.id if record is not None else ""
        self._show(log=True)
        if record is None:
            self.log_pane.set_job(None)
        elif live is not None and (live.stages or live.running):
            self.log_pane.set_job(live)
        elif record.id in self._views:
            self.log_pane.set_job(self._views[record.id])
        else:
            self._look(partial(self._read, record))

    def _show(self, *, log: bool) -> None:
        self.about.display, self.log_pane.display = not log, log

    def _look(self, work: WorkType[None]) -> None:
        self.run_worker(work, group="detail", exclusive=True)

    @on(SidePane.Resized)
    def _lay_out(self) -> None:
        self.about.set_lines(text_lines(self._text, max(30, self.about.size.width - 2)))

    async def _read(self, record: JobRecord) -> None:
        from engine import EngineError, read_events

        try:
            events = await asyncio.to_thread(read_events, record.id, LOG_LINES)
        except EngineError:  # removed from the history meanwhile
            events = []
        view = JobView.of_record(record, events)
        if record.state != "running":
            self._views[record.id] = view
        if record.id == self._job and self.is_attached:
            self.log_pane.set_job(view)

    # -- search ------------------------------------------------------------------------------------

    def search(self) -> None:
        """Open the line that searches the log."""
        self.query_one(SearchLine).open()

    @on(SearchLine.Typed)
    def _typed(self, event: SearchLine.Typed) -> None:
        event.stop()
        if event.done:
            self.log_pane.focus()
        if not event.text:
            self.log_pane.show_found(None)
        elif self.log_pane.words != event.text:
            self._look(partial(self._find, self._job, event.text))

    async def _find(self, job: str, words: str) -> None:
        from engine import find_log

        await asyncio.sleep(0.15)  # the user types on
        lines, total = await asyncio.to_thread(find_log, job, words)
        if job == self._job and self.is_attached:
            self.log_pane.show_found(lines, total, words)


_STYLES = {"✗": "bad", "✓": "good", "!": "warn"}


def text_lines(text: str, width: int) -> list[Line]:
    """A text in sections, wrapped; the sign that a row begins with says the same as its colour."""
    lines: list[Line] = []
    for row in text.splitlines():
        style = "head" if row[:1].strip() else _STYLES.get(row.strip()[:1], "")
        indent = row[: len(row) - len(row.lstrip())]
        lines += (
            wrapped(row.strip(), width, style, indent) if len(row) > width else [[(row, style)]]
        )
    return lines


def changes_text(pair: tuple[BuildRow, BuildRow] | str, jobs: Sequence[JobRecord]) -> str:
    """What differs between two builds; a text instead of them says why there are not two."""
    return pair if isinstance(pair, str) else sections_text(compare_builds(*pair, jobs))


def summary_of(row: BuildRow | None) -> str:
    """What a build changed, its note and its summary."""
    if row is None:
        return ""
    summary: BuildSummary | None = result_of(row.record, BUILD)
    text = "The summary of this build is gone." if summary is None else summary_text(summary)
    return "\n".join([f"Changed: {row.changes}", row.note or "", text])


async def report_text(bridge: Bridge, records: Sequence[JobRecord], record: JobRecord) -> str:
    """The HTML report of what is known of a build; what is not known is named in it."""
    from engine import gather_report, report_html

    recipe = recipe_of(record)

    async def ask(method: Method[Any, Any], params: Any) -> Any:
        if isinstance(method, Query):
            return await bridge.call(method, params)
        if method is BUILD:
            return await asyncio.to_thread(result_of, record, method)
        known = results_of(records, method, recipe)
        return await asyncio.to_thread(next, known, None)

    return await asyncio.to_thread(report_html, await gather_report(ask, recipe))
