"""Workspace Dataset: the calibration samples, their problems, and each as the network sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from engine import Finding, sanitize, shape_text
from engine.wire.dataset import (
    DATASET_CHECK,
    DATASET_LIST,
    DATASET_PREVIEW,
    CheckParams,
    DatasetFacts,
    ListParams,
    Preview,
    PreviewParams,
    Samples,
)
from engine.wire.project_tables import SAMPLES
from rknntui.keys.actions import key_text, with_keys
from rknntui.links import GoToOption
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.dataset.words import DatasetFiles, channel_lines, facts_text
from rknntui.session.messages import RecipeChanged
from rknntui.widgets.findings import FindingRows
from rknntui.widgets.line_list import Rows, TextRows
from rknntui.widgets.one_line import FactsLine
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.thumbnail import Thumbnail
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from rknntui.widgets.strips import Line

EMPTY = (
    "No calibration dataset yet.\n\n"
    "{dataset.pick} chooses a folder of images or a dataset.txt.\n"
    "{dataset.make} writes a dataset.txt from a folder."
)
CONTAINER = (
    "A container has no samples, only the name and hash of the calibration list.\n\n{app.open} "
    "opens its model."
)
NO_MODEL = "No model is open.\n\n{app.open} opens one; then {dataset.pick} chooses the samples."
_PREVIEW_SECONDS = 0.06

Entry = tuple[int, tuple[str, ...]]
"""Line, and a path for every input."""

_DEPENDS = (
    "model",
    "inputs",
    "input_size_list",
    "mean_values",
    "std_values",
    "quant_img_RGB2BGR",
    "resize_filter",
    "resize_fit",
    "dataset",
    "dataset_count",
    "dataset_seed",
)


@dataclass(frozen=True)
class SampleRow:
    """A sample; ``line`` is None where the dataset is a folder."""

    number: int
    line: int | None
    name: str
    files: tuple[str, ...]
    state: str
    problem: str | None


class DatasetWorkspace(TableWorkspace):
    """Samples on the left, the one under the cursor on the right, findings below."""

    NAME = "dataset"
    HELP = (
        "The samples that calibration reads. The preview shows what the network sees: resized, "
        "channels swapped and normalised as the recipe says, then converted back to colours. The "
        "table below it has the values that reach the network; expected is the range that mean "
        "and std give for pixels 0..255."
    )
    FIRST_FOCUS = "#samples"
    DEFAULT_CSS = """
    DatasetWorkspace {
        & #dataset-body { height: 1fr; }
        & RecordView { width: 5fr; }
        & #preview { width: 4fr; padding: 0 1; }
        & #preview-title { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #channels { height: auto; max-height: 6; }
        & #dataset-findings { height: auto; max-height: 5; padding: 0 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: tuple[str | None, ...] | None = None
        self._input = 0
        self._files = DatasetFiles(self, lambda: self.read(force=True))

    def compose(self) -> ComposeResult:
        yield FactsLine(id="dataset-facts")
        table = RecordTable[SampleRow](
            SAMPLES, id="samples", what="samples", empty=with_keys(EMPTY)
        )
        with Horizontal(id="dataset-body"):
            yield RecordView("Samples", table)
            with Vertical(id="preview"):
                yield Static("", id="preview-title", markup=False)
                yield Thumbnail(id="picture")
                yield TextRows(id="channels")
        yield FindingRows("dataset.apply-remedy", id="dataset-findings")

    def on_mount(self) -> None:
        channels = self.query_one("#channels", TextRows)
        channels.SHOW_CURSOR = False
        channels.can_focus = False

    table = getters.query_one("#samples", RecordTable)
    """The samples."""

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self.read()

    def on_keys_changed(self) -> None:
        """What is said where there are no samples names keys."""
        self._seen = None

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """The samples, or what becomes of them, may be others now."""
        if self.shown:
            self.read()

    def on_model_opened(self) -> None:
        """Another model, or files that changed on disk were read again."""
        self._seen = None
        if self.shown:
            self.read()

    def read(self, *, force: bool = False) -> None:
        """Read the dataset where it, or what becomes of it, is another one."""
        recipe = self.session.recipe
        seen = (self.session.container, *(str(recipe.get(name)) for name in _DEPENDS))
        if seen == self._seen and not force:
            return
        self._seen = seen
        self._input = 0
        container = self.session.container is not None
        if not recipe.get("dataset") or container:
            self.table.set_records([])
            said = CONTAINER if container else EMPTY if recipe.get("model") else NO_MODEL
            self.table.set_empty(with_keys(said))
            self._tell(None)
            self._preview_failed("")
            return
        self._tell(None)
        self._ask_check(decode=False)

    def _ask_check(self, *, decode: bool) -> None:
        recipe = dict(self.session.recipe)
        self.table.set_empty("reading …")

        def listed(answer: Samples) -> None:
            params = CheckParams(recipe=recipe, decode=decode)
            checked = partial(self._checked, answer.entries)
            self.ask(DATASET_CHECK, params, checked, failed=failed)
            self._list(answer.entries, {})

        def failed(error: Exception) -> None:
            self.table.set_records([])
            what, remedy = getattr(error, "what", str(error)), getattr(error, "remedy", "")
            another = f"{key_text('dataset.pick')} chooses another."
            self.table.set_empty(f"✗ {sanitize(what)}\n\n{sanitize(remedy)}\n\n{another}")
            self._tell(None)
            self._preview_failed("")

        self.ask(DATASET_LIST, ListParams(recipe), listed, failed=failed)

    def _list(self, entries: Sequence[Entry], problems: dict[int, str]) -> None:
        root = self._root()
        records = []
        for index, (line, files) in enumerate(entries):
            names = [sanitize(_below(root, file), 200) for file in files]
            problem = problems.get(line or index + 1)
            state, reason = ("✗ problem", sanitize(problem, 300)) if problem else ("✓", None)
            row = SampleRow(index + 1, line or None, " ".join(names), files, state, reason)
            records.append(row)
        self.table.set_records(records, keep="number")

    def _root(self) -> str:
        path = Path(str(self.session.recipe.get("dataset") or "."))
        return str(path if path.is_dir() else path.parent)

    def _checked(self, entries: Sequence[Entry], facts: DatasetFacts) -> None:
        problems: dict[int, str] = {}
        for problem in facts.problems:
            problems.setdefault(problem.line, problem.what)
        self.session.dataset = facts
        self._list(entries, problems)
        self._tell(facts)

    def _tell(self, facts: DatasetFacts | None) -> None:
        path = str(self.session.recipe.get("dataset") or "")
        self.query_one("#dataset-facts", FactsLine).show(*facts_text(path, facts))
        pane = self.query_one(FindingRows)
        findings = () if facts is None else facts.findings
        skipped = () if facts is None else facts.skipped or ()
        more = [[("! ", "warn"), (sanitize(f"{s.file} {s.what}"), "")] for s in skipped[:20]]
        pane.display = bool(findings or more)
        pane.show(findings, more)

    # -- preview ---------------------------------------------------------------------------------

    @on(Rows.Highlighted, "#samples")
    def _moved(self) -> None:
        record = self.table.record
        if record is not None:
            self.set_timer(_PREVIEW_SECONDS, partial(self._ask_preview, record))

    def on_resize(self) -> None:
        """A picture of the new size."""
        self.call_after_refresh(self._moved)

    def _ask_preview(self, sample: SampleRow | None) -> None:
        record: SampleRow | None = self.table.record
        if record is None or sample is not record or not self.shown:
            return
        columns, rows = self.query_one(Thumbnail).room
        params = PreviewParams(
            recipe=self.session.recipe,
            index=record.number - 1,
            columns=min(columns, 160),
            rows=min(rows, 120),
            input=self._input,
        )
        self.ask(DATASET_PREVIEW, params, self._preview, failed=self._preview_error)

    def _preview_error(self, error: Exception) -> None:
        remedy = getattr(error, "remedy", "")
        self._preview_failed(f"{getattr(error, 'what', error)} {remedy}")

    def _preview_failed(self, said: str) -> None:
        self.query_one("#preview-title", Static).update("")
        self.query_one(Thumbnail).show(())
        lines: list[Line] = []
        if said:
            width = max(20, self.query_one("#preview").size.width - 4)
            lines = [[(row, "bad")] for row in wrap(f"✗ {sanitize(said)}", width)]
        self.query_one("#channels", TextRows).set_lines(lines)

    def _preview(self, seen: Preview) -> None:
        name, inputs = sanitize(Path(seen.file).name, 80), len(self.session.inputs)
        more = f" ({key_text('dataset.next-input')}: next of {inputs})" if inputs > 1 else ""
        title = f"{name} → {sanitize(seen.input, 60)} {shape_text(seen.shape)}{more}"
        self.query_one("#preview-title", Static).update(title)
        picture = self.query_one(Thumbnail)
        picture.show(seen.thumbnail, "no image: an array" if not seen.thumbnail else "")
        width = max(20, self.query_one("#channels").size.width)
        lines = channel_lines(seen.channels, seen.expected, width)
        self.query_one("#channels", TextRows).set_lines(lines)
        self.call_after_refresh(self._refit)

    def _refit(self) -> None:
        """Ask again for a picture that was asked for before the lines below it took their room."""
        picture = self.query_one(Thumbnail)
        if len(picture.rows) > picture.room[1]:
            self._ask_preview(self.table.record)

    # -- actions ---------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if method in ("pick", "make", "configure", "build") and self.session.container is not None:
            return "a container is already built; open its model to calibrate."
        if method in ("pick", "make", "build") and not self.session.recipe.get("model"):
            return "no model is open ({app.open} opens one)."
        if method == "check" and self.session.container is not None:
            return "a container has no samples."
        if method in ("check", "build") and not self.session.recipe.get("dataset"):
            return "no dataset is chosen ({dataset.pick} chooses one)."
        if method == "next_problem":
            checked = self.session.dataset
            return "" if checked and checked.problems else "there is no problem."
        if method == "next_input":
            return "" if len(self.session.inputs) > 1 else "the model has only one input."
        return super().unavailable_reason(method)

    def listed_findings(self) -> Sequence[Finding]:
        return self.query_one(FindingRows).chosen()

    def action_pick(self) -> None:
        """Choose a list or a folder; of a folder a list can be written."""
        self._files.pick()

    def action_make(self) -> None:
        """Choose the folder, then the list."""
        self._files.make()

    def action_check(self) -> None:
        """Decode every file of the dataset, which a build would do too."""
        self._ask_check(decode=True)

    def action_next_problem(self) -> None:
        """Go to the next sample with a problem."""
        records = self.table.records
        count = len(records)
        for step in range(1, count + 1):
            at = (self.table.cursor + step) % count
            if records[at].state != "✓":
                self.table.cursor = at
                return

    def action_next_input(self) -> None:
        """Preview the next input."""
        self._input = (self._input + 1) % (len(self.session.inputs) or 1)
        self._moved()

    def action_configure(self) -> None:
        """Go to mean_values."""
        self.post_message(GoToOption("mean_values"))

    def copy_text(self) -> str:
        record = self.table.record
        return "" if record is None else " ".join(record.files)

    def command_line(self) -> list[str]:
        recipe = self.session.recipe
        if not recipe.get("dataset"):
            return []
        words = ["rknntui", "dataset", "check", str(recipe["dataset"])]
        return [*words, "--model", str(recipe["model"])] if recipe.get("model") else words


def _below(root: str, file: str) -> str:
    return file[len(root) + 1 :] if file.startswith(root + "/") else file
