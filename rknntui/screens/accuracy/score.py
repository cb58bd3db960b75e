"""Top-1 and top-5 over labelled samples, float beside simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical

from engine import sanitize
from engine.wire.build_tables import SCORES, scores_of
from engine.wire.formats import PERCENT
from engine.wire.score import Evaluated
from rknntui.keys.text import key_text, with_keys
from rknntui.widgets.facts_line import Fact, FactsLine
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from rknntui.session.job_view_model import JobView

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

    @property
    def table(self) -> RecordTable:
        """The figures."""
        return self.query_one("#scores", RecordTable)

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
            took = f"{self._result.seconds:.1f} s (measured)"
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
