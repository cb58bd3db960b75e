"""The panes of Result: the inputs, the outputs with their largest values, and the scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from textual import getters, on
from textual.containers import Horizontal

from engine import not_finite, sanitize
from engine.wire.build import SimulatedOutput
from engine.wire.build_tables import INPUTS, LARGEST, OUTPUTS, SCORES, scores_of
from engine.wire.codec import encode
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.base.views import Views
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker, start_folder
from rknntui.screens.result.requests import SCORE, SIDES
from rknntui.screens.result.words import beside_lines
from rknntui.widgets.divider import Divider
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import bar
from rknntui.widgets.wrap import told

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.wire.accuracy import Evaluated
    from engine.wire.board import Ran
    from engine.wire.build import Simulated
    from engine.wire.model import Tensor
    from engine.wire.table import Record
    from rknntui.widgets.strips import Line

# The inputs of the model, and the file that each is read from.

_NO_MODEL = "No model is open.\n\n{app.open} opens a model, a recipe or a .rknn file."


class InputsPane(RecordView):
    """A row for each input.

    Attributes:
        files: name of an input -> path.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(INPUTS, id="inputs", what="inputs", empty=with_keys(_NO_MODEL))
        super().__init__("Inputs", table, id=id)
        self.files: dict[str, str] = {}
        self._inputs: Sequence[Tensor] = ()
        self._sample = -1

    def clear(self) -> None:
        """Forget the files: they are of another model."""
        self.files.clear()
        self._sample = -1
        self.set_title("Inputs")

    def show(self, inputs: Sequence[Tensor]) -> None:
        """Show the inputs of the open model."""
        self._inputs = inputs
        none = f"{key_text('result.pick')} chooses a file"
        records = [
            {**encode(value), "number": i + 1, "file": self.files.get(value.name, none)}
            for i, value in enumerate(inputs)
        ]
        self.table.set_records(records, keep="name")

    @property
    def paths(self) -> tuple[str, ...] | None:
        """A file for each input; None where one has none yet."""
        names = [value.name for value in self._inputs]
        return tuple(self.files[n] for n in names) if set(names) <= set(self.files) else None

    def select_missing(self) -> str:
        """Put the cursor on the first input without a file; its name."""
        name = next(value.name for value in self._inputs if value.name not in self.files)
        self.table.select_record("name", name)
        return name

    def pick(self, dataset: object, then: Callable[[], None]) -> None:
        """Choose the file of the input under the cursor.

        Args:
            dataset: beside which the picker starts.
            then: called when there is another file.
        """
        record = self.table.record
        if record is None:
            return
        name = str(record["name"])

        def picked(path: str) -> None:
            self.files[name] = path
            self._sample = -1
            self.set_title("Inputs")
            then()

        start = start_folder(self.files.get(name) or dataset)
        title = f"Input {sanitize(name, 40)}: an image or npy"
        ask_user(self.app, PathPicker(title, start), picked)

    def take_sample(self, entries: Sequence[Sequence[str]], by: int) -> None:
        """Take the files of the sample so many places further."""
        if entries:
            self._sample = (max(self._sample, -1 if by > 0 else 0) + by) % len(entries)
            names = [value.name for value in self._inputs]
            self.files.update(zip(names, entries[self._sample], strict=False))
            self.set_title(f"Inputs, sample {self._sample + 1:,} of {len(entries):,}")


# The outputs of a run, and the largest values of the one under the cursor.

_NO_RUN = (
    "No result yet.\n\n{result.run} runs the inputs, the first calibration sample where none is "
    "chosen; {result.next-sample} and {result.previous-sample} take the others."
)
_VALUE_BAR = 4


class OutputsPane(Horizontal):
    """Two tables side by side."""

    DEFAULT_CSS = """
    OutputsPane {
        height: 1fr;
        & #outputs-view { width: 5fr; max-width: 110; }
        & #top-view { width: 4fr; max-width: 60; }
    }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._simulated: Mapping[str, SimulatedOutput] = {}

    def compose(self) -> ComposeResult:
        outputs = RecordTable[SimulatedOutput](
            OUTPUTS, id="outputs", what="outputs", empty=with_keys(_NO_RUN)
        )
        yield RecordView("Outputs", outputs, id="outputs-view")
        yield Divider("result-divider")
        top = RecordTable(LARGEST, id="top", what="top", empty="")
        yield RecordView("Largest values", top, id="top-view")

    table = getters.query_one("#outputs", RecordTable)
    """The outputs of the last run."""

    def take(self, run: Simulated | Ran | None, simulated: Mapping[str, SimulatedOutput]) -> None:
        """Show the outputs of a run.

        Args:
            run: None before one.
            simulated: name -> output of the simulator on the same sample, for a run on a board.
        """
        self._simulated = simulated
        title = "Outputs" if run is None else f"Outputs ({getattr(run, 'label', 'simulated')})"
        self.query_one("#outputs-view", RecordView).set_title(title)
        self.table.set_records(() if run is None else run.outputs, keep="name")
        self.show_top()

    @on(Rows.Highlighted, "#outputs")
    def show_top(self) -> None:
        """Show the largest values of the output under the cursor, beside float and simulated."""
        view, output = self.query_one("#top-view", RecordView), self.table.record
        of = "" if output is None else f" of {sanitize(output.name, 40)}"
        odd = f" ({not_finite(output.not_finite)})" if output and output.not_finite else ""
        view.set_title(f"Largest values{of}{odd}")
        own = None if output is None else self._simulated.get(output.name)
        view.table.set_records([] if output is None else _largest(output, own))


def _largest(output: SimulatedOutput, own: SimulatedOutput | None) -> list[Record]:
    """The largest values beside float and the simulator's, with a bar between the extremes."""
    values = output.top
    floats = output.beside.at if output.beside is not None else (None,) * len(values)
    simulated = {} if own is None else {one.index: one.value for one in own.top}
    low = min([*(one.value for one in values), 0.0])
    span = max([*(one.value for one in values), 0.0]) - low
    return [
        LARGEST.record(
            one,
            rank=rank,
            float=there,
            simulated=simulated.get(one.index),
            bar=bar((one.value - low) / span, _VALUE_BAR) if span > 0 else "",
        )
        for rank, (one, there) in enumerate(zip(values, floats, strict=False), 1)
    ]


# Top-1 and top-5 over labelled samples, float beside simulated.

_NO_SCORE = (
    "Nothing scored yet.\n\n"
    "{result.pick} chooses labelled samples: a folder with a subfolder for each class, a text "
    "file with a path and a label a line, or an npz with samples and labels. {result.run} "
    "scores them again."
)


class ScorePane(RecordView):
    """The figures of the last evaluation."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(SCORES, id="scores", what="scores", empty=with_keys(_NO_SCORE))
        super().__init__("Scores (simulated)", table, id=id)

    def show(self, result: Evaluated | None) -> None:
        """Show what an evaluation found."""
        scores = scores_of(shares=result is None or result.agreement is not None)
        self.table.declared = scores
        rows = () if result is None else result.scores
        self.table.set_records([scores.record(row) for row in rows])


class Results(Views):
    """What the simulator, the compiled model and the board gave, and the scores.

    Attributes:
        run: what is shown; None where there is nothing.
        simulated: the simulator's outputs of the same sample, by name.
        scored: the last evaluation.
    """

    VIEWS = {
        **dict.fromkeys(SIDES, (OutputsPane, "outputs-pane")),
        SCORE: (ScorePane, "score"),
    }

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.run: Simulated | Ran | None = None
        self.simulated: Mapping[str, SimulatedOutput] = {}
        self.scored: Evaluated | None = None

    outputs = getters.query_one(OutputsPane)
    """What came out."""

    score = getters.query_one(ScorePane)
    """The scores."""

    def draw(self) -> None:
        """Show what is known now."""
        self.outputs.take(self.run, self.simulated)
        self.score.show(self.scored)

    def notes(self, width: int) -> list[Line]:
        if self.view == SCORE:
            return told([self.scored.note], width) if self.scored is not None else []
        if self.run is None:
            return []
        lines = beside_lines(self.run.outputs, self.simulated, width)
        return [*lines, *told(getattr(self.run, "notes", ()), width)]
