"""The inputs of the model, and the file that each is read from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.build_tables import INPUTS
from engine.wire.codec import encode
from rknntui.keys.text import key_text, with_keys
from rknntui.screens.accuracy.inputs import start_folder
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine.wire.graph import Tensor

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

    def show(self, inputs: Sequence[Tensor]) -> None:
        """Show the inputs of the open model."""
        self._inputs = inputs
        none = f"{key_text('run.pick')} chooses a file"
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
        from rknntui.screens.dialogs.picker import PathPicker

        record = self.table.record
        if record is None:
            return
        name = str(record["name"])

        def picked(path: str | None) -> None:
            if path is not None:
                self.files[name] = path
                then()

        start = start_folder(self.files.get(name) or dataset)
        self.app.push_screen(
            PathPicker(f"Input {sanitize(name, 40)}: an image or npy", start), picked
        )

    def take_sample(self, entries: Sequence[Sequence[str]]) -> None:
        """Take the files of the next of these samples."""
        if entries:
            self._sample = (self._sample + 1) % len(entries)
            names = [value.name for value in self._inputs]
            self.files.update(zip(names, entries[self._sample], strict=False))
