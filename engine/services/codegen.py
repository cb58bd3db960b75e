"""The worker's job that writes a project for a board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.content import reading
from engine.base.errors import UsageError
from engine.base.events import ArtifactWritten, Reporter
from engine.dataset import Preprocess
from engine.export.codegen import check_target, write_project
from engine.export.codegen.project import Board
from engine.pipeline import codegen as projects
from engine.pipeline.runner import Runnable, does_not_run
from engine.recipe import Recipe, portable_values
from engine.services.registry import runs
from engine.services.state import get_pipeline, recipe_of
from engine.wire.codegen import CODEGEN, CodegenParams, Generated

if TYPE_CHECKING:
    from engine.export.codegen import Project
    from engine.pipeline.codegen import Anchors


@runs(CODEGEN)
def codegen(params: CodegenParams, reporter: Reporter) -> Generated:
    """Write a project with its golden samples."""
    path = Path(params.path)
    check_target(path, overwrite=params.overwrite)
    project, anchors = _project(params, reporter)
    written = write_project(
        project,
        path,
        reporter,
        language=params.language,
        task=params.task,
        details=params.details,
        anchors=anchors,
        overwrite=params.overwrite,
    )
    reporter.emit(ArtifactWritten(written.path, "project", len(written.files)))
    return written


def _project(params: CodegenParams, reporter: Reporter) -> tuple[Project, Anchors]:
    files = [Path(path) for path in params.inputs]
    compiled = None if params.model is None else Path(params.model)
    if params.recipe is not None:
        recipe = recipe_of(params.recipe)
        board = Board.of_chip(projects.chip_of(params.chip, recipe, compiled))
        pipeline = get_pipeline(recipe, reporter, last="quantize", then=("codegen",))
        runnable = Runnable.of_build(pipeline)
        calibration = projects.calibration_of(pipeline)
        anchors = projects.darknet_anchors(recipe, len(runnable.outputs))
    elif params.build is not None:
        container = Path(params.build)
        runnable = Runnable.of_container(container)
        with reading(lambda why: does_not_run(container, why)):
            values = portable_values(runnable.recipe)
            values.pop("model", None)
            values.pop("dataset", None)
            recipe = Recipe.from_values(values)
        board = Board.of_chip(projects.chip_of(params.chip, recipe, compiled))
        calibration, anchors = None, {}
    elif compiled is not None:
        board = Board.of_chip(projects.chip_of(params.chip, None, compiled))
        if files:
            raise UsageError(
                "A compiled model alone does not run here, so that inputs have no golden outputs.",
                remedy="Give the recipe or the build that it was made from as TARGET, and the "
                "compiled model with --model.",
            )
        return projects.project_of_compiled(compiled, board), {}
    else:
        raise UsageError("The request names no recipe, no build and no compiled model.")
    project = projects.project_of_run(
        runnable,
        Preprocess.from_recipe(recipe, board.generation),
        board,
        files,
        calibration,
        normalise=params.normalise,
        compiled=compiled,
        made_from=projects.made_from(runnable.name, board.chip),
        reporter=reporter,
    )
    return project, anchors
