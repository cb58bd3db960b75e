"""The layers timed again and again, and the inputs of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.board import BOARD_LIVE, LIVE_LOOK, LiveLook
from engine.wire.build_tables import INPUTS
from engine.wire.codec import encode
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.dialogs.picker import start_folder
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine.wire.board import LiveParams
    from engine.wire.model import Tensor
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobEnded


class LiveRun:
    """A job that runs a sample on a board until it is stopped; one at a time.

    Args:
        workspace: whose job it is.
        take: called with each run, and whether it is not the first.
        changed: called when it starts, goes on, stops or fails.

    Attributes:
        on: whether it is wanted.
        runs: that came back.
        look: the newest of them; None before one.
        error: why it stopped by itself; empty where it did not.
    """

    def __init__(
        self,
        workspace: Workspace,
        take: Callable[[LiveLook, bool], None],
        changed: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._take = take
        self._changed = changed
        self._job: JobView | None = None
        self._starting = False  # until the worker has taken the job, which may take a second
        self._after: Callable[[], None] | None = None
        self.on = False
        self.runs = 0
        self.look: LiveLook | None = None
        self.error = ""

    @property
    def job(self) -> JobView | None:
        """The job that runs; None for none."""
        return self._job

    def start(self, params: LiveParams) -> None:
        """Run now, and on until :meth:`stop`."""
        if self._job is not None or self._starting:
            self.stop(lambda: self.start(params) if self._workspace.shown else None)
            return
        self.on, self.runs, self.look, self.error = True, 0, None, ""
        self._starting = True
        bridge = self._workspace.bridge

        async def submit() -> None:
            from engine import EngineError

            try:
                self._job = await bridge.submit(BOARD_LIVE, params, "live layers", quiet=True)
            except EngineError:
                self._starting = self.on = False
                self._let_go()
                raise
            self._starting = False
            if not self.on:  # stopped meanwhile
                bridge.discard(self._job.id)

        self._workspace.workbench.do(submit())
        self._changed()

    def stop(self, after: Callable[[], None] | None = None) -> None:
        """Run no more.

        Args:
            after: called once the board is free, which is at once where nothing runs.
        """
        if self._job is None and not self._starting:
            if after is not None:
                after()
        else:
            self._after = after or self._after
            if self._job is not None:
                self._workspace.bridge.discard(self._job.id)
        if self.on:
            self.on = False
            self._changed()

    def told(self, job: str) -> None:
        """A job of the session moved on; take what is new where it is this one."""
        if self._job is None or job != self._job.id or not self.on:
            return
        news = [look for event in self._job.partials if (look := LIVE_LOOK.of(event)) is not None]
        self._job.partials.clear()
        for look in news:
            self.runs, self.look = self.runs + 1, look
            self._take(look, self.runs > 1)
        if news:
            self._changed()

    def ended(self, message: JobEnded) -> bool:
        """A job of the session ended; True where it is this one."""
        if self._job is None or message.job != self._job.id:
            return False
        self.told(message.job)
        self._job = None
        self._workspace.session.jobs.pop(message.job, None)
        if self.on:
            error = message.error or {}
            parts = [str(error.get(key, "")) for key in ("what", "cause", "remedy")]
            said = " ".join(part for part in parts if part) or f"The runs were {message.state}."
            if message.state == "done":
                said = "The runs ended: they go on for a day at most."
            self.on, self.error = False, sanitize(said, 1000)
        self._let_go()
        return True

    def _let_go(self) -> None:
        """The board is free for what waits for it."""
        after, self._after = self._after, None
        if after is not None:
            after()
        self._changed()


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
