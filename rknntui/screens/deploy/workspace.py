"""Workspace Deploy: what an NPU runs: exports, compiled models, toolkits, projects."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult

from engine.wire.build import EXPORT, Exported
from engine.wire.codegen import CODEGEN, CodegenParams, Generated
from engine.wire.compile import COMPILE, CompiledModels, CompileParams
from engine.wire.cost import COST_CHIPS, ChipsParams
from engine.wire.encryption import ENCRYPTION_ENCRYPT, Encrypted
from engine.wire.segments import Segments
from rknntui.links import GoToCompiled, GoToDeploy
from rknntui.screens.base.views import TableWorkspace, Views
from rknntui.screens.deploy import words
from rknntui.screens.deploy.code import (
    ask_setting,
    show_file,
    write_project,
)
from rknntui.screens.deploy.compiling import (
    Targets,
    ask_settings,
    ask_start,
)
from rknntui.screens.deploy.exports import (
    FILE_JOBS,
    ask_encrypted,
    ask_export,
    ask_segments,
    forget_key,
    show_exported,
    show_file_result,
)
from rknntui.screens.deploy.panes import (
    TOOLKIT_JOBS,
    DeployViews,
    KnownToolkits,
    Shown,
    ask_adopt,
    ask_install,
    ask_remove,
    check,
)
from rknntui.screens.deploy.words import (
    command_line,
    compiled_lines,
    generated_lines,
    toolkit_lines,
    top_facts,
)
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import FactsLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine import Finding
    from engine.wire.cost import Chips
    from rknntui.links import Link
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobChanged, JobEnded, RecipeChanged, ResultFound
    from rknntui.widgets.strips import Line

_JOBS = (EXPORT.name, COMPILE.name, CODEGEN.name, *FILE_JOBS, *TOOLKIT_JOBS)
_OF_CHIP = ("Layers", "Agreement")
_RESULTS = ("Compile", *_OF_CHIP)


class Deploy(TableWorkspace):
    """Exports, chips to compile for, what came of it, toolkits, projects."""

    NAME = "deploy"
    HELP = (
        "Brings the build to an NPU. Export lists the forms in which a build leaves and what runs "
        "each. Compile makes the model of each marked chip ({deploy.mark}) with the vendor's "
        "toolkit; what its compiler prints is beside our estimate, Enter shows the layers, those "
        "that disagree first. Agreement has the outputs of the vendor's simulator beside ours; "
        "{deploy.settings} sets on which samples. Where they are far apart no file is written; "
        "{deploy.accept} writes it all the same. Toolkits installs, checks, adopts and removes "
        "the vendor's toolkits. Code writes a project that runs the model on a board. "
        "{deploy.start} does what the view is for, {deploy.back} stops it; jobs go on when the "
        "workbench closes."
    )
    FIRST_FOCUS = "#export-forms"

    def __init__(self) -> None:
        super().__init__()
        self.toolkits = KnownToolkits(self, self.draw)
        self._placed = False

    def compose(self) -> ComposeResult:
        yield FactsLine(id="deploy-facts")
        yield DeployViews(id="deploy-views")

    views = getters.query_one(DeployViews)
    """The seven views."""

    @cached_property
    def targets(self) -> Targets:
        """The chips, how they are compiled for, and what came of it."""
        return Targets(self.session)

    @property
    def job(self) -> JobView | None:
        """The job of this workspace that runs, else the last one."""
        return self.session.newest(*_JOBS)

    # -- the session -----------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.targets.restore()

    def update_view(self) -> None:
        self.toolkits.ask()
        if not self.targets.names:
            self.ask(COST_CHIPS, ChipsParams(), self._know_chips)
        self.draw()

    def _know_chips(self, answer: Chips) -> None:
        self.targets.know(answer.chips)
        self.draw()

    def on_model_opened(self) -> None:
        """What was made is of another model."""
        self.targets.forget()
        self._placed = False
        self.views.exports.forget()
        self.views.code.forget()
        self.draw()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """What was compiled may be outdated; another target is looked at."""
        if "target_platform" in message.names:
            self.targets.looked_at, self._placed = "", False
        self.draw()

    def on_result_found(self, message: ResultFound) -> None:
        """A compilation of an earlier run fits the open recipe."""
        if message.method == COMPILE.name:
            self.targets.restore()
            self.draw()

    def on_job_changed(self, message: JobChanged) -> None:
        """A job of this workspace moved on."""
        job = self.session.jobs.get(message.job)
        if job is not None and job.method in _JOBS:
            self.draw()

    def on_job_ended(self, message: JobEnded) -> None:
        """Take what was made."""
        job = self.session.jobs.get(message.job)
        if job is None or job.method not in _JOBS:
            return
        match message.result:
            case CompiledModels() as result if self.session.is_ours(job):
                self.targets.take(job, result)
            case Exported() as result if self.session.is_ours(job):
                self.views.exports.written(result)
                if self.shown:
                    show_exported(self.app, result)
            case Generated() as result:
                self.views.code.result = result
            case (Encrypted() | Segments()) as result if self.shown:
                show_file_result(self.app, result)
        if job.method == ENCRYPTION_ENCRYPT.name:
            forget_key(self)
        if job.method in TOOLKIT_JOBS:
            self.toolkits.ask()
        self.draw()

    # -- drawing ---------------------------------------------------------------------------------

    def draw(self) -> None:
        """Show what is known, where this workspace is on the screen."""
        if not self.is_attached or not self.shown:
            return
        views, targets = self.views, self.targets
        views.code.draw(self)
        views.draw(
            Shown(
                targets=targets,
                toolkits=self.toolkits,
                working=self.session.newest(*TOOLKIT_JOBS),
                job=self.job,
            )
        )
        if views.view == "Compile" and not self._placed and targets.names:
            self._placed = True
            views.compiled.table.select_record("chip", targets.chip or targets.names[0])
        self._tell()
        self.screen.refresh_bindings()

    def _tell(self) -> None:
        self.query_one(FactsLine).show(*top_facts(self))

    @on(Views.Changed)
    def _changed(self, event: Views.Changed) -> None:
        if event.view:
            self.draw()
            return
        self._look()
        self._tell()
        self.screen.refresh_bindings()

    def _look(self) -> None:
        """Look at the chip under the cursor."""
        if self.views.view == "Compile" and self._placed:
            self.targets.looked_at = self.views.compiled.chip or self.targets.looked_at

    # -- views -----------------------------------------------------------------------------------

    def action_back(self) -> None:
        """From the layers of a chip to the chips; else ask whether the job shall stop."""
        job = self.job
        if self.views.view in _OF_CHIP:
            self.views.bar.choose("Compile")
        elif job is not None and job.running:
            self.workbench.ask_to_stop(job)

    @on(Rows.Chosen, "#export-forms")
    def _open_form(self) -> None:
        self.action_start()

    @on(Rows.Chosen, "#compile-chips")
    def _open_chip(self) -> None:
        self._look()
        self.views.bar.choose("Layers")

    @on(Rows.Chosen, "#compiled-layers")
    def _open_layer(self) -> None:
        self.action_node()

    @on(Rows.Chosen, "#toolkits")
    def _open_toolkit(self) -> None:
        self.action_findings()

    @on(Rows.Chosen, "#code-settings")
    def _open_setting(self) -> None:
        pane = self.views.code
        ask_setting(self, pane.project, pane.setting, self.targets.names, self._set_project)

    def _set_project(self, project: CodegenParams) -> None:
        self.views.code.project = project
        self.draw()

    @on(Rows.Chosen, "#code-files")
    def _open_file(self) -> None:
        if path := self.views.code.file:
            show_file(self, path)

    # -- chips -----------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Compile for the chip under the cursor, or no longer; go on to the next one."""
        if name := self.views.compiled.chip:
            self.targets.mark(name)
            self.draw()
            self.views.compiled.table.action_move(1)

    def action_mark_shown(self) -> None:
        """Mark all chips that the filter shows, or where all are marked none of them."""
        self.targets.mark_all(str(row["chip"]) for row in self.views.compiled.table.records)
        self.draw()

    def action_next_chip(self) -> None:
        """Look at the next chip that was compiled."""
        self._step(1)

    def action_chip_before(self) -> None:
        """Look at the compiled chip before."""
        self._step(-1)

    def _step(self, by: int) -> None:
        self.targets.step(by)
        self._placed = False
        self.draw()

    def action_settings(self) -> None:
        """Set how it is compiled."""
        ask_settings(self, self.toolkits.rows or (), self.targets.settings, self._settle)

    def action_accept(self) -> None:
        """Write a model that computes something else than the build, or no longer."""
        settings = self.targets.settings
        self._settle(replace(settings, accept_difference=not settings.accept_difference))

    def _settle(self, settings: CompileParams) -> None:
        self.targets.settings = settings
        self.draw()

    # -- doing -----------------------------------------------------------------------------------

    def action_start(self) -> None:
        """Do what the view is for."""
        match self.views.view:
            case "Export":
                self._export()
            case "Toolkits":
                if (row := self.views.toolkits.environment) is not None:
                    check(self, row)
            case "Code":
                write_project(self, self.views.code.project)
            case _:
                ask_start(self, self.targets.request)

    def _export(self) -> None:
        form = self.views.exports.form
        if form.view:
            self.views.bar.choose(form.view)
        elif form.of_file:
            compiled = self.targets.result
            start = self.views.exports.last or (compiled.path if compiled is not None else "")
            (ask_encrypted if form.of_file == "encrypt" else ask_segments)(self, start)
        elif why := self.disabled_reason("start"):
            self.notify(f"Not now: {why}", severity="warning", markup=False)
        else:
            ask_export(self, form)

    def action_refresh(self) -> None:
        """Compile again what is in the cache."""
        ask_start(self, self.targets.request, refresh=True)

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

    def action_findings(self) -> None:
        """Show all that is known of what is under the cursor."""
        from rknntui.screens.dialogs.dialogs import TextDialog

        views = self.views

        def lines(width: int) -> list[Line]:
            if views.view == "Toolkits":
                return toolkit_lines(views.toolkits.environment, width)
            if views.view == "Code":
                return generated_lines(views.code.result, width)
            return compiled_lines(self.targets.result, width, whole=True)

        self.app.push_screen(TextDialog("Details", lines))

    # -- links -----------------------------------------------------------------------------------

    def arrive(self, link: Link) -> None:
        if not isinstance(link, GoToDeploy):
            return
        if link.chip:
            self.targets.marked[link.chip] = None
            self.targets.looked_at, self._placed = link.chip, False
        self.views.bar.choose(link.view)

    def action_run(self) -> None:
        """Run the compiled model on a board."""
        if (compiled := self.targets.result) is not None:
            self.post_message(GoToCompiled(compiled.path))

    def linked_layer(self, method: str) -> str:
        return self.views.layer_rows.layer_id

    # -- what the shell asks ---------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where a toolkit is there, the key that installs one is in its own view alone."""
        if action == "install" and self.view == "Compile" and self.toolkits.rows:
            return False
        return super().check_action(action, parameters)

    def unavailable_reason(self, method: str) -> str:
        if not self.is_attached:
            return ""
        return words.reason(method, self) or super().unavailable_reason(method)

    def listed_findings(self) -> Sequence[Finding]:
        if not self.is_attached:
            return ()
        if self.views.view == "Code":
            result = self.views.code.result
            return () if result is None else result.findings
        compiled = self.targets.result
        return compiled.findings if compiled is not None and self.views.view in _RESULTS else ()

    def copy_text(self) -> str:
        views = self.views
        if views.view == "Log":
            return views.job_log.text()
        if views.view == "Code" and views.code.file and views.code.files.has_focus:
            return views.code.file
        return self.record_text()

    def command_line(self) -> list[str]:
        return command_line(self)
