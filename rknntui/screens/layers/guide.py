"""The accuracy guide as a list: each step with what it found, what that means and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from engine import sanitize
from engine.wire.formats import PROGRESS
from engine.wire.guide import Step
from engine.wire.project_tables import STEPS, verdict_sign, verdict_word
from rknntui.keys.actions import key_text, with_keys
from rknntui.widgets.divider import Divider
from rknntui.widgets.line_list import Rows, SidePane
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import fit
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.wire.guide import Answer, NextStep
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

_NO_STEPS = (
    "The guide has not started.\n\n"
    "{layers.step} runs its first step. It follows the vendor's debugging procedure: first "
    "the float model, then calibration, ranges and single layers; each step says what it found and "
    "what to try."
)


def step_lines(step: Step, width: int) -> list[Line]:
    """Everything about one step: what was done, found, what it means, what to do."""

    def text(value: str, style: str = "") -> list[Line]:
        return [[(row, style)] for row in wrap(sanitize(value), max(16, width))]

    sign, style = verdict_sign(step.verdict)
    lines: list[Line] = [*text(step.title, "head"), *text(step.did, "dim")]
    lines += [[]] if step.found else []
    room = min(max((len(fact.label) for fact in step.found), default=0), max(12, width // 2))
    for fact in step.found:
        mark, how = verdict_sign(fact.verdict)
        rows = wrap(sanitize(fact.value), max(12, width - room - 4)) or [""]
        label = fit(sanitize(fact.label, 200), room)
        lines.append([(f"{mark} ", how), (f"{label}  ", ""), (rows[0], how)])
        lines += [[(" " * (room + 4) + row, "")] for row in rows[1:]]
    lines += [[], [(f"{sign} {verdict_word(step.verdict)}", style)], *text(step.advice)]
    if step.changes:
        from rknntui.screens.dialogs.lists import changed_names

        key = key_text("layers.apply-remedy")
        lines += text(f"{key} sets {changed_names(step.changes)}", "accent")
    return lines


class GuidePane(Vertical):
    """The steps so far, the one under the cursor beside or below them, the next one on top."""

    DEFAULT_CSS = """
    GuidePane {
        height: 1fr;
        & #guide-next { height: auto; max-height: 3; padding: 0 1; }
        & #guide-body { layout: horizontal; height: 1fr; }
        & RecordView { width: 2fr; }
        & #guide-step { width: 3fr; height: 1fr; padding: 0 1; }
    }
    Screen.-narrow GuidePane {
        & #guide-body { layout: vertical; }
        & RecordView { width: 1fr; height: 2fr; }
        & #guide-step { width: 1fr; height: 3fr; }
    }
    """
    SCOPED_CSS = False  # side by side where the screen has room for both

    steps: tuple[Step, ...] = ()
    following: NextStep | None = None
    _job: JobView | None = None

    def compose(self) -> ComposeResult:
        yield Static("", id="guide-next", markup=False)
        with Container(id="guide-body"):
            table = RecordTable[Step](STEPS, id="steps", what="guide", empty=with_keys(_NO_STEPS))
            yield RecordView("Steps (simulated)", table)
            yield Divider("guide-divider")
            yield SidePane(id="guide-step")

    def on_mount(self) -> None:
        self.side.SHOW_CURSOR = False
        self.draw()

    side = getters.query_one(SidePane)
    """The step under the cursor."""

    table = getters.query_one("#steps", RecordTable)
    """The steps."""

    @property
    def step(self) -> Step | None:
        """The step under the cursor."""
        return self.table.record

    @property
    def over(self) -> bool:
        """Whether there is no step left."""
        return bool(self.steps) and self.following is None

    @property
    def done(self) -> tuple[str, ...]:
        """The steps that ran, as the job is told."""
        return tuple(step.id for step in self.steps)

    def restart(self) -> None:
        """Forget the steps: they are of another model."""
        self.steps, self.following = (), None
        self.draw()

    def take(self, answer: Answer) -> None:
        """Add what the job ``guide`` did, and what it would do next."""
        if answer.step is not None:
            self.steps = (*self.steps, answer.step)
        self.following = answer.next
        self.draw()
        self.table.cursor = self.table.row_count - 1
        self.draw_step()

    def running(self, job: JobView | None) -> None:
        """A step runs, or none."""
        self._job = job
        self._tell()

    def draw(self) -> None:
        """The list and the line above it."""
        if not self.is_attached:
            return
        self.table.set_records(self.steps)
        self._tell()
        self.draw_step()

    def _tell(self) -> None:
        following, job, runs = self.following, self._job, key_text("layers.step")
        if job is not None and job.running:
            stage = job.stage
            where = f": {stage.title}, {PROGRESS.text(job.fraction)}" if stage is not None else ""
            text = f"▶ running the step{where}, {key_text('job.cancel')} stops"
        elif following is not None:
            why = f": {following.why}" if following.why else ""
            text = f"{runs} next: {following.title}{why}"
        elif self.steps:
            text = f"✓ the guide is finished · {key_text('layers.restart')} restarts it"
        else:
            text = f"{runs} runs the first step"
        self.query_one("#guide-next", Static).update(sanitize(text))

    @on(Rows.Highlighted, "#steps")
    @on(SidePane.Resized)
    def draw_step(self) -> None:
        """What the step under the cursor says."""
        step = self.step
        self.side.set_lines(step_lines(step, self.side.text_width) if step is not None else [])
        self.screen.refresh_bindings()

    def text(self) -> str:
        """The step under the cursor as text."""
        return self.side.text()
