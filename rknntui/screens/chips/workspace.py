"""Workspace Chips: what the model costs on every chip, and what an NPU runs of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult

from engine import UsageError, answer_lines, input_sizes
from engine.wire.build import EXPORT, Exported
from engine.wire.codegen import CODEGEN, CodegenParams, Generated
from engine.wire.compile import COMPILE
from engine.wire.cost import COST_CALIBRATE, CalibrateParams, Estimates
from engine.wire.encryption import ENCRYPTION_ENCRYPT, Encrypted
from engine.wire.goal import Goal
from engine.wire.segments import Segments
from rknntui.links import GoToCompile, GoToCompiled, GoToLayer
from rknntui.screens.base.views import TableWorkspace, Views
from rknntui.screens.chips import words
from rknntui.screens.chips.code import ask_project, show_file, write_project
from rknntui.screens.chips.compiling import Targets, ask_compile
from rknntui.screens.chips.estimates import (
    AS_IS,
    DTYPES,
    FIRST_GOAL,
    GOAL,
    WHAT_IF,
    Answers,
    ask_report,
)
from rknntui.screens.chips.exports import (
    FILE_JOBS,
    ask_encrypted,
    ask_export,
    ask_segments,
    forget_key,
    show_written,
)
from rknntui.screens.chips.panes import ChipViews
from rknntui.screens.chips.toolkits import (
    NO_TOOLKIT,
    TOOLKIT_JOBS,
    KnownToolkits,
    ask_adopt,
    ask_install,
    ask_remove,
    check,
)
from rknntui.session.messages import ResultFound, TargetChanged
from rknntui.session.target import generation_of
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import FactsLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine import Finding
    from engine.wire.cost import Calibrated, ChipEstimate, WhatIf
    from rknntui.links import Link
    from rknntui.session.messages import JobChanged, JobEnded, RecipeChanged

_FIRST = "rk3588"
"""The chip that is looked at first where there is no target."""
_NONE = "No model is open.\n\n{app.open} opens a model or a recipe."
_EMPTY = {
    "Advice": "Nothing to advise: all layers run on the NPU of this chip, and no tip of the "
    "manuals applies to this model.",
    "Roofline": "No layer of this model multiplies, or none takes time.",
    "Memory": "No tensors are known for this chip.",
}
_JOBS = (EXPORT.name, COMPILE.name, CODEGEN.name, *FILE_JOBS, *TOOLKIT_JOBS)


class Chips(TableWorkspace):
    """The chips side by side: estimated, compiled for; and all that is made of the build."""

    NAME = "chips"
    HELP = (
        "What the model costs on every chip, before you own one (estimated; intervals hold nine "
        "in ten), and what an NPU runs of it. ◆ is the target, {chips.mark} marks chips: "
        "{chips.run} compiles for them, {chips.compare} sets their layers side by side. "
        "{chips.goal} asks which chips do so many frames a second, and what the others need. "
        "{chips.edit} estimates another dtype, input size, batch, number of cores or clock. Enter "
        "shows the layers of the target in Layers. Code writes a project with the compiled model "
        "in it, Exports has files for other tools, segments and encryption, Toolkits the vendor's "
        "compilers. Jobs go on when the workbench closes."
    )
    FIRST_FOCUS = "#chip-table"

    def __init__(self) -> None:
        super().__init__()
        self.scenario = AS_IS
        self.answers = Answers(self)
        self.toolkits = KnownToolkits(self, self.draw)
        self._chip = ""
        self._place = True  # the cursor is still to be put on the chip that is looked at
        self._asked_for = False

    def compose(self) -> ComposeResult:
        yield FactsLine(id="chips-facts")
        yield ChipViews(self)

    @property
    def views(self) -> ChipViews:
        """The eight views."""
        return self.query_one(ChipViews)

    @cached_property
    def targets(self) -> Targets:
        """The chips, which are marked, and how they are compiled for."""
        return Targets(self.session)

    @property
    def varied(self) -> bool:
        """Whether the estimates are of something else than the recipe."""
        return self.scenario != AS_IS

    @property
    def overview(self) -> Estimates:
        """All chips, with what is varied."""
        return self.answers.overview(self.scenario)

    @property
    def before(self) -> Estimates:
        """All chips with the recipe as it is; none where nothing is varied."""
        return self.answers.overview() if self.varied else Estimates("", (), 0.0)

    @property
    def estimate(self) -> ChipEstimate | None:
        """The chip that is looked at, with its layers."""
        return self.answers.estimate(self.chip)

    @property
    def chip(self) -> str:
        """The chip that is looked at; the target before another one is."""
        names = self.names
        return next(name for name in (self._chip, self.session.chip, _FIRST) if name in names)

    @property
    def compared(self) -> tuple[str, ...]:
        """That chip and the marked ones."""
        return tuple(dict.fromkeys((self.chip, *self.targets.marked)))

    @property
    def names(self) -> list[str]:
        """All chips, as they are sorted in their table."""
        shown = [str(record["chip"]) for record in self.views.chips.table.records]
        return shown if len(shown) == len(self.targets.facts) else [*self.targets.facts]

    @property
    def missing(self) -> list[str]:
        """The chips that may not reach the goal, as they are sorted."""
        lost = {row.chip for row in self.overview.chips if row.reaches in ("no", "maybe")}
        return [name for name in self.names if name in lost]

    @property
    def said(self) -> str:
        """What stands where a view has no rows; keys as in help texts."""
        if self.view == "Toolkits":
            return NO_TOOLKIT
        if not self.session.request:
            return _NONE
        if self.answers.error:
            return self.answers.error
        known = self.estimate
        if known is None or (self.view == "Advice" and self.answers.advice(self.chip) is None):
            return "Estimating …"
        return known.problem or _EMPTY.get(self.view, "No layer.")

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self._asked_for = False
        self.toolkits.ask()
        self.answers.update()
        self.draw()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """Other options, other figures; another target is looked at."""
        if "target_platform" in message.names:
            self._chip, self._place = "", True
        if self.shown:
            self.answers.update(rest=True)
            self.draw()

    def on_model_opened(self) -> None:
        """Another model has other inputs and layers; what was made is of the one before."""
        self.scenario = AS_IS
        self.views.exports.forget()
        self.views.code.forget()
        if self.shown:
            self.update_view()

    def on_job_changed(self, message: JobChanged) -> None:
        """A job of this workspace moved on."""
        job = self.session.jobs.get(message.job)
        if job is not None and job.method in _JOBS:
            self.draw()

    @on(TargetChanged)
    @on(ResultFound)
    def draw(self) -> None:
        """Show what is known, where this workspace is on the screen."""
        if not self.is_attached or not self.shown:
            return
        views = self.views
        views.draw()
        if views.view == "Chips" and self._place and views.chips.chip:
            self._place = False
            views.chips.table.select_record("chip", self.chip)
        self._tell()
        if self._asked_for:
            self._asked_for = False
            self._start()

    def on_job_ended(self, message: JobEnded) -> None:
        """Take what was made."""
        job = self.session.jobs.get(message.job)
        if job is None or job.method not in _JOBS:
            return
        match message.result:
            case Exported() as result if self.session.is_ours(job):
                self.views.exports.written(result)
                if self.shown:
                    show_written(self.app, result)
            case Generated() as result:
                self.views.code.result = result
            case (Encrypted() | Segments()) as result if self.shown:
                show_written(self.app, result)
        if job.method == ENCRYPTION_ENCRYPT.name:
            forget_key(self)
        if job.method in TOOLKIT_JOBS:
            self.toolkits.ask()
        self.draw()

    def _tell(self) -> None:
        self.query_one(FactsLine).show(*words.top_facts(self))
        self.screen.refresh_bindings()

    # -- views -----------------------------------------------------------------------------------

    @on(Views.Changed)
    def _changed(self, event: Views.Changed) -> None:
        if event.view:
            self.views.set_class(False, "-detail")
            if self.view == "Toolkits":
                self.toolkits.ask()
            self.answers.update()
            self.draw()
            return
        # drawn anew it is still the same chip: what is asked for it is not asked again
        if self.view == "Chips" and self.views.chips.chip not in ("", self._chip):
            self._chip = self.views.chips.chip
            self.answers.update(rest=True)
        self.views.tell()
        self._tell()

    def action_detail(self) -> None:
        """Show the detail in the place of the table, or below it again."""
        self.views.show_detail(not self.views.whole)

    def action_back(self) -> None:
        """From the detail to the table, from another view to the chips."""
        if self.views.whole:
            self.views.show_detail(False)
        else:
            self.views.bar.choose("Chips")

    @on(Rows.Chosen, "#chip-table")
    def _open_chip(self) -> None:
        """The layers of the target; those of another chip beside them."""
        self._chip = self.views.chips.chip or self._chip
        target = self.session.chip
        if target and self._chip == target:
            self.post_message(GoToLayer(self.session.layers.cursor, "cost"))
        else:
            self.targets.marked.update(dict.fromkeys((target,) if target else ()))
            self.views.bar.choose("Compare")

    @on(Rows.Chosen, "#roof-layers, #compared-chips, #advice-table")
    def _open_layer(self) -> None:
        if layer := self.views.layer_id:
            self.post_message(GoToLayer(layer, "cost"))

    @on(Rows.Chosen, "#export-forms, #toolkits, #code-settings")
    def _open_row(self) -> None:
        self.run_or_say({"Toolkits": "detail", "Code": "edit"}.get(self.view, "run"))

    @on(Rows.Chosen, "#code-files")
    def _open_file(self) -> None:
        if path := self.views.code.file:
            show_file(self, path)

    def run_or_say(self, method: str) -> None:
        """Do an action, or say why it cannot be done."""
        if not self.not_now(self.disabled_reason(method)):
            getattr(self, f"action_{method}")()

    # -- chips -----------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Compare and compile for the chip under the cursor, or no longer; go to the next one."""
        if name := self.views.chips.chip:
            self.targets.mark(name)
            self.draw()
            self.views.chips.table.action_move(1)

    def action_mark_shown(self) -> None:
        """Mark all chips that the filter shows, or where all are marked none of them."""
        self.targets.mark(*(str(row["chip"]) for row in self.views.chips.table.records))
        self.draw()

    def action_compare(self) -> None:
        """Show the layers of the marked chips side by side."""
        self.views.bar.choose("Compare")

    def action_step_chip(self, by: int) -> None:
        """Look at the next chip, or the one before."""
        self._step(self.names, by)

    def action_step_miss(self, by: int) -> None:
        """Look at the next chip that may miss the goal, or the one before."""
        self._step(self.missing, by)

    def _step(self, among: Sequence[str], by: int) -> None:
        """Go on among some of the chips, which need not have the one that is looked at."""
        names, at = self.names, self.names.index(self.chip)
        around = [*names[at:], *names[:at]] if by > 0 else [*names[at::-1], *names[:at:-1]]
        others = [name for name in around[1:] if name in among]
        if others:
            self._chip, self._place = others[0], True
            self.answers.update()
            self.draw()

    # -- estimates -------------------------------------------------------------------------------

    def action_estimate(self) -> None:
        """Forget the answers and ask again."""
        self.answers.forget()
        self.update_view()

    def action_goal(self) -> None:
        """Ask how many frames a second are to be reached."""
        now = Goal(self.answers.goal or FIRST_GOAL)
        GOAL.ask(self.app, now, then=lambda goal: self._vary((self.scenario, goal)))

    def action_edit(self) -> None:
        """Ask what the view is made of: what an estimate varies, a project, an export."""
        match self.view:
            case "Code":
                ask_project(self, self.views.code.project, self.names, self._set_project)
            case "Exports":
                self._export()
            case _:
                now = (self.scenario, Goal(self.answers.goal))
                dtypes = {"dtype": DTYPES}
                WHAT_IF.ask(self.app, *now, then=self._vary, check=self._checked, choices=dtypes)

    def _checked(self, asked: WhatIf, goal: Goal) -> tuple[WhatIf, Goal]:
        shapes = {one.name: one.shape for one in self.session.inputs}
        try:
            input_sizes(asked.input_sizes if shapes else (), shapes)
        except UsageError as error:
            raise ValueError(f"{error.what} {error.remedy}".strip()) from error
        return asked, goal

    def _vary(self, asked: tuple[WhatIf, Goal]) -> None:
        self.scenario, self.answers.goal = asked[0], asked[1].fps
        self.answers.update()
        self.draw()

    def _set_project(self, project: CodegenParams) -> None:
        self.views.code.project = project
        self.draw()

    def action_reset(self) -> None:
        """Go back to the recipe's own figures, without a goal."""
        self._vary((AS_IS, Goal()))

    def action_report(self) -> None:
        """Ask for a file and write the report: all chips, or those that the view shows."""
        ask_report(self)

    def action_calibrate(self) -> None:
        """Correct the estimates by the newest measured run of this model, and say by how much."""

        def done(found: Calibrated) -> None:
            self.notify("\n".join(answer_lines(found)), title="Calibrated", markup=False)
            self.action_estimate()

        self.ask(COST_CALIBRATE, CalibrateParams(**self.session.request), done)

    # -- making ----------------------------------------------------------------------------------

    def action_run(self) -> None:
        """Do what the view is for: compile, write, export, check."""
        match self.view:
            case "Toolkits":
                if (row := self.views.toolkits.environment) is not None:
                    check(self, row)
            case "Code":
                write_project(self, self.views.code.project)
            case "Exports":
                self._export()
            case _:
                self._start()

    def _start(self) -> None:
        if not self.not_now(self.disabled_reason("run")):
            wanted = self.targets.wanted(self.chip)
            ask_compile(self, self.targets, wanted, self.toolkits.rows or ())

    def _export(self) -> None:
        form, last = self.views.exports.form, self.views.exports.last
        match form.of_file:
            case "encrypt":
                ask_encrypted(self, last or self.session.compiled or "")
            case "segments":
                made = self.session.compilations.values()
                old = (row.path for row in made if row.path and generation_of(row.chip) == 1)
                ask_segments(self, last or next(old, ""), self.names)
            case _:
                ask_export(self, form)

    def action_install(self) -> None:
        """Ask where the toolkit is from, and install it."""
        ask_install(self)

    def action_adopt(self) -> None:
        """Ask for an environment that is there already."""
        ask_adopt(self)

    def action_use(self) -> None:
        """Use the environment under the cursor where none is named."""
        if (row := self.views.toolkits.environment) is not None:
            self.toolkits.use(row)

    def action_remove(self) -> None:
        """Ask, and remove the environment under the cursor."""
        if (row := self.views.toolkits.environment) is not None:
            ask_remove(self, row)

    # -- links -----------------------------------------------------------------------------------

    def arrive(self, link: Link) -> None:
        if not isinstance(link, GoToCompile):
            return
        if link.chip:
            self.targets.marked[link.chip] = None
        self.views.bar.choose(link.view or "Chips")
        self._asked_for = not link.view and self.session.model is not None
        self.draw()

    def action_board(self) -> None:
        """Run what was compiled for the chip on a board."""
        if (compiled := self.session.compilations.get(self.chip)) is not None:
            self.post_message(GoToCompiled(compiled.path))

    def linked_layer(self, method: str) -> str:
        return self.views.layer_id

    # -- what the shell asks ---------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        own = words.REASONS.get(method) if self.is_attached else None
        return own(self) if own is not None else super().unavailable_reason(method)

    def listed_findings(self) -> Sequence[Finding]:
        if not self.is_attached:
            return ()
        compiled = self.session.compilations.get(self.chip)
        made = {"Code": self.views.code.result, "Chips": compiled}.get(self.view)
        return () if made is None else made.findings

    def copy_text(self) -> str:
        views = self.views
        if views.whole:
            return views.told.text()
        if views.view == "Code" and views.code.file and views.code.files.has_focus:
            return views.code.file
        return self.record_text()

    def command_line(self) -> list[str]:
        return words.command_line(self)
