"""The worker's job that writes a project for a board."""

from __future__ import annotations

from pathlib import Path

from engine.base.events import ArtifactWritten, Reporter
from engine.export.codegen import check_target, write_project
from engine.pipeline.codegen import project_of
from engine.services.registry import runs
from engine.services.state import get_pipeline, recipe_of
from engine.wire.codegen import CODEGEN, CodegenParams, Generated


@runs(CODEGEN)
def codegen(params: CodegenParams, reporter: Reporter) -> Generated:
    """Write a project with its golden samples."""
    path = Path(params.path)
    check_target(path, overwrite=params.overwrite)
    pipeline = None
    if params.recipe is not None:
        recipe = recipe_of(params.recipe)
        pipeline = get_pipeline(recipe, reporter, last="quantize", then=("codegen",))
    project, anchors = project_of(
        pipeline,
        None if params.build is None else Path(params.build),
        None if params.model is None else Path(params.model),
        params.chip,
        [Path(path) for path in params.inputs],
        no_golden="Give the recipe or the build that it was made from as TARGET, and the compiled "
        "model with --model.",
        normalise=params.normalise,
        reporter=reporter,
    )
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
