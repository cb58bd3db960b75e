"""``rknntui report``: all of a build as one file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from engine import (
    BuildReport,
    UsageError,
    atomic_write,
    chart_svg,
    container_report,
    gather_report,
    human_bytes,
    job_record,
    recipe_of,
    refuse_existing,
    report_html,
)
from engine.wire.codec import Values
from rknntui.cli.flags import (
    Verb,
    force_flag,
    json_flag,
    output_flag,
    quiet_flag,
    recipe_flags,
    values_of,
)
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, resolve, sniffed, with_worker
from rknntui.cli.verb import ask


@click.command("report", cls=Verb)
@click.argument("target")
@recipe_flags
@output_flag("The file to write: .html, or .svg of one chart.", required=True)
@click.option(
    "--chart",
    type=click.Choice(("error", "time", "roofline", "memory", "front", "channels", "chips")),
    help="Only this chart, as SVG.",
)
@force_flag
@json_flag
@quiet_flag
def command(
    target: str,
    output: Path,
    chart: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Write all of a build as one HTML file that needs no network, or one chart of it as SVG.

    TARGET is a model file, a recipe, the id of a job of the history, or a container, of which less
    is known. What the cache does not hold is built and analysed. With a chip (--target-platform)
    layers have estimated times, and those of the last run of this build on a board.
    """
    if (output.suffix.lower() == ".svg") != (chart is not None):
        raise UsageError(
            "One chart is written as SVG, and a whole report as HTML.",
            remedy="Name the file .html; or a chart (--chart error) and the file .svg.",
        )
    refuse_existing(output.absolute(), overwrite=force)
    options = values_of(flags)

    async def action(session: WorkerSession) -> BuildReport:
        asked = partial(ask, session)
        recipe: Values = {**_recipe_of_job(target), **options}
        if "model" not in recipe:
            if (await sniffed(session, Path(target))).kind == "rknn":
                return await container_report(asked, str(Path(target).absolute()))
            recipe = await resolve(session, Path(target), options)
        return await gather_report(asked, recipe)

    found = with_worker(action, Narrator(quiet=quiet))
    text = report_html(found) if chart is None else chart_svg(found, chart)
    size = atomic_write(output.absolute(), text.encode(), overwrite=force)
    lines = [f"{output}: {human_bytes(size)}", *(f"not in it: {why}" for why in found.absent)]
    more = {"path": str(output.absolute()), "bytes": size, "absent": list(found.absent)}
    emit(more, lines, as_json=as_json)
    return 0


def _recipe_of_job(target: str) -> dict[str, Any]:
    """The recipe of a job of the history by its id; empty where that names none."""
    if "/" in target or Path(target).exists():
        return {}
    try:
        return dict(recipe_of(job_record(target)))
    except UsageError:
        return {}
