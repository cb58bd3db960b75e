"""What is compiled and how: chips, quantizer, samples of the second opinion, toolkit."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine import sanitize
from engine.wire.compile import COMPILE, MOST_SAMPLES, OWN_SAMPLES, CompileParams
from rknntui.keys.commandline import command_for
from rknntui.screens.deploy.forms import stem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.wire.vendor import ToolkitEnvironment
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.state import Session

__all__ = ["Request", "ask_quantizer", "ask_samples", "ask_start", "ask_toolkit"]

Quantizer = Literal["ours", "vendor"]
_AUTO = "automatic"
_DEFAULT = "default"
_QUANTIZERS = {
    _AUTO: "ours where the dtype can be written as Q/DQ pairs (w8a8), else the vendor's",
    "ours": "the build as it is, through Q/DQ pairs: what was simulated here",
    "vendor": "the vendor's toolkit calibrates and quantizes by itself, with the same recipe",
}


@dataclass(frozen=True)
class Request:
    """How the open model is compiled.

    Attributes:
        chips: that it is compiled for.
        quantizer: whose quantization; None: ours where there is a way.
        samples: of the second opinion by the vendor's simulator; 0: none.
        samples_path: of the user's own; None: calibration samples.
        accept_difference: write a model whose outputs are far from ours, too.
        toolkit: name of an environment; None: the default of the chip's generation.
    """

    chips: tuple[str, ...] = ()
    quantizer: Quantizer | None = None
    samples: int = 1
    samples_path: str | None = None
    accept_difference: bool = False
    toolkit: str | None = None

    @property
    def words(self) -> tuple[str, str, str, str]:
        """Quantizer, second opinion, whether a difference is accepted, and toolkit: for the line on
        top, empty where it would tell the default.
        """
        count = self.samples
        opinion = f"second opinion: {count} sample{'' if count == 1 else 's'}"
        if self.samples_path is not None:
            opinion = f"second opinion on {sanitize(Path(self.samples_path).name, 40)}"
        return (
            f"quantizer {self.quantizer or _AUTO}",
            opinion if count else "no second opinion",
            "differences accepted" if self.accept_difference else "",
            f"toolkit {sanitize(self.toolkit, 40)}" if self.toolkit else "",
        )

    def command_line(self, session: Session, path: str) -> list[str]:
        """The command that compiles so; empty where no model is open."""
        words = command_for("compile", session) if session.container is None else []
        if not words:
            return []
        words += [word for chip in self.chips for word in ("--chip", chip)]
        words += ["--quantizer", self.quantizer] if self.quantizer else []
        if self.samples_path is not None:
            words += ["--samples", self.samples_path]
        else:
            words += ["--samples", str(self.samples)] if self.samples != 1 else []
        words += ["--accept-difference"] if self.accept_difference else []
        words += ["--toolkit", self.toolkit] if self.toolkit else []
        return [*words, "-o", path]


def file_name(workspace: Workspace, chips: Sequence[str]) -> str:
    """The name that is proposed; ``{chip}`` stands for the chip where there are several."""
    chip = chips[0] if len(chips) == 1 else "{chip}"
    return f"{stem_of(workspace)}-{chip}.rknn"


def ask_start(workspace: Workspace, request: Request, *, refresh: bool = False) -> None:
    """Ask where the compiled models go, and before one is replaced; then start the job."""
    from rknntui.screens.dialogs.dialogs import ConfirmDialog
    from rknntui.screens.dialogs.picker import PathPicker

    recipe = dict(workspace.session.recipe)
    title = f"compile {sanitize(stem_of(workspace), 60)} for {', '.join(request.chips)}"

    def start(path: str, *, force: bool) -> None:
        params = CompileParams(
            recipe=recipe,
            path=path,
            chips=request.chips,
            quantizer=request.quantizer,
            toolkit=request.toolkit,
            samples=request.samples,
            samples_path=request.samples_path,
            accept_difference=request.accept_difference,
            refresh=refresh,
            force=force,
        )
        workspace.start_job(COMPILE, params, title)

    def chosen(path: str | None) -> None:
        if path is None:
            return
        there = [file for file in _files(path, request.chips) if os.path.lexists(file)]
        if not there:
            start(path, force=False)
            return
        more = f" and {len(there) - 1} more exist" if len(there) > 1 else " exists"
        question = f"{there[0]}{more}. Replace?"
        answers = [("y", "replace", True), ("n", "keep", False)]
        dialog = ConfirmDialog("Overwrite", question, answers)
        workspace.app.push_screen(dialog, lambda yes: start(path, force=True) if yes else None)

    proposed = str(Path.cwd() / file_name(workspace, request.chips))
    heading = "Compile to" + (" ({chip}: the chip)" if len(request.chips) > 1 else "")
    workspace.app.push_screen(PathPicker(heading, proposed, folders=True, new=True), chosen)


def _files(path: str, chips: Sequence[str]) -> list[str]:
    """The files that would be written; a folder's own names are for the engine to look at."""
    if "{chip}" in path:
        return [path.replace("{chip}", chip) for chip in chips]
    return [path] if len(chips) == 1 and not Path(path).is_dir() else []


def ask_quantizer(workspace: Workspace, now: Request, then: Callable[[Request], None]) -> None:
    """Ask whose quantization is used."""
    from rknntui.screens.dialogs.dialogs import ChoiceDialog

    def chosen(name: str | None) -> None:
        match name:
            case "ours" | "vendor":
                then(replace(now, quantizer=name))
            case str():
                then(replace(now, quantizer=None))

    dialog = ChoiceDialog("Quantizer", list(_QUANTIZERS), now.quantizer or _AUTO, _QUANTIZERS)
    workspace.app.push_screen(dialog, chosen)


def ask_samples(workspace: Workspace, now: Request, then: Callable[[Request], None]) -> None:
    """Ask over how many samples the vendor's simulator is compared with ours."""
    from rknntui.screens.dialogs.dialogs import PromptDialog

    def problem(text: str) -> str:
        text = text.strip()
        if text.isascii() and text.isdigit() and len(text) < 6:
            return "" if int(text) <= MOST_SAMPLES else f"A whole number, 0 to {MOST_SAMPLES}."
        there = bool(text) and Path(text).expanduser().exists()
        return "" if there else f"A whole number, 0 to {MOST_SAMPLES}, or a folder that exists."

    def typed(text: str | None) -> None:
        if text is None:
            return
        text = text.strip()
        if text.isdigit():
            then(replace(now, samples=int(text), samples_path=None))
        else:
            path = str(Path(text).expanduser().absolute())
            then(replace(now, samples=OWN_SAMPLES, samples_path=path))

    question = "Calibration samples for the vendor's simulator, or a folder of pictures; 0: none"
    dialog = PromptDialog("Second opinion", question, now.samples_path or str(now.samples), problem)
    workspace.app.push_screen(dialog, typed)


def ask_toolkit(
    workspace: Workspace,
    known: Sequence[ToolkitEnvironment],
    now: Request,
    then: Callable[[Request], None],
) -> None:
    """Ask which environment compiles."""
    from rknntui.screens.dialogs.dialogs import ChoiceDialog

    about = {_DEFAULT: "the default toolkit of each chip's generation"}
    for row in known:
        version = f" {row.version}" if row.version else ""
        text = f"generation {row.generation},{version} {row.state}; {row.folder}"
        about[row.name] = sanitize(text, 300)

    def chosen(name: str | None) -> None:
        if name is not None:
            then(replace(now, toolkit=None if name == _DEFAULT else name))

    dialog = ChoiceDialog("Toolkit", list(about), now.toolkit or _DEFAULT, about)
    workspace.app.push_screen(dialog, chosen)
