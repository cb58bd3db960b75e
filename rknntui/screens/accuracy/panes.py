"""The panes of Accuracy: the ranking, a layer's histograms, the guide's steps, and scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widgets import Static

from engine import layers_counted, sanitize
from engine.wire.accuracy import Evaluated
from engine.wire.build import ACCURACY
from engine.wire.build_tables import SCORES, scores_of
from engine.wire.formats import DURATION, PERCENT, PROGRESS
from engine.wire.guide import Step
from engine.wire.layers import QUALITY, LayerFigures, layer_rows
from engine.wire.model import LayerSpread
from engine.wire.project_tables import STEPS, verdict_sign, verdict_word
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.accuracy.words import held, layer_lines
from rknntui.widgets.charts import Histogram, HistogramChart
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.line_list import Rows, TextRows
from rknntui.widgets.one_line import Fact, FactsLine
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.wire.build import Analysis
    from engine.wire.codec import Values
    from engine.wire.guide import Answer, NextStep
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

_SORTS = ("sqnr", "isolated_sqnr", "output_impact", "cosine", "isolated_cosine", None)
_WORST_HIGH = ("output_impact",)
_NO_BUILD = "Not built yet.\n\n{app.build} builds."
_BUILDING = "The build is running. Then {accuracy.analyse} compares its layers."
_READY = (
    "Not analysed yet.\n\n{accuracy.analyse} compares every layer with the float graph "
    "(simulated): cumulative (with the errors of all layers before it) and isolated (the layer "
    "alone)."
)


class Ranking(LayerView):
    """The table of layers.

    Attributes:
        result: of the job ``accuracy`` that is shown; None before one.
        recipe: that it was about.
        inputs: files that the next job compares over; None: the first calibration sample.
    """

    def __init__(self) -> None:
        table = LayerTable(QUALITY, id="ranking", what="accuracy", empty=with_keys(_NO_BUILD))
        super().__init__("Layers (simulated)", table)
        self.result: Analysis | None = None
        self.recipe: Values | None = None
        self.inputs: list[str] | None = None
        self._sort = 0

    def restart(self) -> None:
        """Forget the layers: they are of another model."""
        self.result = self.recipe = self.inputs = None
        self.layer_table.show_layers(())

    def take(self, job: JobView, result: Analysis) -> None:
        """Show what a job found; the first time the worst layer first."""
        self.result, self.recipe = result, job.recipe
        self.layer_table.show_layers(layer_rows(result), keep="tensor")
        if self.table.sort_column is None:
            self.table.sort_field("sqnr")
            self.table.cursor = 0

    def row_of(self, name: str) -> LayerFigures | None:
        """The row of a layer, by any of its names; None where it has none."""
        return self.layer_table.figures if self.layer_table.select_layer(name) else None

    def sort_next(self) -> None:
        """Rank by the next error that the table shows, worst first; then in the graph's order."""
        shown = (None, *self.table.shown_keys)
        sorts = [key for key in _SORTS if key in shown]
        self._sort = (self._sort + 1) % len(sorts)
        key = sorts[self._sort]
        self.table.sort_field(key, descending=key in _WORST_HIGH)
        self.table.cursor = 0

    def facts(self, session: Session) -> tuple[Fact | str, ...]:
        """What is ranked, or why nothing is; the empty table says what to do."""
        self.table.set_empty(with_keys(_empty(session)))
        job = session.running
        if job is not None and job.method == ACCURACY.name:
            where = f"{job.stage.title}, " if job.stage is not None else ""
            stops = f"{key_text('job.cancel')} stops"
            return (f"▶ analysing: {where}{PROGRESS.text(job.fraction)}, {stops}",)
        if self.result is None:
            without = "the build is running" if session.building else "not built yet"
            return ("✓ built, not analysed" if session.summary else without,)
        samples = self.result.samples
        of = "first calibration sample"
        if self.inputs:
            of = ", ".join(Path(p).name for p in self.inputs)
        again = f"! the recipe changed since: {key_text('accuracy.analyse')}"
        stale = "" if self.recipe == session.recipe else again
        over = f"over {samples} sample" + ("s" if samples != 1 else "")
        counted = layers_counted(self.result)
        layers, short = f"{counted} {over}", f"{counted.partition(',')[0]} {over}"
        compared = Fact(f"{layers} ({sanitize(of, 80)})", (layers, short))
        return compared, *_rounding_fact(self.result), stale


def _rounding_fact(result: Analysis) -> tuple[Fact, ...]:
    """The output that other roundings move most."""
    outputs = () if result.rounding is None else result.rounding.outputs
    if not outputs:
        return ()
    worst = max(outputs, key=lambda output: output.relative)
    share = f"{PERCENT.text(worst.relative)} % (simulated)"
    moved = f"roundings move {sanitize(worst.name, 40)} by {share}"
    return (Fact(f"other {moved}", (moved, f"rounding: {share}")),)


def _empty(session: Session) -> str:
    if session.summary is None:
        return _BUILDING if session.building else _NO_BUILD
    if not session.summary.quantized:
        return "The build is not quantized: there is no error to analyse."
    if session.container is not None:
        return "A container has no calibration samples; open its model instead."
    return _READY


# Top-1 and top-5 over labelled samples, float beside simulated.

_EMPTY = (
    "Nothing scored yet.\n\n"
    "{accuracy.labels} chooses labelled samples: a folder with a subfolder for each class, a text "
    "file with a path and a label a line, or an npz with samples and labels. {accuracy.analyse} "
    "scores them again."
)


class ScorePane(Vertical):
    """The figures of the last evaluation."""

    DEFAULT_CSS = """
    ScorePane {
        height: 1fr;
        & RecordView { height: 1fr; }
        & #score-note { height: 4; padding: 0 1; border-top: solid $panel; }
    }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.labels = ""
        self._result: Evaluated | None = None

    def compose(self) -> ComposeResult:
        yield FactsLine(id="score-facts")
        table = RecordTable(SCORES, id="scores", what="scores", empty=with_keys(_EMPTY))
        yield RecordView("Scores (simulated)", table)
        yield TextRows(id="score-note")

    def on_mount(self) -> None:
        note = self.query_one("#score-note", TextRows)
        note.SHOW_CURSOR = False
        note.can_focus = False
        note.display = False

    @property
    def known(self) -> bool:
        """Whether there are figures."""
        return self._result is not None

    table = getters.query_one("#scores", RecordTable)
    """The figures."""

    def restart(self) -> None:
        """Forget the figures: they are of another model."""
        self._result = None
        self.table.set_records([])
        self.running(None)

    def running(self, job: JobView | None) -> None:
        """An evaluation runs, or none."""
        facts = self.query_one(FactsLine)
        name = sanitize(self.labels.rsplit("/", 1)[-1], 80)
        if job is not None and job.running:
            stage = job.stage
            count = f" {stage.done:,} of {stage.total:,}" if stage and stage.total else ""
            rest = f"{count}, {key_text('job.cancel')} stops"
            facts.show(Fact(f"▶ scoring {name}{rest}", (f"▶ scoring{rest}",)))
        elif self._result is not None:
            took = f"{DURATION.text(self._result.seconds)} (measured)"
            share = self._result.agreement
            same = "" if share is None else f"{PERCENT.text(share)} %"
            agree = f"{same} with the same prediction as float" if same else ""
            samples = f"{self._result.samples:,} samples"
            facts.show(Fact(f"{samples} of {name}", (samples,)), agree, Fact(took, rank=1))
        else:
            facts.show("not scored yet")

    def take(self, result: Evaluated) -> None:
        """Show what an evaluation found."""
        self._result = result
        scores = scores_of(shares=result.agreement is not None)
        self.table.declared = scores
        self.table.set_records([scores.record(row) for row in result.scores])
        note = self.query_one("#score-note", TextRows)
        rows = wrap(sanitize(result.note), max(20, self.size.width - 4))
        note.display = bool(rows)
        note.set_lines([[(row, "dim")] for row in rows])
        self.running(None)


# The pane about one layer: what is known of it, and its histograms.


class LayerPane(Vertical):
    """Shows one layer; drilled into, over the whole workspace, it asks for the histograms.

    It has the class ``-charted`` while there are histograms of the layer.

    Attributes:
        tensor: of the layer that is shown; empty before one is chosen.
        drilled: whether the pane has the workspace for itself.
    """

    @dataclass(eq=False)
    class Wanted(Message):
        """The histograms of a tensor are to be told: :meth:`take` or :meth:`failed`."""

        tensor: str

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.tensor = ""
        self.drilled = False
        self._row: LayerFigures | None = None
        self._known: dict[str, LayerSpread | str] = {}

    def compose(self) -> ComposeResult:
        yield TextRows(id="layer-facts")
        yield HistogramChart(id="chart")

    def on_mount(self) -> None:
        facts = self.query_one(TextRows)
        facts.SHOW_CURSOR = False
        facts.can_focus = False

    @property
    def node(self) -> str:
        """The layer's node in the optimised graph; empty while it is not known."""
        if self._row is not None:
            return self._row.id
        known = self._known.get(self.tensor)
        return known.layer if isinstance(known, LayerSpread) else ""

    def show_layer(self, tensor: str, row: LayerFigures | None) -> None:
        """Show a layer; ``row`` is its row of the ranking, None where it has none."""
        self.tensor, self._row = tensor, row
        self.draw()

    def drill(self, tensor: str, row: LayerFigures | None) -> None:
        """Take the focus, and show the histograms of a layer."""
        self.tensor, self._row, self.drilled = tensor, row, True
        facts = self.query_one(TextRows)
        facts.can_focus = True
        facts.focus()
        if tensor not in self._known:
            self.post_message(self.Wanted(tensor))
        self.call_after_refresh(self.draw)

    def back(self) -> None:
        """Be a pane beside the ranking again."""
        self.drilled = False
        self.query_one(TextRows).can_focus = False

    def forget(self) -> None:
        """What was read is of another build."""
        self._known.clear()

    def take(self, layer: LayerSpread) -> None:
        """Show the histograms of a tensor."""
        self._known[layer.tensor] = self._known[layer.layer] = layer
        self.draw()

    def failed(self, error: Exception) -> None:
        """Say why there are no histograms of the layer that is shown."""
        what, remedy = getattr(error, "what", str(error)), getattr(error, "remedy", "")
        self._known[self.tensor] = f"{what} {remedy}".strip()
        self.draw()

    def draw(self) -> None:
        """Show what is known, in the width of now."""
        if not self.is_attached:
            return
        facts, chart = self.query_one(TextRows), self.query_one(HistogramChart)
        width = max(20, self.size.width - 4)
        known = self._known.get(self.tensor)
        facts.set_lines(layer_lines(self.tensor, self._row, known, width, self.drilled))
        self.set_class(isinstance(known, LayerSpread), "-charted")
        if not isinstance(known, LayerSpread):
            said = "reading the calibration samples …" if known is None else ""
            shows = f"{key_text('accuracy.drill')} or Enter shows the histograms"
            chart.show((), said=said if self.drilled else shows)
            return
        low, high = known.low, known.high
        golden = Histogram("reference (float)", low, high, known.golden, "good")
        simulated = Histogram("simulated", low, high, known.simulated, "accent")
        chart.show((golden, simulated), held(known))

    def text(self) -> str:
        """Facts and histograms as text."""
        lines = ["".join(t for t, _ in line) for line in self.query_one(HistogramChart).lines()]
        return "\n".join([self.query_one(TextRows).text(), *lines])


# The accuracy guide as a list: each step with what it found, what that means and what to do.

_NO_STEPS = (
    "The guide has not started.\n\n"
    "{accuracy.analyse} runs its first step. It follows the vendor's debugging procedure: first "
    "the float model, then calibration, ranges and single layers; each step says what it found and "
    "what to try."
)


def step_lines(step: Step, width: int) -> list[Line]:
    """Everything about one step: what was done, found, what it means, what to do."""

    def text(value: str, style: str = "") -> list[Line]:
        return [[(row, style)] for row in wrap(sanitize(value), max(16, width))]

    sign, style = verdict_sign(step.verdict)
    lines: list[Line] = [*text(step.title, "head"), *text(step.did, "dim")]
    if step.found:
        lines.append([])
    room = max((len(fact.label) for fact in step.found), default=0)
    room = min(room, max(12, width // 2))
    for fact in step.found:
        mark, how = verdict_sign(fact.verdict)
        label = sanitize(fact.label, 200)
        rows = wrap(sanitize(fact.value), max(12, width - room - 4)) or [""]
        first = label if len(label) <= room else f"{label[: room - 1]}…"
        lines.append([(f"{mark} ", how), (f"{first:<{room}}  ", ""), (rows[0], how)])
        lines += [[(" " * (room + 4) + row, "")] for row in rows[1:]]
    lines += [[], [(f"{sign} {verdict_word(step.verdict)}", style)], *text(step.advice)]
    if step.changes:
        from rknntui.screens.dialogs.dialogs import changed_names

        key = key_text("accuracy.apply-remedy")
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
        & #guide-step { width: 3fr; height: 1fr; padding: 0 1; border-left: solid $panel; }
        &.-stacked #guide-body { layout: vertical; }
        &.-stacked RecordView { width: 1fr; height: 2fr; }
        &.-stacked #guide-step {
            width: 1fr; height: 3fr; border-left: none; border-top: solid $panel;
        }
    }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.steps: list[Step] = []
        self.following: NextStep | None = None
        self._job: JobView | None = None

    def compose(self) -> ComposeResult:
        yield Static("", id="guide-next", markup=False)
        with Container(id="guide-body"):
            table = RecordTable[Step](STEPS, id="steps", what="guide", empty=with_keys(_NO_STEPS))
            yield RecordView("Steps (simulated)", table)
            yield TextRows(id="guide-step")

    def on_mount(self) -> None:
        self.query_one("#guide-step", TextRows).SHOW_CURSOR = False
        self.draw()

    def on_resize(self) -> None:
        """Side by side where there is room for both."""
        self.set_class(self.size.width < 110, "-stacked")
        self.call_after_refresh(self.draw_step)

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
        self.steps, self.following = [], None
        self.draw()

    def take(self, answer: Answer) -> None:
        """Add what the job ``guide`` did, and what it would do next."""
        if answer.step is not None:
            self.steps.append(answer.step)
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
        following, job, runs = self.following, self._job, key_text("accuracy.analyse")
        if job is not None and job.running:
            stage = job.stage
            where = f": {stage.title}, {PROGRESS.text(job.fraction)}" if stage is not None else ""
            text = f"▶ running the step{where}, {key_text('job.cancel')} stops"
        elif following is not None:
            why = f": {following.why}" if following.why else ""
            text = f"{runs} next: {following.title}{why}"
        elif self.steps:
            text = f"✓ the guide is finished · {key_text('accuracy.restart')} restarts it"
        else:
            text = f"{runs} runs the first step"
        self.query_one("#guide-next", Static).update(sanitize(text))

    @on(Rows.Highlighted, "#steps")
    def draw_step(self) -> None:
        """What the step under the cursor says."""
        pane, step = self.query_one("#guide-step", TextRows), self.step
        width = max(20, pane.size.width - 4)
        pane.set_lines(step_lines(step, width) if step is not None else [])
        self.screen.refresh_bindings()

    def text(self) -> str:
        """The step under the cursor as text."""
        return self.query_one("#guide-step", TextRows).text()
