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
    from engine.export.codegen import Project
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
    from engine.export.codegen import check_target, write_project
    from engine.pipeline.codegen import darknet_anchors

    path = Path(path_text(given["output_path"], "output_path"))
    language = _one_of(given["language"], get_args(Language), "language")
    task = _one_of(given["task"], get_args(ModelTask), "task")
    overwrite = bool(given["overwrite"])
    check_target(path, overwrite=overwrite)
    project = _project(build, loaded, given, reporter)
    anchors = {} if build is None else darknet_anchors(build.recipe, len(project.outputs))
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


def _project(
    build: Pipeline | None, loaded: Path | None, arguments: Parameters, reporter: Reporter
) -> Project:
    from engine.dataset import Preprocess
    from engine.devices.board.model_file import model_file
    from engine.export.codegen.project import Board
    from engine.pipeline import codegen as projects
    from engine.pipeline.runner import Runnable
    from engine.recipe import Recipe, portable_values

    files = _files(arguments["inputs"])
    chip = arguments["chip"]
    compiled = None if arguments["model"] is None else Path(path_text(arguments["model"], "model"))
    if build is not None:
        recipe, runnable = build.recipe, Runnable.of_build(build)
        calibration = projects.calibration_of(build)
    elif loaded is None:
        raise UsageError(
            "There is nothing to generate code for.", remedy="Call build or load_rknn first."
        )
    elif not model_file(loaded).ours:
        board = Board.of_chip(projects.chip_of(chip, None, loaded))
        if files:
            raise UsageError(
                "A compiled model alone does not run here, so that inputs have no golden outputs.",
                remedy="Call codegen after build, with model= as the path of the compiled model.",
            )
        return projects.project_of_compiled(loaded, board)
    else:
        runnable, calibration = Runnable.of_container(loaded), None
        values = portable_values(runnable.recipe)
        recipe = Recipe.from_values(
            {name: value for name, value in values.items() if name not in ("model", "dataset")}
        )
    board = Board.of_chip(projects.chip_of(chip, recipe, compiled))
    return projects.project_of_run(
        runnable,
        Preprocess.from_recipe(recipe, board.generation),
        board,
        files,
        calibration,
        compiled=compiled,
        made_from=projects.made_from(runnable.name, board.chip),
        reporter=reporter,
    )
