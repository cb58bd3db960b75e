"""``rknntui build``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import refuse_existing, summary_text
from rknntui.cli.flags import json_flag, quiet_flag, recipe_flags, target, values_of
from rknntui.cli.narration import Narrator
from rknntui.cli.output import emit
from rknntui.cli.session import WorkerSession, resolve, with_worker


@click.command("build", epilog="TARGET is a model file or a recipe; flags win over the recipe.")
@target
@recipe_flags
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Export the build there too (.rknn, or .onnx for QDQ ONNX).",
)
@click.option(
    "--save-recipe",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the recipe of this build.",
)
@click.option(
    "--refresh", is_flag=True, help="Compute every stage again, whatever the cache holds."
)
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@json_flag
@quiet_flag
def command(
    target: Path,
    output: Path | None,
    save_recipe: Path | None,
    refresh: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Load, optimise, calibrate, quantize and evaluate a model, and print the summary.

    Nothing is written beside the model: -o exports the result, else it waits in the cache for
    export, simulate and accuracy.
    """
    narrate = Narrator(quiet=quiet)
    for path in (output, save_recipe):
        if path is not None:  # a build may take long: not only then is this told
            refuse_existing(path.absolute(), overwrite=force)

    async def action(session: WorkerSession) -> dict[str, Any]:
        recipe = await resolve(session, target, values_of(flags))
        if save_recipe is not None:
            path = str(save_recipe.absolute())
            saved = await session.call("recipe.save", path=path, recipe=recipe, force=force)
            narrate.say(f"wrote {saved['path']}")
        summary = await session.run("build", recipe=recipe, refresh=refresh)
        if output is not None:
            summary["exported"] = await session.run_after(
                "export",
                recipe=recipe,
                path=str(output.absolute()),
                format="onnx" if output.suffix.lower() == ".onnx" else "rknn",
                force=force,
            )
        return summary

    summary = with_worker(action, narrate)
    text = summary_text(summary)
    if output is not None:
        text += f"\n\nExported {summary['exported']['path']}\n  {summary['exported']['note']}"
    emit(summary, text, as_json=as_json)
