"""``rknntui codegen``: Write a C++ or Python project that runs a model on a board."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from engine import ContainerError, SourceModelError, sanitize
from engine.wire.codegen import (
    CODEGEN,
    MODEL_TASKS,
    CodegenParams,
    Generated,
    Language,
    ModelTask,
    TaskDetails,
)
from engine.wire.model import SNIFF
from engine.wire.requests import AtPath
from rknntui.cli.flags import Verb, json_flag, quiet_flag, recipe_flags, values_of
from rknntui.cli.flags import target as target_argument
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, resolve, with_worker


class Numbers(click.ParamType):
    """``10,13,16,30``: numbers with commas between."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """The numbers, or click's usage error."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(each) for each in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not numbers with commas between.", param, ctx)


@click.command(
    "codegen",
    cls=Verb,
    epilog="TARGET is a model file, a recipe, a container of this program, or a compiled .rknn. "
    "Tasks: " + "; ".join(f"{name}: {about}" for name, about in MODEL_TASKS.items()) + ".",
)
@target_argument
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write.",
)
@click.option(
    "--language",
    type=click.Choice(get_args(Language)),
    default="cpp",
    show_default=True,
    help="cpp: the C API, CMake; python: rknnlite.",
)
@click.option(
    "--task",
    type=click.Choice(get_args(ModelTask)),
    default="none",
    show_default=True,
    help="What the model is: its post-processing comes with the project.",
)
@click.option("--chip", help="The chip it is for; default: target_platform of the recipe.")
@click.option(
    "-i",
    "--input",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A picture or npy for each input, samples one after the other. Default: the first "
    "calibration sample.",
)
@click.option(
    "--model",
    "compiled",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The compiled .rknn that the project takes along.",
)
@click.option(
    "--normalise",
    is_flag=True,
    help="The project applies mean and std; the compiled model lacks them.",
)
@click.option("--labels", type=click.Path(path_type=Path), help="A file with a class name a line.")
@click.option("--classes", type=click.IntRange(1, 1_000_000), help="How many classes there are.")
@click.option(
    "--anchors",
    type=Numbers(),
    metavar="W,H,...",
    help="Anchors in pixels of the input, those of the finest grid first.",
)
@click.option("--priors", type=click.Path(path_type=Path), help="npy (N, 4) of SSD's priors.")
@click.option("--score", type=click.FloatRange(0, 1), help="Least score of a box.")
@click.option("--overlap", type=click.FloatRange(0, 1), help="Largest overlap of two boxes.")
@click.option(
    "--logits/--probabilities",
    default=None,
    help="Whether the scores lack their sigmoid or softmax. Default: as the golden outputs show.",
)
@click.option("--overwrite", is_flag=True, help="Replace a project that was generated there.")
@recipe_flags
@json_flag
@quiet_flag
def command(
    target: Path,
    output: Path,
    language: Language,
    task: ModelTask,
    chip: str | None,
    files: tuple[Path, ...],
    compiled: Path | None,
    normalise: bool,
    labels: Path | None,
    classes: int | None,
    anchors: tuple[float, ...] | None,
    priors: Path | None,
    score: float | None,
    overlap: float | None,
    logits: bool | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Write a project that runs a model on a board and compares its outputs with golden ones.

    The golden outputs are simulated by the build of TARGET, and stored with the inputs.
    """
    details = TaskDetails(
        classes=classes,
        labels=_path(labels),
        anchors=anchors or (),
        score=score,
        overlap=overlap,
        logits=logits,
        priors=_path(priors),
    )

    async def action(session: WorkerSession) -> Generated:
        kind = await _kind(session, target)
        recipe = None
        if not kind:
            recipe = await resolve(session, target, values_of(flags))
        elif kind == "rknn_vendor" and compiled is not None:
            raise ContainerError(
                f"{target} is a compiled model, and --model names another one.",
                remedy="Give the recipe or the build as TARGET.",
            )
        asked = CodegenParams(
            path=str(output.absolute()),
            recipe=recipe,
            build=_path(target) if kind == "rknn" else None,
            model=_path(target) if kind == "rknn_vendor" else _path(compiled),
            language=language,
            task=task,
            inputs=tuple(str(each.absolute()) for each in files),
            chip=chip,
            details=details,
            normalise=normalise,
            overwrite=overwrite,
        )
        return await session.run(CODEGEN, asked)

    result = with_worker(action, Narrator(quiet=quiet))
    lines = [f"{sanitize(result.path, 500)}: {len(result.files)} files"]
    for finding in result.findings:
        lines.append(f"{finding.severity}: {sanitize(finding.what)}")
        lines += [f"  {sanitize(line)}" for line in finding.remedy.split("\n") if line]
    lines.append("Its README.md says how to build and run it.")
    emit(result, lines, as_json=as_json)


def _path(given: Path | None) -> str | None:
    return None if given is None else str(given.absolute())


async def _kind(session: WorkerSession, target: Path) -> str:
    """``rknn``: a container of ours; ``rknn_vendor``: a compiled model; else empty."""
    try:
        seen = await session.call(SNIFF, AtPath(str(target.absolute())))
    except SourceModelError:
        return ""  # whoever reads it as a model or recipe tells what is wrong
    return seen.kind if seen.kind in ("rknn", "rknn_vendor") else ""
