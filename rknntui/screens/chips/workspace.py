"""Workspace Chips: what the open model costs on every chip, estimated."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult

from engine.wire.cost import EstimateParams
from rknntui.links import GoToDeploy
from rknntui.screens.base.views import TableWorkspace, Views
from rknntui.screens.chips.estimates import AS_IS, WHAT_IF, Answers, Want, ask_report, checked
from rknntui.screens.chips.listing import calibrate, show_facts
from rknntui.screens.chips.panes import ChipViews, Shown
from rknntui.screens.chips.words import command_line, top_facts
from rknntui.screens.dialogs.dialogs import ChoiceDialog, ask_user
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import FactsLine

if TYPE_CHECKING:
    from engine.wire.cost import ChipEstimate, Estimates, WhatIf
    from rknntui.session.messages import RecipeChanged

_FIRST = "rk3588"
"""The chip that is looked at first where the recipe names none."""


class Chips(TableWorkspace):
    """The chips side by side; layers, memory, roofline, checks and advice of one of them."""

    NAME = "chips"
    HELP = (
        "What the model costs on every chip, before you own one: all figures are estimated, with "
        "the interval that holds nine times in ten. Enter shows the layers of the chip under the "
        "cursor, {chips.mark} marks chips for Compare. {chips.what_if} estimates another dtype, "
        "input size, batch, number of cores or clock; {chips.reset} goes back. Layers have the "
        "time, what bounds it and why one is not on the NPU; Memory shows the tensors over time, "
        "Roofline the rate of each layer below what the chip can do, Check the layers that are "
        "not on the NPU with the fix, Advice what would make the model faster."
    )
    FIRST_FOCUS = "#chip-table"

    def __init__(self) -> None:
        super().__init__()
        self.scenario = AS_IS
        self.marked: dict[str, None] = {}
        self.answers = Answers(self, self._want, self._draw)
        self._chip = ""
        self._wanted_layer = ""

    def compose(self) -> ComposeResult:
        yield FactsLine(id="chips-facts")
        yield ChipViews(id="chips-panes")

    views = getters.query_one(ChipViews)
    """The seven views."""

    @property
    def overview(self) -> Estimates | None:
        """All chips, with what is varied."""
        return self.answers.overview(self.scenario)

    @property
    def chip(self) -> str:
        """The chip that is looked at; the recipe's before another one is."""
        names = self.names
        if self._chip in names:
            return self._chip
        for name in (str(self.session.recipe.get("target_platform") or ""), _FIRST):
            if name.lower() in names:
                return name.lower()
        return names[0] if names else ""

    @property
    def names(self) -> list[str]:
        """All chips, as they are sorted in their table."""
        overview = self.overview or self.answers.overview()
        known = [row.chip for row in overview.chips] if overview is not None else []
        shown = [str(record["chip"]) for record in self.views.chips.table.records]
        return shown if set(shown) == set(known) else known

    def _want(self) -> Want:
        chip = self.chip
        others = tuple(name for name in self.marked if name != chip)
        return Want(self.views.view, chip, others, self.scenario)

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self.answers.update()
        self._draw()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """Other options, other figures; another target is looked at."""
        if "target_platform" in message.names:
            self._chip = ""
        if self.shown:
            self.answers.update(rest=True)
            self._draw()

    def on_model_opened(self) -> None:
        """Another model has other inputs and layers."""
        self.scenario, self._wanted_layer = AS_IS, ""
        if self.shown:
            self.update_view()

    def _draw(self) -> None:
        if not self.is_attached or not self.shown:
            return
        opened = bool(self.answers.model)
        views = self.views
        views.draw(Shown(self.answers, self._want(), self.marked, opened))
        if views.view == "Chips" and views.chips.chip != self.chip:
            views.chips.table.select_record("chip", self.chip)
        if self._wanted_layer and views.view == "Layers" and views.costs.table.total:
            self._find_layer()
        self._tell()
        self.screen.refresh_bindings()

    def _tell(self) -> None:
        line = self.query_one(FactsLine)
        if not self.answers.model:
            line.show("no model is open")
            return
        overview = self.overview
        before = self._row(self.answers.overview()) if self.scenario != AS_IS else None
        asking, error = self.answers.asking, self.answers.error
        line.show(
            *top_facts(
                overview, self._row(overview), before, self.scenario, asking=asking, error=error
            )
        )

    def _row(self, overview: Estimates | None) -> ChipEstimate | None:
        rows = overview.chips if overview is not None else ()
        return next((row for row in rows if row.chip == self.chip), None)

    # -- views -----------------------------------------------------------------------------------

    @on(Views.Changed)
    def _changed(self, event: Views.Changed) -> None:
        if event.view:
            self.answers.update()
            self._draw()
            return
        if self.views.view == "Chips" and self.views.chips.chip:
            self._chip = self.views.chips.chip
        self.views.tell()
        self._tell()
        self.screen.refresh_bindings()

    @on(Rows.Chosen, "#chip-table")
    def _open_chip(self) -> None:
        self._chip = self.views.chips.chip or self._chip
        self.views.bar.choose("Layers")

    @on(Rows.Chosen, "#cost-layers, #roof-layers, #compared-chips, #check-layers, #advice-table")
    def _open_layer(self) -> None:
        self.action_node()

    # -- chips -----------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Compare the chip under the cursor, or no longer; go on to the next one."""
        name = self.views.chips.chip
        if not name:
            return
        if name in self.marked:
            del self.marked[name]
        else:
            self.marked[name] = None
        self._draw()
        self.views.chips.table.action_move(1)

    def action_choose(self) -> None:
        """Choose the chip that is looked at."""
        ask_user(self.app, ChoiceDialog("Chip", self.names, self.chip), self._look_at)

    def action_next_chip(self) -> None:
        """Look at the next chip."""
        self._step(1)

    def action_chip_before(self) -> None:
        """Look at the chip before."""
        self._step(-1)

    def _step(self, by: int) -> None:
        names = self.names
        if self.chip in names:
            self._look_at(names[(names.index(self.chip) + by) % len(names)])

    def _look_at(self, name: str) -> None:
        self._chip = name
        self.update_view()

    # -- estimates -------------------------------------------------------------------------------

    def action_estimate(self) -> None:
        """Forget the answers and ask again."""
        self.answers.forget()
        self.update_view()

    def action_what_if(self) -> None:
        """Ask what to vary, and estimate that."""

        def chosen(answer: WhatIf) -> None:
            self.scenario = answer
            self.update_view()

        check = partial(checked, inputs=self.session.inputs)
        WHAT_IF.ask(self.app, self.scenario, then=chosen, check=check)

    def action_reset(self) -> None:
        """Go back to the recipe's own figures."""
        self.scenario = AS_IS
        self.update_view()

    def action_report(self) -> None:
        """Ask for a file and write the report: all chips, or those that the view shows."""
        want = self._want()
        chips = () if want.view == "Chips" else (want.chip, *want.others)
        varied = vars(replace(self.scenario, chips=chips))
        params = EstimateParams(**self.answers.model, **varied, spans=True)
        ask_report(self, params, want.view)

    def action_facts(self) -> None:
        """Show what is known of the chip."""
        show_facts(self, self.chip)

    def action_calibrate(self) -> None:
        """Correct the estimates by the newest run of this model on a board."""
        calibrate(self, self.answers.model, self.action_estimate)

    # -- links -----------------------------------------------------------------------------------

    def _find_layer(self) -> None:
        name, self._wanted_layer = self._wanted_layer, ""
        if not self.views.costs.select_layer(name):
            text = f"{name} is no layer of its own on {self.chip}: it is fused or removed there."
            self.notify(text, markup=False)

    def action_compile(self) -> None:
        """Compile for the chip in Deploy."""
        self.post_message(GoToDeploy("Compile", self.chip))

    def linked_layer(self, method: str) -> str:
        return self.views.layer_id

    # -- what the shell asks ---------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if not self.is_attached:
            return ""
        if method in ("estimate", "what_if", "report", "calibrate") and not self.answers.model:
            return "no model is open ({app.open} opens one)."
        if method == "reset" and self.scenario == AS_IS:
            return "nothing is varied ({chips.what-if} does)."
        if method == "compile" and not self.answers.model:
            return "no model is open ({app.open} opens one)."
        if method in ("mark", "choose", "next_chip", "chip_before", "facts") and not self.names:
            return "there is no estimate yet."
        if method in ("node", "drill", "dtypes") and not self.views.layer_id:
            return "no layer is under the cursor."
        return super().unavailable_reason(method)

    def copy_text(self) -> str:
        return self.record_text()

    def command_line(self) -> list[str]:
        return command_line(self.session, self._want())
