"""``rknntui build``, ``export`` and ``sweep``: builds, and what is written of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine import Limits, UsageError, answer_lines, refuse_existing
from engine.wire.build import (
    BUILD,
    EXPORT,
    BuildParams,
    BuildSummary,
    Exported,
    ExportParams,
    form_of,
)
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.codec import Values, encode
from engine.wire.cost import COST_ESTIMATE, EstimateParams
from engine.wire.requests import RECIPE_SAVE, SaveParams
from engine.wire.sweep import ROW, SWEEP, Sweep
from rknntui.cli.flags import force_flag, output_flag
from rknntui.cli.verb import Given, Printed, verb


async def _checked(given: Given) -> Values:
    """The recipe; what is wrong with the command line is told before a long build."""
    output, save = given.flags["output"], given.flags["save_recipe"]
    if output is not None:
        form_of(output)
    for path in filter(None, (output, save)):
        refuse_existing(path.absolute(), overwrite=given.flags["force"])
    recipe = await given.recipe()
    if replace(given.limits, under=None) and not recipe.get("target_platform"):
        raise UsageError(
            "A limit of time, memory or layers on the CPU is for one chip.",
            remedy="Name it: --target-platform rk3588.",
        )
    if save is not None:
        asked = SaveParams(recipe, str(save.absolute()), given.flags["force"])
        given.say(f"wrote {(await given.session.call(RECIPE_SAVE, asked)).path}")
    return {"recipe": recipe}


async def _exported(given: Given, asked: BuildParams, found: BuildSummary) -> Values:
    """What the limits are of, and the file."""
    recipe, output = asked.recipe or {}, given.flags["output"]
    judged: list[Any] = [found]
    if replace(given.limits, under=None):
        chips = (str(recipe["target_platform"]),)
        question = EstimateParams(recipe=recipe, chips=chips, layers=False)
        judged.append(await given.session.call(COST_ESTIMATE, question))
    if output is None:
        return {"judged": judged, "exported": None}
    file = ExportParams(
        recipe=recipe,
        path=str(output.absolute()),
        format=form_of(output),
        force=given.flags["force"],
    )
    return {"judged": judged, "exported": await given.session.run_after(EXPORT, file)}


@verb(BUILD, fill=_checked, then=_exported, limits=("under", "over", "cpu", "memory"))
@output_flag("Also export the build (.rknn, or .onnx for QDQ ONNX).")
@click.option(
    "--save-recipe",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the recipe of this build to a file.",
)
@force_flag
def build(
    found: BuildSummary, limits: Limits, exported: Exported | None, judged: Sequence[Any]
) -> Printed:
    """Load, optimise, calibrate, quantize and evaluate a model, and print the summary.

    Nothing is written beside the model: -o exports the result, else it waits in the cache for
    export, simulate and accuracy.

    A limit (--fail-...) makes it a gate: exit code 14 where a figure is beyond it. Time, memory and
    layers on the CPU are estimated for the chip that --target-platform names.
    """
    lines, more = answer_lines(found), {}
    if exported is not None:
        lines += ["", f"Exported {exported.path}", f"  {exported.note}"]
        more["exported"] = encode(exported)
    return Printed([*lines, *([""] if limits else [])], more=more, judged=judged)


@verb(EXPORT)
def export() -> None:
    """Write a build as .rknn container, QDQ ONNX or TFLite; builds what the cache does not hold."""


@verb(SWEEP, tell=(ROW, SWEEP_ROWS))
def sweep(found: Sweep) -> Printed:
    """Build every combination of some options' values, and compare the results (simulated).

    The builds run side by side on a Dask cluster: on this machine, or on another one by address.
    Where no combination can be built, the exit code is that of the first one's error.
    """
    errors = [row.error for row in found.rows if row.error is not None]
    failed = len(errors) == len(found.rows) > 0
    return Printed(code=int(errors[0]["exit_code"]) if failed else 0)
