"""What is made of a file: an encrypted model, and a model in segments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine import human_bytes, sanitize
from engine.wire.encryption import (
    ENCRYPTION_ENCRYPT,
    ENCRYPTION_KEY,
    Encrypted,
    EncryptParams,
    KeyParams,
)
from engine.wire.formats import MILLISECONDS
from engine.wire.segments import SEGMENTS_CUT, Segments, SegmentsParams
from rknntui.screens.dialogs.picker import ask_new_file
from rknntui.widgets.findings import finding_lines, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from rknntui.screens.base.workspace import Workspace
    from rknntui.widgets.strips import Line

FILE_JOBS = (ENCRYPTION_ENCRYPT.name, SEGMENTS_CUT.name)
_LEVELS = {
    "1": "about half a second to open",
    "2": "takes longer to open, and to guess the key",
    "3": "takes longest",
}
_TYPED, _FILE, _NONE = "type it", "file", "none"
_KEYS = {
    _TYPED: "a container of this program opens only with it; it is kept nowhere",
    _FILE: "a file that holds it",
    _NONE: "a compiled model, which the vendor's toolkit encrypts with a key of its own",
}
_KEEP, _WIPE = "keep", "wipe"
_PLAIN = {
    _KEEP: "the file stays as it is, and so does the cache of this program",
    _WIPE: "what this program wrote of it in plain form is removed: the file, what lies beside it, "
    "and the cache of all models; your source model and samples stay",
}
_MOST_SEGMENTS = 40


def _ask_file(workspace: Workspace, title: str, start: str, then: Callable[[str], None]) -> None:
    """Ask which file; the open container is proposed, else the one that was written last."""
    from rknntui.screens.dialogs.picker import PathPicker

    def picked(path: str | None) -> None:
        if path is not None:
            then(path)

    start = workspace.session.container or start
    workspace.app.push_screen(PathPicker(title, start), picked)


def _beside(path: str, word: str) -> Path:
    return Path(path).with_suffix(f".{word}.rknn")


# -------------------------------------------------------------------------------------- encryption
def ask_encrypted(workspace: Workspace, start: str) -> None:
    """Ask for the file, the level, the key and where it goes; then start the job.

    Args:
        workspace: asks.
        start: a file that was written here; empty for none.
    """
    from rknntui.screens.dialogs.dialogs import ChoiceDialog

    app = workspace.app

    def chosen(path: str) -> None:
        def levelled(level: str | None) -> None:
            if level is not None:
                _ask_key(app, lambda key: placed(int(level), key))

        def placed(level: int, key: KeyParams | None) -> None:
            def written(output: str, force: bool) -> None:
                dialog = ChoiceDialog("The plain model afterwards", list(_PLAIN), _KEEP, _PLAIN)
                app.push_screen(dialog, lambda plain: start(output, force, plain))

            def start(output: str, force: bool, plain: str | None) -> None:
                if plain is None:
                    return
                params = EncryptParams(
                    path=path, output=output, level=level, force=force, wipe=plain == _WIPE
                )
                title = f"encrypt {sanitize(Path(path).name, 80)}"
                if key is None:
                    workspace.start_job(ENCRYPTION_ENCRYPT, params, title)
                else:  # first: the job asks the worker for it
                    start_job = workspace.start_job
                    workspace.ask(
                        ENCRYPTION_KEY, key, lambda _: start_job(ENCRYPTION_ENCRYPT, params, title)
                    )

            ask_new_file(app, "Encrypt to", _beside(path, "crypt"), written)

        app.push_screen(ChoiceDialog("Level", list(_LEVELS), "1", _LEVELS), levelled)

    _ask_file(workspace, "Container or compiled model to encrypt (.rknn)", start, chosen)


def _ask_key(app: App[None], then: Callable[[KeyParams | None], None]) -> None:
    """Ask for the key: typed twice, or a file; ``then`` is called with None for no key."""
    from rknntui.screens.dialogs.dialogs import ChoiceDialog, PromptDialog
    from rknntui.screens.dialogs.picker import PathPicker

    def empty(text: str) -> str:
        return "" if text else "The key is empty."

    def typed(first: str | None) -> None:
        if first is None:
            return

        def other(text: str) -> str:
            return "" if text == first else "That is another one than the first time."

        def again(text: str | None) -> None:
            if text is not None:
                then(KeyParams(text))

        app.push_screen(PromptDialog("Key", "The same again", "", other, hidden=True), again)

    def picked(path: str | None) -> None:
        if path is not None:
            then(KeyParams(file=path))

    def chosen(how: str | None) -> None:
        if how == _TYPED:
            question = "There is no way to open the container without it"
            app.push_screen(PromptDialog("Key", question, "", empty, hidden=True), typed)
        elif how == _FILE:
            app.push_screen(PathPicker("File with the key"), picked)
        elif how == _NONE:
            then(None)

    app.push_screen(ChoiceDialog("Key", list(_KEYS), "", _KEYS), chosen)


def forget_key(workspace: Workspace) -> None:
    """The worker holds the key no longer than the job."""
    workspace.ask(ENCRYPTION_KEY, KeyParams(), lambda _: None, failed=lambda _: None)


# ---------------------------------------------------------------------------------------- segments
_CUTS = {
    "after": "uids or names of layers that a segment ends after",
    "max_ms": "instead: at most so long (estimated), such as 5 ms",
}


def checked_cuts(asked: SegmentsParams) -> SegmentsParams:
    """Where a model is cut, without commas between layers; ValueError where it is nowhere."""
    after = tuple(word for text in asked.after for word in text.split(",") if word)
    if not after and asked.max_ms is None:
        raise ValueError("Type uids or names of layers, or a time such as 5 ms.")
    return replace(asked, after=after)


def ask_segments(workspace: Workspace, start: str) -> None:
    """Ask for the file, where it is cut, and the file to write; then start the job."""
    from rknntui.screens.dialogs.request import RequestDialog

    app = workspace.app
    chip = str(workspace.session.recipe.get("target_platform") or "") or None

    def chosen(path: str) -> None:
        def cut(asked: SegmentsParams | None) -> None:
            if asked is None:
                return

            def write(output: str, force: bool) -> None:
                title = f"segment {sanitize(Path(path).name, 80)}"
                params = replace(asked, output=output, force=force)
                workspace.start_job(SEGMENTS_CUT, params, title)

            ask_new_file(app, "Write the segments to", _beside(path, "segments"), write)

        now = SegmentsParams(path=path, chip=chip)
        app.push_screen(
            RequestDialog("Cut into segments", now, list(_CUTS), _CUTS, checked_cuts), cut
        )

    _ask_file(workspace, "Container, or compiled model of generation 1 (.rknn)", start, chosen)


def show_file_result(app: App[None], result: Encrypted | Segments) -> None:
    """Tell what was made."""
    from rknntui.screens.dialogs.dialogs import TextDialog

    def lines(width: int) -> list[Line]:
        content: list[Line] = [
            [(sanitize(result.path, 400), "accent")],
            [(f"{human_bytes(result.size)}, SHA-256", "")],
            [(result.sha256, "dim")],
            [],
        ]
        if isinstance(result, Encrypted):
            how = "AES-256-GCM, with your key" if result.ours else sanitize(result.toolkit, 60)
            content += [[(f"Encrypted, level {result.level} ({how}).", "")], []]
            copies_by_title = {
                "Removed": result.wiped,
                "In plain form there is still": result.stays,
            }
            for what, copies in copies_by_title.items():
                names = ", ".join(sanitize(copy.name, 200) for copy in copies)
                content += wrapped(f"{what}: {names}.", width, "") if copies else []
            return content + finding_lines(result.findings, width, "deploy.apply-remedy")
        for number, row in enumerate(result.segments[:_MOST_SEGMENTS], 1):
            time = (
                f", {MILLISECONDS.text(row.time_ms)} ms estimated"
                if row.time_ms is not None
                else ""
            )
            text = (
                f"{number}: {row.layers} layers, {row.first} to {row.last} "
                f"({sanitize(row.ends, 60)}){time}; {human_bytes(row.crossing_bytes)} cross"
            )
            content += wrapped(text, width, "")
        if (rest := len(result.segments) - _MOST_SEGMENTS) > 0:
            content.append([(f"and {rest} more", "dim")])
        return content + finding_lines(result.findings, width, "deploy.apply-remedy")

    title = "Encrypted" if isinstance(result, Encrypted) else "Segments"
    app.push_screen(TextDialog(title, lines))
