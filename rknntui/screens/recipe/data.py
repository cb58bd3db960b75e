"""The calibration samples of Recipe: chosen, listed with their problems, and previewed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from textual import getters
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import Static

from engine import EngineError, sanitize, shape_text
from engine.wire.dataset import (
    DATASET_CHECK,
    DATASET_LIST,
    DATASET_MAKE,
    DATASET_PREVIEW,
    CheckParams,
    DatasetFacts,
    ListParams,
    Made,
    MakeParams,
    Preview,
    PreviewParams,
    Samples,
)
from engine.wire.project_tables import CHANNELS, SAMPLES
from engine.wire.table import Record
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker, ask_overwrite, start_folder
from rknntui.screens.dialogs.request import Form
from rknntui.screens.recipe.words import problems_text
from rknntui.session.history import of_dataset
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.thumbnail import Thumbnail

EMPTY = (
    "No calibration dataset yet.\n\n"
    "{recipe.edit} chooses a folder of images or a dataset.txt.\n"
    "{recipe.make} writes a dataset.txt from a folder."
)
CONTAINER = (
    "A container has no samples, only the name and hash of the calibration list.\n\n{app.open} "
    "opens its model."
)
NO_MODEL = "No model is open.\n\n{app.open} opens one; then {recipe.edit} chooses the samples."
_PREVIEW_SECONDS = 0.06
MAKE_FORM = Form(
    "Write a dataset.txt", (MakeParams,), {"force": "asked for where the file is there"}
)


def checked_folder(params: MakeParams) -> MakeParams:
    """The same; ValueError where there is no folder."""
    if not Path(params.folder).is_dir():
        raise ValueError("This is not a folder.")
    return params


@dataclass(frozen=True)
class SampleRow:
    """A sample; ``line`` is None where the dataset is a folder."""

    number: int
    line: int | None
    name: str
    files: tuple[str, ...]
    state: str
    problem: str | None


class SampleList(RecordView):
    """The samples, with what is wrong with each."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable[SampleRow](
            SAMPLES, id="samples", what="samples", empty=with_keys(EMPTY)
        )
        super().__init__("Samples", table, id=id)
        self._seen: tuple[str | None, ...] | None = None
        self._entries: Sequence[tuple[int, tuple[str, ...]]] = ()
        self._drawn: tuple[object, object] | None = None

    @property
    def _place(self) -> Workspace:
        return self.query_ancestor(Workspace)

    def forget(self) -> None:
        """Files are others: read again at the next occasion."""
        self._seen = None

    def read(self) -> None:
        """Read the dataset where it, or what becomes of it, is another one."""
        session = self._place.session
        recipe, container = dict(session.recipe), session.container
        said = with_keys(CONTAINER if container else EMPTY if recipe.get("model") else NO_MODEL)
        seen = (container, said, *of_dataset(recipe))
        if seen == self._seen:
            return
        self._seen = seen
        if not recipe.get("dataset") or container is not None:
            self._say(said)
            return
        self.table.set_empty("reading …")
        self._place.ask(DATASET_LIST, ListParams(recipe), self._listed, failed=self._failed)

    def _say(self, text: str) -> None:
        self._entries, self._drawn = (), None
        self.table.set_records([])
        self.table.set_empty(text)

    def _failed(self, error: EngineError) -> None:
        another = f"{key_text('recipe.edit')} chooses another."
        self._say(f"✗ {sanitize(error.what)}\n\n{sanitize(error.remedy)}\n\n{another}")

    def check(self) -> None:
        """Decode every file, as a build does."""
        place = self._place

        def checked(facts: DatasetFacts) -> None:
            place.session.set_dataset(facts)
            found = problems_text(len(facts.problems))
            place.notify(f"Decoded {facts.files} files: {found}.", markup=False)

        params = CheckParams(recipe=dict(place.session.recipe), decode=True)
        place.ask(DATASET_CHECK, params, checked, failed=self._failed)

    def pick(self) -> None:
        """Choose a list or a folder; of a folder a list can be written."""
        place = self._place

        def picked(path: str) -> None:
            place.session.set_value("dataset", path)
            if Path(path).is_dir():
                makes = f"{key_text('recipe.make')} writes a list of them, to edit and share."
                text = f"Every build selects the same images of that folder. {makes}"
                place.notify(text, markup=False)

        recipe, title = place.session.recipe, "Choose a dataset.txt or a folder"
        start = start_folder(recipe.get("dataset") or recipe.get("model"))
        ask_user(self.app, PathPicker(title, start, folders=True, suffixes=(".txt",)), picked)

    def make(self) -> None:
        """Ask for the folder, the list and how many are chosen; then write it."""
        place, recipe = self._place, self._place.session.recipe

        def made(dataset: Made) -> None:
            skipped = dataset.skipped
            left = f"; skipped {len(skipped)}, the first: {skipped[0].why}" if skipped else ""
            text = f"{dataset.path}: {dataset.samples} of {dataset.found} images{left}."
            place.notify(text, title="Dataset written", markup=False)
            place.session.set_value("dataset", dataset.path)
            self.forget()  # it may be the list that is shown
            self.read()

        def write(params: MakeParams) -> None:
            def start(force: bool) -> None:
                place.ask(DATASET_MAKE, replace(params, force=force), made)

            ask_overwrite(self.app, [params.out], start)

        now = MakeParams(
            start_folder(recipe.get("dataset")).removesuffix("/"),
            str(Path.cwd() / "dataset.txt"),
            cast("int", recipe.get("dataset_count", MakeParams.count)),
            cast("int", recipe.get("dataset_seed", MakeParams.seed)),
        )
        MAKE_FORM.ask(self.app, now, then=write, check=checked_folder)

    def _listed(self, answer: Samples) -> None:
        self._entries = answer.entries
        self.draw()

    def draw(self) -> None:
        """Show the samples with what the last check says of each."""
        place = self._place
        facts = place.session.dataset
        if self._drawn == (self._entries, facts):
            return
        self._drawn = self._entries, facts
        problems: dict[int, str] = {}
        for problem in facts.problems if facts is not None else ():
            problems.setdefault(problem.line, problem.what)
        path = Path(str(place.session.recipe.get("dataset") or "."))
        root = f"{path if path.is_dir() else path.parent}/"
        rows = [_row(at + 1, *entry, root, problems) for at, entry in enumerate(self._entries)]
        self.table.set_records(rows, keep="number")

    def bad_rows(self) -> list[tuple[int, int]]:
        """Place and line of the shown rows that have a problem."""
        rows = enumerate(self.table.records)
        return [(at, row.line or row.number) for at, row in rows if row.problem]

    def go_to(self, line: int) -> None:
        """Go to the sample of a line."""
        if not self.table.select_record("line", line):
            self.table.select_record("number", line)


def _row(
    number: int, line: int, files: tuple[str, ...], root: str, problems: Mapping[int, str]
) -> SampleRow:
    name = " ".join(sanitize(file.removeprefix(root), 200) for file in files)
    problem = problems.get(line or number)
    state, reason = ("✗ problem", sanitize(problem, 300)) if problem else ("✓", None)
    return SampleRow(number, line or None, name, files, state, reason)


class Channels(RecordTable[Record], can_focus=False):
    """What the channels have; no row of it is chosen."""

    SHOW_CURSOR = False
    MARKS = (" ", " ")


class SamplePreview(Vertical):
    """One sample as the network sees it: the picture, and the values that reach the network."""

    DEFAULT_CSS = """
    SamplePreview {
        height: 1fr; padding: 0 1;
        & #preview-title { height: auto; max-height: 6; }
        & Channels { height: auto; max-height: 7; }
        &.-bad #preview-title { color: $error; }
        &.-beside #picture { width: 22; height: 7; }
    }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._input = 0
        self._sample: SampleRow | None = None
        self._rest: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static("", id="preview-title", markup=False)
        yield Thumbnail(id="picture")
        yield Channels(CHANNELS, id="channels", what="channels")

    _picture = getters.query_one(Thumbnail)

    def follow(self, sample: SampleRow | None, *, step: int = 0) -> None:
        """Show a sample (None: none), of the input ``step`` further, once the cursor rests."""
        inputs = len(self.query_ancestor(Workspace).session.inputs) or 1
        self._sample, self._input = sample, (self._input + step) % inputs
        if self._rest is not None:
            self._rest.stop()
        if sample is None:
            self._tell("", said="no samples yet")
        else:
            self._rest = self.set_timer(_PREVIEW_SECONDS, self._ask)

    def on_resize(self) -> None:
        """A picture of the new size."""
        # the sample of then: another may come before
        self.call_after_refresh(lambda: self.follow(self._sample))

    def _ask(self) -> None:
        place, sample = self.query_ancestor(Workspace), self._sample
        if sample is None or not place.shown or not self._picture.region.area:
            return
        columns, rows = self._picture.room
        params = PreviewParams(
            recipe=place.session.recipe,
            index=sample.number - 1,
            columns=min(columns, 64),  # more costs a slow line more than the eye gains
            rows=min(rows, 48),
            input=self._input,
        )
        place.ask(DATASET_PREVIEW, params, self._show, failed=self._failed)

    def _failed(self, error: EngineError) -> None:
        self._tell(f"✗ {sanitize(f'{error.what} {error.remedy}')}", bad=True)

    def _show(self, seen: Preview) -> None:
        name = sanitize(Path(seen.file).name, 80)
        inputs = len(self.query_ancestor(Workspace).session.inputs)
        more = f" ({key_text('recipe.next-input')}: next of {inputs})" if inputs > 1 else ""
        title = f"{name} → {sanitize(seen.input, 60)} {shape_text(seen.shape)}{more}"
        self._tell(title, seen, "" if seen.thumbnail else "no image: an array")
        # a picture that was asked for before the lines below it took their room
        self.call_after_refresh(self._refit)

    def _tell(
        self, title: str, seen: Preview | None = None, said: str = "", *, bad: bool = False
    ) -> None:
        """Show a sample, or (None) why there is none."""
        self.set_class(bad, "-bad")
        self.query_one("#preview-title", Static).update(title)
        self._picture.show(() if seen is None else seen.thumbnail, said)
        channels = enumerate(() if seen is None else seen.channels)
        table = self.query_one(Channels)
        table.set_empty("" if seen is None else "more than 16 channels: no statistics")
        table.set_records([CHANNELS.record(one, channel=number) for number, one in channels])

    def _refit(self) -> None:
        if len(self._picture.rows) > self._picture.room[1]:
            self._ask()
