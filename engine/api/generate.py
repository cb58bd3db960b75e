"""``codegen``: a project that runs the model on a board."""

from __future__ import annotations

from collections.abc import Sequence
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from engine.api.log import path_text
from engine.api.signatures import Parameters
from engine.base.errors import UsageError
from engine.base.events import Reporter
from engine.base.text import sanitize
from engine.wire.codegen import Language, ModelTask

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline


def generate_project(
    build: Pipeline | None, loaded: Path | None, given: Parameters, log: Logger, reporter: Reporter
) -> None:
    """Write a project.

    Args:
        build: of the script; None before ``build``.
        loaded: the file of ``load_rknn``.
        given: the arguments of ``codegen``.
        log: told what a user should know.
        reporter: of the script.

    Raises:
        EngineError: there is nothing to generate code for, an input does not fit, or the folder
            cannot be written.
    """
    from engine.devices.board.model_file import model_file
    from engine.export.codegen import check_target, write_project
    from engine.pipeline.codegen import project_of

    path = Path(path_text(given["output_path"], "output_path"))
    language = _one_of(given["language"], get_args(Language), "language")
    task = _one_of(given["task"], get_args(ModelTask), "task")
    overwrite = bool(given["overwrite"])
    check_target(path, overwrite=overwrite)
    compiled = None if given["model"] is None else Path(path_text(given["model"], "model"))
    container = None
    if build is None and loaded is None:
        raise UsageError(
            "There is nothing to generate code for.", remedy="Call build or load_rknn first."
        )
    if build is None and loaded is not None:
        if model_file(loaded).ours:
            container = loaded
        else:
            compiled = loaded
    project, anchors = project_of(
        build,
        container,
        compiled,
        given["chip"],
        _files(given["inputs"]),
        no_golden="Call codegen after build, with model= as the path of the compiled model.",
        reporter=reporter,
    )
    written = write_project(
        project,
        path,
        reporter,
        language=cast(Language, language),
        task=cast(ModelTask, task),
        anchors=anchors,
        overwrite=overwrite,
    )
    for finding in written.findings:
        log.warning("codegen: %s %s", finding.what, finding.remedy)
    log.info("codegen: %d files in %s", len(written.files), sanitize(written.path, 300))


def _one_of(value: Any, known: Sequence[str], name: str) -> str:
    if value not in known:
        raise UsageError(
            f"{name} is {sanitize(repr(value), 80)}.", remedy=f"Give one of {', '.join(known)}."
        )
    return str(value)


def _files(inputs: Any) -> list[Path]:
    if inputs is None:
        return []
    if not isinstance(inputs, list | tuple):
        inputs = [inputs]
    return [Path(path_text(path, "inputs")) for path in inputs]
