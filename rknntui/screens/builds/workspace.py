"""Workspace Builds: every build with what changed, its log and variants; and all other jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from textual import getters, on
from textual.containers import Vertical

from engine import BuildRow, JobRecord, build_rows, recipe_of, sanitize
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.project_tables import BUILDS, JOBS
from engine.wire.sweep import SWEEP, SweepParams
from rknntui.bridge import in_background
from rknntui.keys.actions import REGISTRY, with_keys
from rknntui.keys.commandline import job_command
from rknntui.links import GoTo
from rknntui.screens.base.views import LOW, TableWorkspace
from rknntui.screens.builds.detail import Detail, changes_text, report_text, summary_of
from rknntui.screens.builds.front import BuildTimes, FrontChart
from rknntui.screens.builds.variants import (
    NO_VARIANTS,
    SWEEP_FORM,
    default_axes,
    sweep_of,
    variants,
)
from rknntui.session.job_view_model import job_word
from rknntui.widgets.divider import Divider
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import ViewBar
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.worker import WorkType

    from rknntui.session.messages import JobChanged

LIMIT = 500
_NO_BUILDS = (
    "No builds yet.\n\n{app.build} builds what is open; every build is listed here with what "
    "changed, its lowest SQNR, size and times."
)
_NO_JOBS = "No jobs yet.\n\nEvery build, run, compilation and export is listed here."
TABLES = {
    "Builds": (BUILDS, "builds", _NO_BUILDS),
    "Variants": (SWEEP_ROWS, "variants", NO_VARIANTS),
    "Jobs": (JOBS, "jobs", _NO_JOBS),
    "Front": (BUILDS, "builds", _NO_BUILDS),
}
"""View -> columns of its table, what it lists, and what is said where there is nothing."""


class Builds(TableWorkspace):
    """The table above, what is known of the row under the cursor below."""

    NAME = "builds"
    HELP = (
        "Every build of the open model, newest first, with what changed in its recipe. Enter opens "
        "a build again, {builds.compare} says what differs from the marked one or the one before. "
        "{builds.next-view} shows variants, all other jobs, and error against time as a chart. "
        "{builds.stop} stops a job; jobs go on when the workbench closes."
    )
    FIRST_FOCUS = "#history"
    DEFAULT_CSS = """
    Builds {
        & FrontChart { display: none; }
        & RecordView { height: 2fr; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._records: list[JobRecord] = []
        self._rows: list[BuildRow] = []
        self._times = BuildTimes(self.session)
        self._marked = ""
        self._waiting: set[str] = set()
        self._detail = ""
        self._wanted = "", ""  # the kind of detail that was asked for last, and the job

    def compose(self) -> ComposeResult:
        yield ViewBar(tuple(TABLES))
        declared, what, empty = TABLES["Builds"]
        table = RecordTable[Any](declared, id="history", what=what, empty=with_keys(empty))
        with Vertical():
            yield RecordView("Builds", table)
            yield Divider("builds-divider")
            yield FrontChart()
            yield Detail()

    history = getters.query_one("#history", RecordTable)
    """The builds, jobs or variants."""

    @property
    def row(self) -> BuildRow | None:
        """The build under the cursor."""
        row = self.history.record
        return row if isinstance(row, BuildRow) else None

    @property
    def record(self) -> JobRecord | None:
        """The job under the cursor; of variants the one that builds them."""
        if self.row is not None:
            return self.row.record
        chosen: Mapping[str, Any] = self.history.record or {}
        job = sweep_of(self.session)[0] if self.view == "Variants" else None
        wanted = chosen.get("id") if job is None else job.id
        return next((one for one in self._records if one.id == wanted), None)

    detail = getters.query_one(Detail)
    """What belongs to the row under the cursor."""

    # -- the history -------------------------------------------------------------------------------

    def update_view(self) -> None:
        self._look("history", self._read)

    def _reload(self) -> None:
        if self.shown:
            self.update_view()

    on_model_opened = on_job_ended = _reload

    def on_job_changed(self, message: JobChanged) -> None:
        """Draw a job that runs."""
        if not self.shown:
            return
        begun = message.job in self._waiting and not self.bridge.waits(message.job)
        if all(record.id != message.job for record in self._records):
            self._reload()
        elif begun or self.view == "Variants":
            self._fill()
        if self.record is not None and self.record.id == message.job:
            self._show_detail()

    def on_result_found(self) -> None:
        """Variants of an earlier run fit the recipe."""
        if self.shown:
            self._fill()

    def _look(self, group: str, work: WorkType[None]) -> None:
        """Read something beside the interface, in the place of the last look of that group.

        ``work`` is a function: a coroutine that is replaced before it starts is never awaited.
        """
        self.run_worker(work, group=group, exclusive=True)

    async def _read(self) -> None:
        from engine import list_jobs

        listed = await asyncio.to_thread(list_jobs, LIMIT)
        rows = await asyncio.to_thread(build_rows, listed, self.session.recipe.get("model"))
        if not self._alive:
            return
        top = self.history.cursor == 0
        self._records, self._rows = listed, rows
        self._fill()
        if top:  # what is new is looked at, unless the user looks at another row
            self.history.cursor = 0
        self._show_detail()
        self._look("times", self._ask_times)
        self.refresh_bindings()

    def _fill(self) -> None:
        """Show the rows of the view: builds that run first."""
        self._times.follow_target()
        marks, times = {self._marked: "●"}, self._times.by_id
        self._times.rows = [
            replace(row, time_ms=times.get(row.id), mark=marks.get(row.id, ""))
            for row in sorted(self._rows, key=lambda row: row.state != "running")
        ]
        shown: Sequence[Any] = self._times.rows
        if self.view == "Variants":
            title, shown = variants(self.session)
        elif self.view == "Jobs":
            title, shown = "Jobs", self._job_rows()
        else:
            whose = "" if self.session.recipe.get("model") else " of all models"
            chip = f" on {self.session.chip}" if self.session.chip else ""
            title = f"Builds{whose} (dB simulated, est. estimated{chip})"
        view = self.query_one(RecordView)
        view.set_title(title)
        if "builds-divider stacked" not in self.workbench.dividers:
            view.styles.max_height = len(shown) + 3 if shown else 7  # the rest is what is below
        self.history.set_records(shown, keep="title" if self.view == "Variants" else "id")

    def _job_rows(self) -> list[Mapping[str, Any]]:
        self._waiting = {one.id for one in self._records if self.bridge.waits(one.id)}
        return [
            JOBS.record(
                one,
                id=one.id,
                mark="",
                method=job_word(one.method),
                title=one.title.removeprefix(one.method).strip(),
                state="waiting" if one.id in self._waiting else one.state,
            )
            for one in self._records
            if not in_background(one.method)
        ]

    async def _ask_times(self) -> None:
        if self._may_ask():
            async for _ in self._times.ask(self.bridge):
                if not self._may_ask():
                    return
                self._timed()

    def _may_ask(self) -> bool:
        """Never beside work."""
        return self._alive and self.shown and self.session.running is None

    def _timed(self) -> None:
        self._fill()
        if self.view == "Front":
            self._show_front()

    def on_recipe_changed(self) -> None:
        """Times are of the chip of the target."""
        if self.shown and self._times.chip != self.session.chip:
            self._timed()
            self._look("times", self._ask_times)

    def _show_front(self) -> None:
        """Draw the points that have both figures; without any say what is missing."""
        chip, chosen = self.session.chip, self.row.id if self.row is not None else ""
        points, times = self._times.points if chip else [], self._times.by_id
        said = "no build has both figures yet ({app.build} builds)."
        if not chip:
            said = "times are estimated for a target ({app.target} chooses one)."
        elif any(one.id not in times for one in self._times.tried):
            said = "estimating …"
        self.query_one(FrontChart).show(points, chosen, chip or "", with_keys(said))

    # -- the detail --------------------------------------------------------------------------------

    @on(Rows.Highlighted, "#history")
    def _moved(self) -> None:
        self._show_detail()
        self.refresh_bindings()

    def _show_detail(self) -> None:
        """What belongs to the row: the log while it runs or where it failed, else the summary."""
        view, record = self.view, self.record
        live = self.session.jobs.get(record.id) if record is not None else None
        variants_run = view == "Variants" and live is not None and live.running
        self.detail.display = view in ("Builds", "Jobs") or variants_run
        if view == "Front":
            self._show_front()
            return
        kind = self._detail if view == "Builds" else "log"
        self._wanted = kind, record.id if record is not None else ""
        whole = kind == "changes" and self.app.size.height < LOW
        self.query_one(RecordView).display = not whole
        if kind != "changes" and (record is None or record.state != "done" or kind == "log"):
            self.detail.show_log(record, live)
        else:
            self._look("about", self._tell)

    async def _tell(self) -> None:
        wanted, row, pair = self._wanted, self.row, self._pair()
        if self._detail:
            text = await asyncio.to_thread(changes_text, pair, self._records)
        else:
            text = await asyncio.to_thread(summary_of, row)
        if wanted == self._wanted and self._alive:
            self.detail.show_text(text)

    # -- comparing ---------------------------------------------------------------------------------

    def _pair(self) -> tuple[BuildRow, BuildRow] | str:
        """The build under the cursor and the marked one, else the one before, the older first; in
        words why there are no two.
        """
        row = self.row
        if row is None or row.state != "done":
            return "only a finished build can be compared."
        if row.id == self._marked:
            return "this build is the marked one: go to the one to compare it with."
        done = [one for one in self._times.rows if one.state == "done" and one.id != row.id]
        wanted = (self._marked, row.before.id if row.before is not None else "")
        found = [one for id_ in wanted for one in done if one.id == id_] or done
        if not found:
            return "there is no other build of this model yet."
        first, second = sorted((found[0], row), key=lambda one: one.started)
        return first, second

    # -- views -------------------------------------------------------------------------------------

    @on(ViewBar.Changed)
    def _show_view(self, event: ViewBar.Changed) -> None:
        table = self.history
        table.declared, table.what, empty = TABLES[event.name]
        table.set_empty(with_keys(empty))
        table.set_filter("")
        if event.name != "Builds":  # back there, the table has the keys
            self._detail = ""
        self.query_one(FrontChart).display = event.name == "Front"
        self._fill()
        self._show_detail()
        table.focus()
        self.refresh_bindings()

    # -- actions -----------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        record = self.record if self.is_attached else None
        if method == "copy_command" and not self.command_line():
            return "no command does what this job did."
        if method == "refresh" or (method == "run" and self.view == "Variants"):
            return self.workbench.disabled_reason(REGISTRY["app.build"])
        if method == "stop":
            return "" if self.session.running is not None else "no job is running."
        if method in ("run", "log", "note", "detail"):
            return "" if record is not None else "there is no job here ({app.build} builds)."
        if method == "compare":
            pair = self._pair()
            return pair if self._detail != "changes" and isinstance(pair, str) else ""
        if method == "export" and self.view == "Front":
            return "" if self._times.points else "no build has both figures yet."
        if method in ("mark", "export") and self.view in ("Builds", "Front"):
            done = record is not None and record.state == "done"
            return "" if done else "only a finished build has that."
        if method == "filter" and self.is_attached and self.detail.in_log:
            return ""
        return super().unavailable_reason("save_table" if method == "export" else method)

    def action_stop(self) -> None:
        """Ask whether the job under the cursor, or else a running one, shall stop."""
        job = self.session.jobs.get(self.record.id) if self.record is not None else None
        self.workbench.stopping.ask(job if job is not None and job.running else None)

    def action_back(self) -> None:
        """Back from the comparison or the found lines; of a job that runs ask to stop it."""
        if self.view == "Builds" and self._detail:
            self._detail = ""
            self._show_detail()
            self.history.focus()
        elif self.detail.log_pane.found is not None:
            self.detail.log_pane.show_found(None)
        elif self.detail.in_log:
            self.history.focus()
        elif self.session.running is not None:
            self.action_stop()

    def action_run(self) -> None:
        """Start the job under the cursor again, as it was; in Variants ask what to vary."""
        if self.view == "Variants":
            now = SweepParams(dict(self.session.recipe), default_axes())
            start = partial(self.start_job, SWEEP, title="build variants")
            SWEEP_FORM.ask(self.app, now, then=start)
        elif (record := self.record) is not None:
            self.workbench.do(self.bridge.again(record))
            self.notify(f"Started again: {record.title}", markup=False)

    def action_refresh(self) -> None:
        """Build what is open, every stage anew."""
        self.workbench.build(refresh=True)

    def action_mark(self) -> None:
        """Mark the build under the cursor: others are compared with it."""
        record = self.record
        if record is not None:
            self._marked = "" if self._marked == record.id else record.id
            self._fill()
            self._show_detail()
            self.refresh_bindings()

    def action_compare(self) -> None:
        """Say what differs between this build and the marked one, else the one before."""
        if self.view != "Builds":
            self.bar.choose("Builds")
        self._detail = "" if self._detail == "changes" else "changes"
        self._show_detail()
        (self.detail.about if self._detail else self.history).focus()

    def action_detail(self) -> None:
        """Show the log of a build in the place of its summary, and back."""
        self._detail = "" if self._detail == "log" else "log"
        self._show_detail()

    def action_note(self) -> None:
        """Ask for a note about the build under the cursor."""
        from rknntui.screens.dialogs.dialogs import PromptDialog, ask_user

        record = self.record
        if record is not None:
            dialog = PromptDialog(
                "Note", "What this build is for; it stands in its row.", record.note
            )
            ask_user(self.app, dialog, partial(self._write_note, record.id))

    def _write_note(self, build: str, text: str) -> None:
        from engine import EngineError, write_note

        try:
            write_note(build, text)
        except EngineError as error:
            self.workbench.show_error(error)
        self._reload()

    @on(Rows.Chosen, "#history")
    def _choose(self) -> None:
        """Open a build again with its recipe, apply a variant, go into the log of a job."""
        record = self.record
        if self.view == "Jobs":
            self.detail.log_pane.focus()
        elif self.view == "Variants":
            chosen: Mapping[str, Any] = self.history.record or {}
            self.session.set_values(chosen["values"])
            keys = with_keys("{app.undo} undoes it, {app.build} builds.")
            self.notify(f"Applied to the recipe: {chosen['title']}. {keys}", markup=False)
        elif record is not None and recipe_of(record).get("model"):
            self.workbench.do(self._open_again(record))

    async def _open_again(self, record: JobRecord) -> None:
        from rknntui.screens.dialogs.prompts import ask_trust
        from rknntui.session.open_flow import open_build

        await ask_trust(self.workbench, recipe_of(record))
        before = self.session.recipe
        await open_build(self.session, self.bridge, record)
        back = before.get("model") and before != self.session.recipe
        undo = " {app.undo} goes back." if back else ""
        self.notify(with_keys(f"The build is open with its recipe.{undo}"))
        self.post_message(GoTo("overview"))

    # -- the log -----------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Open the line that searches the log, where it has the focus, else the table's filter."""
        if self.detail.in_log:
            self.detail.search()
        else:
            super().action_filter()

    def action_step_match(self, by: int) -> None:
        """Go to another line that was found."""
        self.detail.log_pane.action_move(by)

    def action_log(self) -> None:
        """Read what libraries wrote while the job ran."""
        from engine import read_log
        from rknntui.screens.dialogs.dialogs import TextDialog

        record = self.record
        if record is not None:
            rows = read_log(record.id).splitlines() or ["Nothing was written."]
            lines = [[(sanitize(row, 400), "")] for row in rows[-5000:]]
            self.app.push_screen(TextDialog(f"Log: {record.title}", lines))

    # -- writing -----------------------------------------------------------------------------------

    def action_export(self) -> None:
        """Write what is shown: the report of a build, the log of a job, a table."""
        record = self.record
        if self.view == "Jobs" and record is not None:
            self.workbench.output.save("Write the log", "job.log", self.detail.log_pane.text())
        elif self.view == "Builds" and record is not None:
            self.workbench.do(self._report(record))
        elif self.view == "Front":
            from engine import front_chart

            chosen = self.row.id if self.row else ""
            text = front_chart(self._times.points, str(self.session.chip), chosen)
            self.workbench.output.save("Write the chart", "front.svg", text)
        else:
            self.action_save_table()

    async def _report(self, record: JobRecord) -> None:
        recipe = recipe_of(record)
        text = await report_text(self.bridge, self._records, record)
        name = sanitize(PurePath(str(recipe.get("model"))).stem, 60)
        self.workbench.output.save("Write the report", f"{name}.html", text)

    def copy_text(self) -> str:
        if self.detail.in_log:
            return self.detail.log_pane.text()
        if self.detail.about.has_focus:
            return self.detail.about.text()
        return self.record_text()

    def command_line(self) -> list[str]:
        record = self.record
        return job_command(record.method, record.params) if record is not None else []
