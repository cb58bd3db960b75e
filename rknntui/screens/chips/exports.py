"""The view Exports: the forms in which a build leaves, and what is made of a file that did."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import CONTAINER_NOTE, answer_lines, human_bytes, sanitize
from engine.wire.build import EXPORT, Exported, ExportForm, ExportParams
from engine.wire.encryption import (
    ENCRYPTION_ENCRYPT,
    ENCRYPTION_KEY,
    Encrypted,
    EncryptParams,
    KeyParams,
)
from engine.wire.formats import MILLISECONDS
from engine.wire.project_tables import FORMS as FORM_TABLE
from engine.wire.segments import SEGMENTS_CUT, Segments, SegmentsParams
from rknntui.keys.actions import with_keys
from rknntui.keys.commandline import command_with
from rknntui.screens.dialogs.picker import ask_overwrite
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import App

    from rknntui.screens.base.workspace import Workspace
    from rknntui.screens.chips.workspace import Chips
    from rknntui.widgets.strips import Line


@dataclass(frozen=True)
class BuildForm:
    """A form in which a build leaves.

    Attributes:
        name: in the table.
        purpose: what it is for, in a few words.
        runs: what runs it.
        about: the same whole, for the lines below the table.
        format: of an export; empty where something else makes it.
        of_file: ``encrypt`` or ``segments``, of a file that was written; else empty.
        suffix: what follows the model's name in the name of its file.
    """

    name: str
    purpose: str
    runs: str
    about: str
    format: ExportForm | None = None
    of_file: str = ""
    suffix: str = ""


def _declared() -> tuple[BuildForm, ...]:
    """The rows of ``forms.csv``; the container's note is the engine's own."""
    with (Path(__file__).parent / "forms.csv").open(encoding="utf-8", newline="") as lines:
        rows: list[dict[str, Any]] = list(csv.DictReader(lines))
    texts = ({**row, "format": row["format"] or None} for row in rows)
    return tuple(BuildForm(**{**row, "about": row["about"] or CONTAINER_NOTE}) for row in texts)


FORMS = _declared()


class ExportsPane(RecordView):
    """A row for each form."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(FORM_TABLE, id="export-forms", what="forms")
        super().__init__("Forms of the build", table, id=id)
        self._written: dict[str, str] = {}

    def take(self, _: Chips) -> None:
        """Show the forms, and what was written of them."""
        records = [
            FORM_TABLE.record(form, path=self._written.get(str(form.format))) for form in FORMS
        ]
        self.table.set_records(records, keep="name")

    @property
    def form(self) -> BuildForm:
        """The form under the cursor."""
        record = self.table.record
        return next((f for f in FORMS if record and f.name == record["name"]), FORMS[0])

    @property
    def last(self) -> str:
        """The container that was written last; empty for none."""
        return self._written.get("rknn", "")

    def written(self, result: Exported) -> None:
        """A form was written."""
        self._written[result.format] = result.path

    def forget(self) -> None:
        """Another model is open."""
        self._written.clear()

    def notes(self, _: Chips, width: int) -> list[Line]:
        """What the form under the cursor is for."""
        return wrapped(self.form.about, width, "dim")


EXPORT_FORM = Form(
    "Export",
    (ExportParams,),
    {"format": "that of the form under the cursor", "force": "asked for where the file is there"},
)


def ask_export(workspace: Workspace, form: BuildForm) -> None:
    """Ask for the file of a form, and start the job."""

    def go(asked: ExportParams) -> None:
        title = f"export {sanitize(Path(asked.path).name, 80)}"
        workspace.start_writing(EXPORT, asked, title, asked.path)

    path = str(Path.cwd() / f"{workspace.session.stem}{form.suffix}")
    now = ExportParams(recipe=dict(workspace.session.recipe), path=path, format=form.format)
    EXPORT_FORM.ask(workspace.app, now, then=go, title=f"Export {form.name}")


def export_command(workspace: Workspace, form: BuildForm) -> list[str]:
    """The command line that writes a form."""
    if form.of_file:
        verb = "encrypt" if form.of_file == "encrypt" else "segment"
        return ["rknntui", verb, workspace.session.container or f"{workspace.session.stem}.rknn"]
    path = f"{workspace.session.stem}{form.suffix}"
    request = ExportParams(recipe={}, path=path, format=form.format)
    return command_with("export", workspace.session, request)


# What is made of a file: an encrypted model, and a model in segments.

FILE_JOBS = (ENCRYPTION_ENCRYPT.name, SEGMENTS_CUT.name)
_ASKED = "asked for where the file is there"
ENCRYPT_FORM = Form("Encrypt a model", (EncryptParams, KeyParams), {"force": _ASKED})
SEGMENTS_FORM = Form("Cut into segments", (SegmentsParams,), {"force": _ASKED})


def ask_encrypted(workspace: Workspace, start: str) -> None:
    """Ask for the file, its key and where it goes; then start the job.

    Args:
        workspace: asks.
        start: a file that was written here; empty for none.
    """

    def go(asked: tuple[EncryptParams, KeyParams]) -> None:
        params, key = asked
        output = params.output or str(Path(params.path).with_suffix(".crypt.rknn"))
        title = f"encrypt {sanitize(Path(params.path).name, 80)}"

        def start_job(force: bool) -> None:
            job = replace(params, output=output, force=force)
            run = partial(workspace.start_job, ENCRYPTION_ENCRYPT, job, title)
            if key == KeyParams():
                run()
            else:  # first: the job asks the worker for it
                workspace.ask(ENCRYPTION_KEY, key, lambda _: run())

        ask_overwrite(workspace.app, [output], start_job)

    now = EncryptParams(path=workspace.session.container or start)
    ENCRYPT_FORM.ask(workspace.app, now, KeyParams(), then=go, check=checked_key)


def checked_key(params: EncryptParams, key: KeyParams) -> tuple[EncryptParams, KeyParams]:
    """The same; ValueError where there are two keys."""
    if key.text is not None and key.file is not None:
        raise ValueError("There are two keys: type one, or name its file.")
    return params, key


def forget_key(workspace: Workspace) -> None:
    """The worker holds the key no longer than the job."""
    workspace.ask(ENCRYPTION_KEY, KeyParams(), lambda _: None, failed=lambda _: None)


def checked_cuts(asked: SegmentsParams) -> SegmentsParams:
    """Where a model is cut, without commas between layers; ValueError where it is nowhere."""
    after = tuple(word for text in asked.after for word in text.split(",") if word)
    if not after and asked.max_ms is None:
        raise ValueError("Type uids or names of layers, or a time such as 5 ms.")
    return replace(asked, after=after)


def ask_segments(workspace: Workspace, start: str, chips: Sequence[str]) -> None:
    """Ask for the file, where it is cut, and the file to write; then start the job.

    Args:
        workspace: asks.
        start: a file that fits: a container, or a model of generation 1; empty for none.
        chips: that times can be estimated for.
    """

    def go(asked: SegmentsParams) -> None:
        title = f"segment {sanitize(Path(asked.path).name, 80)}"
        workspace.start_writing(SEGMENTS_CUT, asked, title, asked.output)

    path = workspace.session.container or start
    chip = workspace.session.chip or None
    output = str(Path(path).with_suffix(".segments.rknn")) if path else None
    now = SegmentsParams(path=path, chip=chip, output=output)
    choices = {"chip": chips} if chips else None
    SEGMENTS_FORM.ask(workspace.app, now, then=go, check=checked_cuts, choices=choices)


def show_written(app: App[None], result: Exported | Encrypted | Segments) -> None:
    """Tell what was written, and how it is used."""
    from rknntui.screens.dialogs.dialogs import TextDialog

    texts = _cut(result) if isinstance(result, Segments) else answer_lines(result)
    lines: list[Line] = [[(text, "")] for text in texts]
    if isinstance(result, Exported) and result.format == "rknn":
        lines += [[], [(with_keys("{app.open} opens it here again."), "dim")]]
    app.push_screen(TextDialog(type(result).__name__, lines))


def _cut(found: Segments) -> list[str]:
    """The segments in words, since a dialog has no room for their table; then the file."""
    texts = answer_lines(replace(found, segments=()), SEGMENTS_CUT, layers=False)
    for number, row in enumerate(found.segments, 1):
        time = "" if row.time_ms is None else f", {MILLISECONDS.text(row.time_ms)} ms estimated"
        texts.append(
            f"{number}: {row.layers} layers, {row.first} to {row.last} "
            f"({sanitize(row.ends, 60)}){time}; {human_bytes(row.crossing_bytes)} cross"
        )
    return texts
