"""What Layers changes: dtypes and ranges, by hand, by a proposal, by a search; and the export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on

from engine import Finding, sanitize
from engine.wire.build import EXPORT, ExportParams
from engine.wire.hybrid import PROPOSE, SEARCH, Proposal, ProposeParams, SearchParams
from rknntui.keys.actions import key_text
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.dialogs.picker import ask_new_file
from rknntui.screens.layers.edits import ask_choice
from rknntui.screens.layers.guide import GuidePane
from rknntui.screens.layers.search import PROPOSE_FORM, SEARCH_FORM, SearchPane, checked_search
from rknntui.screens.layers.words import promoted_text
from rknntui.session.promotion import LAYERS, RANGES, LayerEdits
from rknntui.widgets.layer_table import KnownLayersView, LayerTable
from rknntui.widgets.line_list import Rows

if TYPE_CHECKING:
    from rknntui.session.job_view_model import JobView

_MORE_TIME = 1.05
"""The budget of time that is proposed, over the time of the build."""


class Promoting(TableWorkspace):
    """The actions of a table of layers that change the recipe."""

    def __init__(self) -> None:
        super().__init__()
        self.edits = LayerEdits(self.session)
        self._proposal: ProposeParams | None = None  # as the last one was asked for
        self._proposed_for = ""  # the chip whose time its budget is a share of

    layers_view = getters.query_one(KnownLayersView)
    """The layers with caption and filter."""

    table = getters.query_one("#layers-table", LayerTable)
    """The layers."""

    pane = getters.query_one(SearchPane)
    """The search."""

    guide = getters.query_one(GuidePane)
    """The guide."""

    @property
    def chosen(self) -> str:
        """Id of the layer under the cursor; empty for none."""
        return self.layers_view.layer_id

    @property
    def search(self) -> JobView | None:
        """The search that runs, or the last one."""
        return self.session.jobs.newest(SEARCH.name)

    def action_lift(self) -> None:
        """Promote the marked layers or this one, or take them back."""
        self.not_now(self.edits.lift(self.chosen))

    @on(Rows.Chosen, "#layers-table")
    def action_edit(self) -> None:
        """Ask for dtype and range of the chosen layers in one form."""
        if rows := self.edits.chosen(self.chosen):
            ask_choice(self.app, self.edits, rows)
        else:
            why = self.disabled_reason("edit") or "this layer cannot have another dtype."
            self.not_now(why)

    def action_reset(self) -> None:
        """Ask for nothing any more."""
        self.edits.ask_for({}, {})
        self.notify(f"All overrides are reset. {key_text('app.undo')} undoes it.")

    def action_restart(self) -> None:
        """Begin the guide again."""
        self.guide.restart()
        self.screen.refresh_bindings()

    def action_mark(self) -> None:
        """Mark the layer under the cursor, and go on to the next one."""
        if self.chosen:
            self.session.layers.mark(self.session.layers.marked ^ {self.chosen})
            self.table.action_move(1)

    def action_mark_shown(self) -> None:
        """Mark every row that is shown; where all are, none."""
        shown = {record["id"] for record in self.table.records if record["id"]}
        marked = self.session.layers.marked
        self.session.layers.mark(marked - shown if shown <= marked else marked | shown)

    def action_propose(self) -> None:
        """Ask for a budget of layers and time; then the engine chooses, from the build's errors."""
        table = self.session.layers.table
        chip = "" if table is None else table.chip
        if self._proposal is None or chip != self._proposed_for:
            time = None if table is None or not chip else table.time_ms
            limit = None if time is None else round(_MORE_TIME * time, 3)
            self._proposal = replace(self._proposal or ProposeParams(), budget_ms=limit)
            self._proposed_for = chip

        def start(asked: ProposeParams) -> None:
            self._proposal = asked
            self.start_job(PROPOSE, replace(asked, recipe=self.session.built), "proposal")

        PROPOSE_FORM.ask(self.app, self._proposal, then=start)

    def _proposed(self, found: Proposal) -> None:
        if not found.layers:
            few = self._proposal is not None and self._proposal.budget is None
            why = "none gains about 0.5 dB; a budget of layers takes those that gain most"
            self.notify(f"No layer is proposed: {why if few else 'none fits the budget'}.")
            return
        self.edits.ask_for({**self.edits.layers, **found.layers})
        # behind the notice that its job is done, which the workbench was told first
        self.app.call_later(self._told, found.layers, len(found.ranking))

    def _told(self, layers: Mapping[str, str], chosen: int) -> None:
        """Say how many are promoted; the table has them marked."""
        back = f"{key_text('app.undo')} undoes it."
        self.notify(f"{promoted_text(len(layers), chosen)}; {back}", markup=False)

    def action_search(self) -> None:
        """Ask what to search for, then search."""

        def start(wanted: SearchParams) -> None:
            self.pane.asked, self.pane.found = wanted, None
            asked = {n: self.session.recipe.get(n) for n in (LAYERS, RANGES)}
            recipe = {**(self.session.built or {}), **asked}
            self.start_job(SEARCH, replace(wanted, recipe=recipe), "search of layers")
            self.bar.choose("Search")

        SEARCH_FORM.ask(self.app, self.pane.asked, then=start, check=checked_search)

    action_again = action_search

    def action_pause(self) -> None:
        """Let the search wait, or go on."""
        if self.search is not None:
            self.bridge.pause(self.search.id)

    def action_keep(self) -> None:
        """End the search; its best so far stays."""
        if self.search is not None:
            self.bridge.finish(self.search.id)
            self.notify("The search stops with its best result so far.")

    def action_apply(self) -> None:
        """Ask for the layers of the search's step."""
        if (point := self.pane.point) is not None:
            self.edits.ask_for(dict(point.layers))
            self._told(point.layers, len(point.promoted))
            self.bar.choose("Quality")

    def listed_findings(self) -> list[Finding]:
        """What the step of the guide under the cursor advises."""
        step = self.guide.step if self.view == "Guide" else None
        if step is None or not step.changes:
            return []
        changes = dict(step.changes)
        return [Finding("guide", "info", step.title, step.verdict, "", step.advice, changes)]

    def action_export(self) -> None:
        """Ask for a file, and write the build of the recipe as it is now."""
        session = self.session
        stem = Path(str(session.recipe_path or session.recipe["model"])).stem

        def start(path: str, force: bool) -> None:
            recipe = dict(session.recipe)
            params = ExportParams(recipe=recipe, path=path, format="rknn", force=force)
            self.start_job(EXPORT, params, f"export {sanitize(Path(path).name, 80)}")

        ask_new_file(self.app, "Export the build to", Path.cwd() / f"{stem}.rknn", start)
