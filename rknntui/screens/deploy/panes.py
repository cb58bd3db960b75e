"""The views of Deploy, and what is said below each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual import on

from engine import sanitize
from rknntui.keys.text import with_keys
from rknntui.screens.base.views import Views
from rknntui.screens.deploy import facts
from rknntui.screens.deploy.code import CodePane
from rknntui.screens.deploy.compiled import AgreementPane, CompilePane, LayersPane
from rknntui.screens.deploy.forms import ExportPane
from rknntui.screens.deploy.toolkits import KnownToolkits, ToolkitsPane
from rknntui.widgets.findings import wrapped
from rknntui.widgets.job_pane import JobPane
from rknntui.widgets.line_list import Rows

if TYPE_CHECKING:
    from textual.widget import Widget

    from rknntui.screens.deploy.targets import Targets
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.records import RecordTable
    from rknntui.widgets.strips import Line

PANES = {
    "Export": "export-pane",
    "Compile": "compile-pane",
    "Layers": "compiled-layers-pane",
    "Agreement": "agreement-pane",
    "Toolkits": "toolkits-pane",
    "Code": "code-pane",
    "Log": "deploy-log",
}
"""View -> its pane."""
_NO_TOOLKIT = (
    "No toolkit of the vendor is set up, so nothing can be compiled for an NPU yet.\n\n"
    "{deploy.install} installs rknn-toolkit2 in an environment of its own (1.6 GB or more), "
    "{deploy.adopt} in Toolkits uses one that is there already."
)
_EMPTY = {
    "Layers": (
        "No layers yet.\n\nCompile: {deploy.start} there compiles; then the compiler's own table "
        "is here, with our estimate beside each figure. For some chips it prints none."
    ),
    "Agreement": (
        "No second opinion yet.\n\nEach compilation runs the vendor's simulator on one sample; "
        "its outputs are compared with ours here. {deploy.settings} in Compile sets on how many "
        "samples, or on which pictures of yours."
    ),
    "Toolkits": _NO_TOOLKIT,
}


@dataclass(frozen=True)
class Shown:
    """What the views show.

    Attributes:
        targets: the chips, and what came of them.
        toolkits: the environments.
        working, job: the job of Toolkits, and the newest of all.
    """

    targets: Targets
    toolkits: KnownToolkits
    working: JobView | None = None
    job: JobView | None = None


class DeployViews(Views):
    """One of seven views."""

    VIEWS = PANES

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._shown: Shown | None = None

    def panes(self) -> Iterator[Widget]:
        yield ExportPane(id="export-pane")
        yield CompilePane(id="compile-pane")
        yield LayersPane(id="compiled-layers-pane")
        yield AgreementPane(id="agreement-pane")
        yield ToolkitsPane(id="toolkits-pane")
        yield CodePane(id="code-pane")
        yield JobPane(id="deploy-log")

    @property
    def exports(self) -> ExportPane:
        """The forms of a build."""
        return self.query_one(ExportPane)

    @property
    def compiled(self) -> CompilePane:
        """The chips."""
        return self.query_one(CompilePane)

    @property
    def layer_rows(self) -> LayersPane:
        """The layers of a chip."""
        return self.query_one(LayersPane)

    @property
    def agreement(self) -> AgreementPane:
        """The second opinion."""
        return self.query_one(AgreementPane)

    @property
    def toolkits(self) -> ToolkitsPane:
        """The environments."""
        return self.query_one(ToolkitsPane)

    @property
    def code(self) -> CodePane:
        """The project."""
        return self.query_one(CodePane)

    @property
    def job_log(self) -> JobPane:
        """Stages and log of the newest job."""
        return self.query_one("#deploy-log", JobPane)

    @property
    def table(self) -> RecordTable[Any] | None:
        """The table of the view; None where it has none."""
        tables: dict[str, RecordTable[Any]] = {
            "Export": self.exports.table,
            "Compile": self.compiled.table,
            "Layers": self.layer_rows.table,
            "Agreement": self.agreement.table,
            "Toolkits": self.toolkits.table,
            "Code": self.code.settings,
        }
        return tables.get(self.view)

    @property
    def first_focus(self) -> Widget:
        return self.table or self.job_log

    def draw(self, shown: Shown) -> None:
        """Show what is known for the view."""
        self._shown = shown
        if self.view in _EMPTY and self.table is not None:
            self.table.set_empty(with_keys(_EMPTY[self.view]))
        match self.view:
            case "Compile":
                self.compiled.take(shown.targets, shown.toolkits)
                self.compiled.show_job(shown.targets.job)
            case "Layers":
                self.layer_rows.take(shown.targets.result)
            case "Agreement":
                self.agreement.take(list(shown.targets.found.values()))
            case "Toolkits":
                self.toolkits.take(shown.toolkits.rows or ())
                self.toolkits.show_job(shown.working)
            case "Log":
                self.job_log.set_job(shown.job)
        self.tell()

    def notes(self, width: int) -> list[Line]:
        shown = self._shown
        if shown is None:
            return []
        match self.view:
            case "Export":
                return wrapped(self.exports.form.about, width, "dim")
            case "Compile":
                return self._compile_notes(shown, width)
            case "Layers":
                found = shown.targets.result
                lines = facts.layer_lines(self.layer_rows.layer_table.figures, found, width)
                return [*_outdated(shown, width), *lines]
            case "Agreement":
                lines = facts.agreement_lines(self.agreement.table.record, width)
                return [*_outdated(shown, width), *lines]
            case "Toolkits":
                if shown.working is not None and shown.working.running:
                    return []
                if shown.toolkits.error is not None:
                    return facts.error_lines(shown.toolkits.error, width)
                failed = _failed(shown.working, width)
                return [*failed, *facts.toolkit_lines(self.toolkits.environment, width)]
            case "Code":
                lines = wrapped(self.code.about, width, "dim") if self.code.about else []
                return [*facts.generated_lines(self.code.result, width), *lines]
            case _:
                return []

    def _compile_notes(self, shown: Shown, width: int) -> list[Line]:
        job = shown.targets.job
        if job is not None and job.running:
            return []
        if shown.toolkits.error is not None:
            return facts.error_lines(shown.toolkits.error, width)
        lines = _failed(job, width)
        if shown.toolkits.rows == ():
            rows = with_keys(_NO_TOOLKIT).replace("\n\n", " ")
            lines += wrapped(f"! {rows}", width, "warn")
        chip = self.compiled.chip
        found = shown.targets.found.get(chip)
        if found is None and chip and not lines:
            return self._not_compiled(shown, chip, width)
        return [*lines, *_outdated(shown, width), *facts.compiled_lines(found, width)]

    def _not_compiled(self, shown: Shown, chip: str, width: int) -> list[Line]:
        """What a chip lacks, or the keys that compile for it."""
        generation, named = shown.targets.generations[chip], shown.targets.settings.toolkit
        known, toolkits = shown.toolkits.rows is not None, shown.toolkits
        if known and toolkits.for_generation(generation, named) is None:
            which = f"toolkit {sanitize(named, 60)}" if named else "toolkit"
            sets = "installs or " if generation > 1 else ""
            text = (
                f"! {chip} is of generation {generation}, and no {which} of that is set up: "
                f"Toolkits {sets}adopts one ({{deploy.adopt}} there)."
            )
            return wrapped(with_keys(text), width, "warn")
        text = "{deploy.start} compiles for it alone"
        if shown.targets.marked:
            text = "{deploy.start} compiles for the marked chips"
        if chip not in shown.targets.marked:
            text += ", {deploy.mark} marks this one too"
        return wrapped(with_keys(f"{chip}: not compiled yet; {text}."), width, "dim")

    @on(Rows.Highlighted)
    def _moved(self) -> None:
        self.tell()
        self.post_message(self.Changed(view=False))


def _failed(job: JobView | None, width: int) -> list[Line]:
    """Why the last job made nothing."""
    if job is None or job.running or job.error is None or job.state == "cancelled":
        return []
    return facts.error_lines(facts.job_error(job.error), width)


def _outdated(shown: Shown, width: int) -> list[Line]:
    text = "! The recipe changed since this was compiled."
    return wrapped(text, width, "warn") if shown.targets.outdated else []
