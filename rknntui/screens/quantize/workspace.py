"""Workspace Quantize: build with progress and log, then the summary, layers and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Vertical

from engine import Finding, summary_text
from engine.wire.build import BUILD, BuildSummary
from engine.wire.build_tables import QUANT_TABLE
from engine.wire.codec import Values
from engine.wire.hybrid import JOINS
from engine.wire.layers import KERNELS, layers_of
from engine.wire.model import RANGES
from engine.wire.requests import ModelTarget
from engine.wire.sweep import SWEEP, Sweep
from rknntui.keys.actions import with_keys
from rknntui.keys.commandline import command_for, job_command
from rknntui.links import GoTo, GoToLayer, GoToNode, GoToOption
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.quantize import panes
from rknntui.screens.quantize.panes import BuildFindings, BuildStarter, ComparePane
from rknntui.widgets.job_pane import JobPane
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import FactsLine, ViewBar
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.summary import SummaryRows

if TYPE_CHECKING:
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import (
        BuildFinished,
        JobChanged,
        JobEnded,
        RecipeChanged,
        ResultFound,
    )

_FLOAT = "The build is not quantized: it runs in float32."
_CONTAINER = "The ranges of a container are not shown here; open its model and build."


class Quantize(TableWorkspace):
    """What is built on top; below it the views of the running or the last build."""

    NAME = "quantize"
    HELP = (
        "Builds the model: load, optimise, calibrate, quantize, compare, pack. Stages with "
        "unchanged inputs come from the cache. {quantize.stop} stops the build, after a "
        "confirmation. "
        "In the summary, Enter on a layer shows its histograms."
    )
    FIRST_FOCUS = "#summary"
    PANES = {
        "Summary": "summary",
        "Layers": "layers-view",
        "Ranges": "ranges-view",
        "Findings": "build-findings",
        "Compare": "compare",
        "Log": "log",
    }
    DEFAULT_CSS = """
    Quantize {
        & #views { height: 1fr; }
        & #layers-view, & #ranges-view, & #log { display: none; height: 1fr; }
        & #build-findings, & #compare { display: none; height: 1fr; }
        & #build-findings { padding: 0 1; }
        & #summary { height: 1fr; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._ranges_of: Values | None = None
        self._shown_summary: BuildSummary | None = None
        self._builds = BuildStarter(self, self.show_view)

    def compose(self) -> ComposeResult:
        yield FactsLine(id="build-facts")
        yield ViewBar(tuple(self.PANES), id="view-bar")
        with Vertical(id="views"):
            yield SummaryRows(id="summary")
            layers = LayerTable(KERNELS, id="layers", what="layers", empty="")
            yield LayerView(
                "Quantized layers and their kernels (simulated)", layers, id="layers-view"
            )
            ranges = RecordTable(QUANT_TABLE, id="ranges", what="ranges", empty="")
            yield RecordView("Tensor ranges", ranges, id="ranges-view")
            yield BuildFindings(id="build-findings")
            yield ComparePane(id="compare")
            yield JobPane(id="log")

    def on_mount(self) -> None:
        self.set_interval(1, self._tick)

    findings = getters.query_one(BuildFindings)
    """What the build found."""

    @property
    def job(self) -> JobView | None:
        """The build that runs, else the last one of the open model, also of an earlier run."""
        newest = self.session.newest(BUILD.name)
        if newest is not None and newest.running:
            return newest
        build = self.session.last_of(BUILD)
        ours = self.session.newest(BUILD.name, ours=True)
        return ours or (build[0] if build is not None else None)

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self._show_comparison()
        self._draw()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """The last build may be outdated."""
        if self.shown:
            self._draw()

    def on_problems_changed(self) -> None:
        """What stands in the way of a build changed."""
        if self.shown:
            self._tell()

    def on_model_opened(self) -> None:
        """Another model has another summary, or none."""
        if self.shown:
            self._show_comparison()
            self._draw()

    def on_job_changed(self, message: JobChanged) -> None:
        """Draw the running build."""
        if self.shown:
            self._say_empty()
            self._tell()
            if self.job is not None and self.job.id == message.job:
                self.query_one(JobPane).set_job(self.job)
            job = self.session.jobs.get(message.job)
            if job is not None and job.method == SWEEP.name and job.running:
                self.query_one(ComparePane).set_job(job, None)

    def on_job_ended(self, message: JobEnded) -> None:
        """Back to the summary when a build is done; the log stays on screen when it is not."""
        if message.method == BUILD.name and self.shown:
            self._draw()
        elif message.method == SWEEP.name:
            result = message.result if isinstance(message.result, Sweep) else None
            self.query_one(ComparePane).set_job(self.session.jobs.get(message.job), result)

    def on_result_found(self, message: ResultFound) -> None:
        """A comparison of an earlier run fits the recipe."""
        if message.method == SWEEP.name:
            self._show_comparison()

    def _show_comparison(self) -> None:
        """Show the last comparison of the open model, where no other one is shown."""
        pane = self.query_one(ComparePane)
        if pane.job is not None and not self.session.is_ours(pane.job):
            pane.clear()
        sweep = self.session.last_of(SWEEP)
        if sweep is not None and pane.job is None:
            pane.set_job(*sweep)

    def on_build_finished(self, message: BuildFinished) -> None:
        """Show its summary."""
        self._ranges_of = None
        if self.shown:
            self._draw()
            if self.bar.current == "Log":
                self.show_view("Summary")

    def _draw(self) -> None:
        summary = self.session.summary
        if summary is not self._shown_summary:
            self._shown_summary = summary
            self._ranges_of = None
            self.query_one(SummaryRows).show(summary)
            table = self.query_one("#layers", LayerTable)
            table.show_layers(layers_of("kernel", summary.layers if summary else ()))
        self.findings.look(self.session)
        if summary is None:
            self.query_one(SummaryRows).show(None)
        self._say_empty()
        self.query_one(JobPane).set_job(self.job)
        self._tell()
        if self.bar.current == "Ranges":
            self._ask_ranges()

    def _say_empty(self) -> None:
        """What stands where there is nothing to show."""
        summary = self.session.summary
        floating = summary is not None and not summary.quantized
        table = self.query_one("#layers", RecordTable)
        table.set_empty(_FLOAT if floating else panes.no_build(self.session))
        log = panes.no_log_lines(self.session, self.job)
        said = {"summary": panes.empty_lines(self.session), "log": log}
        for name, lines in said.items():
            pane = self.query_one(f"#{name}", Rows)
            if pane.empty != lines:
                pane.empty = lines
                pane.refresh()

    def _tick(self) -> None:
        if self.shown and self.job is not None and self.job.running:
            self._tell()

    def _tell(self) -> None:
        """The line on top, and the stages while a build runs."""
        facts = panes.facts(self.session, self.job, exact=not self.findings.not_exact)
        self.query_one("#build-facts", FactsLine).show(*facts)

    # -- views -----------------------------------------------------------------------------------

    def pane_shown(self, view: str) -> None:
        if view == "Ranges":
            self._ask_ranges()
        pane = self.query_one(f"#{self.PANES[view]}")
        (pane.table if isinstance(pane, RecordView | ComparePane) else pane).focus()

    def show_view(self, name: str) -> None:
        """Show a view."""
        self.bar.choose(name)

    def _ask_ranges(self) -> None:
        table = self.query_one("#ranges", RecordTable)
        built = self.session.built
        summary = self.session.summary
        if summary is None or not summary.quantized or built is None:
            table.set_records([])
            said = _CONTAINER if summary and summary.quantized else _FLOAT
            table.set_empty(said if summary is not None else panes.no_build(self.session))
            return
        if built is self._ranges_of:
            return
        self._ranges_of = built
        table.set_empty("reading …")
        self.ask(
            RANGES,
            ModelTarget(recipe=built),
            lambda answer: table.set_records([QUANT_TABLE.record(row) for row in answer.tensors]),
        )

    # -- actions ---------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if method in ("build", "refresh"):
            if self.session.container is not None:
                return "a container is already built; open its model to build."
            if not self.session.recipe.get("model"):
                return "no model is open ({app.open} opens one)."
            if self.job is not None and self.job.running:
                return "a build is running."
            return ""
        if method == "stop":
            return "" if self.session.running is not None else "no job is running."
        if method == "compare":
            return self.unavailable_reason("build")
        if method in ("worst", "accuracy", "export"):
            if self.session.summary is None:
                return "there is no build yet ({app.build} builds)."
            if method == "worst" and not self.session.summary.worst:
                return "the build is not quantized."
        return super().unavailable_reason(method)

    @on(BuildFindings.JoinsWanted)
    def _ask_joins(self, event: BuildFindings.JoinsWanted) -> None:
        pane = self.findings
        target = ModelTarget(recipe=event.recipe)
        self.ask(JOINS, target, pane.take_joins, failed=pane.no_joins)

    @on(BuildFindings.Counted)
    def _tell_findings(self, event: BuildFindings.Counted) -> None:
        many = "findings" if event.count > 1 else "finding"
        self.bar.set_note(f"! {event.count} {many}" if event.count else "")
        if self.shown:
            self.screen.refresh_bindings()

    def listed_findings(self) -> Sequence[Finding]:
        return self.findings.chosen()

    def action_build(self) -> None:
        """Check the recipe, then build; a problem is shown where it is mended."""
        self._builds.build()

    def action_refresh(self) -> None:
        """Build every stage again."""
        self._builds.build(refresh=True)

    def action_compare(self) -> None:
        """Ask for options and values, then build every combination."""
        self._builds.compare()

    def action_stop(self) -> None:
        """Ask whether the running job shall stop."""
        self.workbench.ask_to_stop(self.session.running)

    def action_worst(self) -> None:
        """Show the worst layer in Accuracy."""
        if self.session.summary is not None:
            self.post_message(GoToLayer(self.session.summary.worst[0].layer))

    def action_accuracy(self) -> None:
        """Show the ranking."""
        self.post_message(GoTo("accuracy"))

    @on(Rows.Chosen, "#compared")
    def _take_values(self) -> None:
        record = self.query_one(ComparePane).table.record
        if record is not None:
            self.session.set_values(record["values"])
            keys = with_keys("{app.undo} undoes it, {app.build} builds.")
            self.notify(f"Applied to the recipe: {record['title']}. {keys}")

    @on(Rows.Chosen, "#summary")
    def _summary_chosen(self) -> None:
        kind, name = self.query_one(SummaryRows).target or ("", "")
        if kind == "layer":
            self.post_message(GoToLayer(name))
        elif kind == "option":
            self.post_message(GoToOption(name))
        elif kind == "view":
            self.show_view(name)
        elif kind == "command":
            self.workbench.copy(name)

    @on(Rows.Chosen, "#layers")
    def _layer_chosen(self) -> None:
        record = self.query_one("#layers", RecordTable).record
        if record is not None:
            self.post_message(GoToNode(record["id"]))

    @on(Rows.Chosen, "#ranges")
    def _range_chosen(self) -> None:
        record = self.query_one("#ranges", RecordTable).record
        if record is not None:
            self.post_message(GoToLayer(record["tensor"]))

    def copy_text(self) -> str:
        view = self.bar.current
        if view == "Log":
            return self.query_one(JobPane).text()
        if view == "Findings":
            return self.findings.text()
        if view == "Summary":
            return summary_text(self.session.summary) if self.session.summary else ""
        return self.record_text()

    def command_line(self) -> list[str]:
        sweep = self.query_one(ComparePane).job
        if self.bar.current == "Compare" and sweep is not None:
            return job_command(SWEEP.name, sweep.params)
        return command_for("build", self.session)
