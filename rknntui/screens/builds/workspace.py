"""Workspace Jobs: what ran and runs, with log, rerun and the difference of two builds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from textual import getters, on
from textual.containers import Vertical

from engine import sanitize
from engine.wire.formats import MOMENT
from engine.wire.project_tables import JOBS
from rknntui.bridge import in_background
from rknntui.keys.actions import key_text
from rknntui.keys.commandline import job_command
from rknntui.screens.base.workspace import Workspace
from rknntui.session.job_view_model import JobView
from rknntui.widgets.job_pane import JobPane
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import SearchLine
from rknntui.widgets.strips import Line
from rknntui.widgets.table import Table

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine import JobRecord
    from rknntui.session.messages import JobChanged, JobEnded

LIMIT = 500


def _empty() -> list[Line]:
    return [
        [("No jobs yet.", "head")],
        [
            (f" {key_text('go.quantize')} ", "key"),
            ("shows how to build; every build, run and export is listed here", ""),
        ],
    ]


class JobsWorkspace(Workspace):
    """History above, the job under the cursor below."""

    NAME = "builds"
    HELP = (
        "Every job of this user, newest first, with the stages and the log of the one under the "
        "cursor. {builds.stop} stops the running job, after a confirmation. Jobs continue when the "
        "workbench closes; the next start finds them again."
    )
    FIRST_FOCUS = "Table"
    DEFAULT_CSS = """
    JobsWorkspace Table { height: 2fr; border-bottom: hkey $panel; }
    JobsWorkspace JobPane { height: 3fr; }
    JobsWorkspace #history { height: 2fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._records: list[JobRecord] = []
        self._views: dict[str, JobView] = {}
        self._marked = ""
        self._wanted = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="history"):
            yield Table(JOBS.columns)
            yield SearchLine("filter: words of job, what, state")
        yield JobPane(id="pane")

    history = getters.query_one(Table)
    """The history."""

    @property
    def record(self) -> JobRecord | None:
        """The job under the cursor."""
        row = self.history.row
        return self._records[row] if row is not None and row < len(self._records) else None

    # -- history -----------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.history.empty = _empty()

    def update_view(self) -> None:
        self._reload()

    def on_job_changed(self, message: JobChanged) -> None:
        if not self.shown:
            return
        if all(record.id != message.job for record in self._records):
            self._reload()
        record = self.record
        if record is not None and record.id == message.job:
            self._show(self.session.jobs.get(message.job))

    def on_job_ended(self, message: JobEnded) -> None:
        if self.shown:
            self._reload()

    def _reload(self) -> None:
        self.run_worker(self._read(), group="history", exclusive=True)

    async def _read(self) -> None:
        from engine import list_jobs

        listed = await asyncio.to_thread(list_jobs, LIMIT)
        records = [record for record in listed if not in_background(record.method)]
        first = bool(records) and (not self._records or records[0].id != self._records[0].id)
        at_top = self.history.cursor == 0
        before = self.record.id if self.record is not None else ""
        self._records = records
        self._fill()
        if before and not (first and at_top):
            self._select(before)
        elif first:
            self.history.cursor = 0
        self._show_record()
        self.refresh_bindings()

    def _fill(self) -> None:
        marks = {self._marked: "●"}
        rows = [
            tuple(JOBS.record(record, mark=marks.get(record.id, "")).values())
            for record in self._records
        ]
        self.history.set_rows(rows)

    def _select(self, job_id: str) -> None:
        for index, record in enumerate(self._records):
            if record.id == job_id:
                self.history.select_row(index)

    @on(Rows.Highlighted, "Table")
    def _moved(self) -> None:
        self._show_record()
        self.refresh_bindings()

    @on(Rows.Chosen, "Table")
    def _chosen(self) -> None:
        self.query_one(JobPane).focus()

    def _show_record(self) -> None:
        record = self.record
        if record is None:
            self._show(None)
            return
        self._wanted = record.id
        live = self.session.jobs.get(record.id)
        if live is not None and (live.stages or live.running):
            self._show(live)
        elif record.id in self._views:
            self._show(self._views[record.id])
        else:
            self.run_worker(self._read_events(record), group="events", exclusive=True)

    async def _read_events(self, record: JobRecord) -> None:
        from engine import EngineError, read_events

        try:
            events = await asyncio.to_thread(read_events, record.id)
        except EngineError:  # removed from the history meanwhile
            events = []
        view = JobView.of_record(record, events)
        if record.state != "running":
            self._views[record.id] = view
        if record.id == self._wanted:
            self._show(view)

    def _show(self, job: JobView | None) -> None:
        self.query_one(JobPane).set_job(job)

    # -- actions -----------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if method == "stop":
            return "" if self.session.running is not None else "no job is running."
        if method in ("rerun", "log", "save_log", "copy", "copy_command", "save", "filter"):
            return "" if self._records else "there are no jobs yet ({go.quantize} builds)."
        if method == "mark":
            return "" if self._is_build() else "only a finished build can be compared."
        if method == "compare":
            if not self._marked:
                return "mark another build first ({builds.mark})."
            return "" if self._is_build() else "only a finished build can be compared."
        return ""

    def _is_build(self) -> bool:
        record = self.record
        return record is not None and record.method == "build" and record.state == "done"

    def action_stop(self) -> None:
        """Ask whether the job under the cursor, or else the running one, shall stop."""
        record = self.record
        job = self.session.jobs.get(record.id) if record is not None else None
        job = job if job is not None and job.running else self.session.running
        if job is not None:
            self.workbench.ask_to_stop(job)

    def action_rerun(self) -> None:
        """Start the job under the cursor again, as it was."""
        record = self.record
        if record is not None:
            self.workbench.do(self.bridge.again(record))
            self.notify(f"Started again: {record.title}", markup=False)

    def action_mark(self) -> None:
        """Mark the build under the cursor."""
        record = self.record
        if record is not None:
            self._marked = "" if self._marked == record.id else record.id
            self._fill()
            self.refresh_bindings()

    def action_compare(self) -> None:
        """Show what differs between the marked build and this one."""
        from engine import EngineError, read_result
        from rknntui.screens.builds.workspace import differences
        from rknntui.screens.dialogs.dialogs import TextDialog

        record = self.record
        marked = next((r for r in self._records if r.id == self._marked), None)
        if record is None or marked is None:
            return
        try:
            results = [read_result(r.id) or r.summary or {} for r in (marked, record)]
        except EngineError as error:
            self.workbench.show_error(error)
            return
        lines = differences(marked.params, record.params, *results)
        title = f"{MOMENT.text(marked.started)} and {MOMENT.text(record.started)}"
        self.app.push_screen(TextDialog(f"Compare builds:  {title}", lines))

    def action_filter(self) -> None:
        """Open the line that filters the history."""
        self.query_one(SearchLine).open()

    @on(SearchLine.Typed)
    def _typed(self, event: SearchLine.Typed) -> None:
        self.history.set_filter(event.text)
        if event.done:
            self.history.focus()

    def action_log(self) -> None:
        """Read what libraries wrote while the job ran."""
        from engine import read_log, sanitize
        from rknntui.screens.dialogs.dialogs import TextDialog

        record = self.record
        if record is not None:
            text = read_log(record.id)
            rows = text.splitlines() or ["Nothing was written."]
            lines = [[(sanitize(row, 400), "")] for row in rows[-5000:]]
            self.app.push_screen(TextDialog(f"Log: {record.title}", lines))

    def action_save_log(self) -> None:
        """Ask for a file and write the log into it."""
        self.workbench.save("Write the log", "job.log", self.query_one(JobPane).text())

    def action_save(self) -> None:
        """Ask for a file and write the history into it."""
        self.workbench.save("Write the list of jobs as CSV", "jobs.csv", self.history.to_csv())

    def copy_text(self) -> str:
        pane = self.query_one(JobPane)
        return pane.text() if pane.has_focus else self.history.row_text()

    def command_line(self) -> list[str]:
        record = self.record
        if record is None:
            return []
        return job_command(record.method, record.params)


# The difference of two builds: what was asked for, and what came out.

MISSING = "–"


def differences(
    before: dict[str, object],
    after: dict[str, object],
    old: dict[str, object],
    new: dict[str, object],
) -> list[Line]:
    """Lines with every option and every figure of two builds that is not the same.

    Args:
        before: parameters of the first job.
        after: parameters of the second one.
        old: result of the first job.
        new: result of the second one.
    """
    lines: list[Line] = []
    sections = (
        ("Recipe", before.get("recipe") or {}, after.get("recipe") or {}),
        ("Result", old, new),
    )
    for title, left, right in sections:
        a, b = _flat(left), _flat(right)
        rows = [
            (name, a.get(name, MISSING), b.get(name, MISSING))
            for name in sorted({*a, *b})
            if a.get(name) != b.get(name)
        ]
        lines += [[], [(title, "head")]] if lines else [[(title, "head")]]
        if not rows:
            lines.append([("no difference", "dim")])
        for name, x, y in rows:
            lines.append([(f"{sanitize(name, 60)}  ", "")])
            lines.append([(f"    {_text(x)}", "dim"), ("  →  ", "dim"), (_text(y), "accent")])
    return lines


def _flat(value: Any, name: str = "") -> dict[str, object]:
    """Nested data as path -> leaf; a list of plain values is a leaf."""
    if isinstance(value, dict):
        items = [(f"{name}.{key}" if name else str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = [(f"{name}[{_label(item, n)}]", item) for n, item in enumerate(value)]
    else:
        return {name: value}
    flat: dict[str, object] = {}
    for key, item in items:
        flat.update(_flat(item, key))
    return flat


def _label(item: Any, position: int) -> str:
    if isinstance(item, dict):
        for key in ("name", "tensor", "path", "stage"):
            if isinstance(item.get(key), str):
                return item[key]
    return str(position)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return sanitize(str(value), 120)
