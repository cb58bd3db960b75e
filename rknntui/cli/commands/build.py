"""``rknntui build``, ``export`` and ``sweep``: builds, and what is written of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click

from engine import (
    BuildReport,
    Event,
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
    sqnr_rank,
    summary_text,
)
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
from engine.wire.cost import COST_ESTIMATE, ChipEstimate, EstimateParams
from engine.wire.requests import RECIPE_SAVE, SaveParams
from engine.wire.sweep import ROW, SWEEP, Row, Sweep
from rknntui.cli.flags import (
    Verb,
    force_flag,
    json_flag,
    output_flag,
    quiet_flag,
    recipe_flags,
    target,
    values_of,
)
from rknntui.cli.gates import Limits, estimate_figures, limit_flags, output_figures
from rknntui.cli.output import emit, row_text, table_lines
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, resolve, sniffed, with_worker
from rknntui.cli.verb import Printed, ask, described, show, verb


@click.command("build", cls=Verb, **described(BUILD))
@target
@recipe_flags
@output_flag("Also export the build (.rknn, or .onnx for QDQ ONNX).")
@click.option(
    "--save-recipe",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the recipe of this build to a file.",
)
@request_flags(BUILD)
@force_flag
@limit_flags("under", "over", "cpu", "memory")
@json_flag
@quiet_flag
def build(
    target: Path,
    output: Path | None,
    save_recipe: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Load, optimise, calibrate, quantize and evaluate a model, and print the summary.

    Nothing is written beside the model: -o exports the result, else it waits in the cache for
    export, simulate and accuracy.

    A limit (--fail-...) makes it a gate: exit code 14 where a figure is beyond it. Time, memory and
    layers on the CPU are estimated for the chip that --target-platform names.
    """
    limits = Limits.taken(flags)
    narrate = Narrator(quiet=quiet)
    form = None if output is None else form_of(output)
    for path in (output, save_recipe):
        if path is not None:  # a build may take long: not only then is this told
            refuse_existing(path.absolute(), overwrite=force)

    options, values = values_of(flags), values_for(BuildParams, flags)

    async def action(
        session: WorkerSession,
    ) -> tuple[BuildSummary, Exported | None, tuple[ChipEstimate, ...]]:
        recipe = await resolve(session, target, options)
        chip = recipe.get("target_platform")
        costly = replace(limits, under=None)
        if costly and not chip:
            raise UsageError(
                "A limit of time, memory or layers on the CPU is for one chip.",
                remedy="Name it: --target-platform rk3588.",
            )
        if save_recipe is not None:
            asked = SaveParams(recipe, str(save_recipe.absolute()), force)
            narrate.say(f"wrote {(await session.call(RECIPE_SAVE, asked)).path}")
        summary = await session.run(BUILD, BuildParams(recipe=recipe, **values))
        costs: tuple[ChipEstimate, ...] = ()
        if costly:
            question = EstimateParams(recipe=recipe, chips=(str(chip),), layers=False)
            costs = (await session.call(COST_ESTIMATE, question)).chips
        if output is None or form is None:
            return summary, None, costs
        file = ExportParams(recipe=recipe, path=str(output.absolute()), format=form, force=force)
        return summary, await session.run_after(EXPORT, file), costs

    summary, exported, costs = with_worker(action, narrate)
    gates = limits.gates(chain(output_figures(summary), estimate_figures(costs)))
    lines, more = [summary_text(summary)], {}
    if exported is not None:
        more["exported"] = encode(exported)
        lines += ["", f"Exported {exported.path}", f"  {exported.note}"]
    lines += [""] if gates else []
    return show(summary, Printed(lines, gates, more=more), as_json=as_json)


@verb(EXPORT)
def export(found: Exported) -> list[str]:
    """Write a build as .rknn container, QDQ ONNX or TFLite; builds what the cache does not hold."""
    lines = [f"{found.path}: {human_bytes(found.bytes)}, SHA-256 {found.sha256}", found.note]
    lines += [f"also {path}" for path in found.more]
    return lines + [f"{finding.what} {finding.remedy}" for finding in found.findings]


def _sweep_row(event: Event) -> str | None:
    row = ROW.of(event)
    return None if row is None else row_text(SWEEP_ROWS, row)


@verb(SWEEP, tell=_sweep_row)
def sweep(result: Sweep) -> Printed:
    """Build every combination of some options' values, and compare the results (simulated).

    The builds run side by side on a Dask cluster: on this machine, or on another one by address.
    Where no combination can be built, the exit code is that of the first one's error.
    """
    errors = [row.error for row in result.rows if row.error is not None]
    failed = len(errors) == len(result.rows) > 0
    return Printed(_sweep_lines(result), code=int(errors[0]["exit_code"]) if failed else 0)


def _sweep_lines(result: Sweep) -> list[str]:
    rows = sorted(result.rows, key=_badness)
    axes = f"build: {', '.join(result.axes)}"
    basis = f"simulated, compared on the {result.compared_on}"
    left = f"; {result.left_out} combinations skipped" if result.left_out else ""
    return [axes, *table_lines(SWEEP_ROWS, rows), f"{basis}{left}"]


def _badness(row: Row) -> float:
    """Rows in the order of their worst output, the best first; failed ones last."""
    if row.outputs is None:
        return float("inf")
    return -min((sqnr_rank(o.sqnr_db) for o in row.outputs), default=float("inf"))


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
def report(
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
