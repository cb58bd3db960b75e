"""``rknntui hybrid``: layers of another dtype, by files, by proposal or by search."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine import Event, sanitize, sqnr_text, summary_text
from engine.wire.build import BUILD, BuildParams
from engine.wire.codec import Values, encode
from engine.wire.hybrid import (
    CURVE,
    EFFECT,
    JOINS,
    PROPOSE,
    SEARCH,
    STEP1,
    STEP2,
    TABLE,
    Built,
    EffectParams,
    Joins,
    LayerDtypes,
    Proposal,
    ProposeParams,
    SearchParams,
    SearchResult,
    Step2Params,
    Table,
)
from engine.wire.recipes import RECIPE_SAVE, SaveParams
from engine.wire.requests import ModelTarget
from rknntui.cli.figures import rounding_text
from rknntui.cli.flags import (
    EPILOG,
    VerbGroup,
    json_flag,
    quiet_flag,
    recipe_flags,
    target,
    values_of,
)
from rknntui.cli.hybrid_text import (
    check_lines,
    curve_lines,
    layer_cost_cells,
    point_cells,
    ranking_lines,
    time_lines,
    wrote_line,
)
from rknntui.cli.output import emit, table
from rknntui.cli.progress import Narrator
from rknntui.cli.request import ask, request_flags, values_for
from rknntui.cli.session import WorkerSession, resolve, with_worker

save_flag = click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a recipe with the layers found.",
)


force_flag = click.option("--force", is_flag=True, help="Overwrite files that exist.")


@click.group("hybrid", cls=VerbGroup)
def command() -> None:
    """Give layers another dtype: files of the vendor's two steps, proposal, search, effect."""


@command.command(
    "step1", epilog=EPILOG, short_help="Write the three files of hybrid quantization step 1."
)
@target
@request_flags(STEP1)
@recipe_flags
@json_flag
@quiet_flag
def step1(
    target: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Write structure, data and NAME.quantization.cfg, to edit and give to step2."""

    result = ask(STEP1, target, flags, Narrator(quiet=quiet))
    files = result.files
    lines = [files.model, files.data, files.config, *ranking_lines(result.ranking)]
    emit(result, lines, as_json=as_json)


@command.command("step2", short_help="Build from the edited files of step 1.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("config", type=click.Path(path_type=Path))
@request_flags(STEP2)
@json_flag
@quiet_flag
def step2(
    model: Path,
    data: Path,
    config: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Build from the files of step1 and tell, line by line, what became of every edit."""

    asked = Step2Params(
        str(model.absolute()),
        str(data.absolute()),
        str(config.absolute()),
        **values_for(Step2Params, flags),
    )

    async def action(session: WorkerSession) -> Built:
        return await session.run(STEP2, asked)

    result = with_worker(action, Narrator(quiet=quiet))
    files = [str(path) for path in (model, data, config)]
    then = (
        shlex.join(["rknntui", "hybrid", "step2", *files, "-o", "model.rknn"])
        if asked.path is None
        else shlex.join(["rknntui", "inspect", asked.path])
    )
    result = replace(result, summary=replace(result.summary, next_command=then))
    told = summary_text(result.summary).split("\n")
    emit(result, [*check_lines(result.honoured), "", *told], as_json=as_json)


@command.command(
    "propose", epilog=EPILOG, short_help="Rank the layers by the gain of promoting them."
)
@target
@request_flags(PROPOSE)
@save_flag
@recipe_flags
@force_flag
@json_flag
@quiet_flag
def propose(
    target: Path,
    save: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Rank the layers by the gain of promoting them, estimated from their effect on the outputs."""

    given, values = values_of(flags), values_for(ProposeParams, flags)

    async def action(session: WorkerSession) -> tuple[Proposal, str | None]:
        recipe = await resolve(session, target, given)
        found = await session.run(PROPOSE, ProposeParams(recipe=recipe, **values))
        return found, await _saved(session, save, recipe, found.asked, force)

    found, saved = with_worker(action, Narrator(quiet=quiet))
    lines = [*ranking_lines(found.ranking), *time_lines(found), *wrote_line(saved)]
    emit(_with_saved(found, saved), lines, as_json=as_json)


@command.command(
    "search", epilog=EPILOG, short_help="Find the layers to promote for a floor or a budget."
)
@target
@request_flags(SEARCH)
@save_flag
@recipe_flags
@force_flag
@json_flag
@quiet_flag
def search(
    target: Path,
    save: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Find the layers to promote for a floor or a budget; the curve grows on standard error."""
    narrate = Narrator(quiet=quiet)

    def tell(event: Event) -> None:
        if (point := CURVE.of(event)) is not None:
            narrate.say("  ".join(point_cells(point)))
        narrate(event)

    given, values = values_of(flags), values_for(SearchParams, flags)

    async def action(session: WorkerSession) -> tuple[SearchResult, str | None]:
        recipe = await resolve(session, target, given)
        found = await session.run(SEARCH, SearchParams(recipe=recipe, **values))
        return found, await _saved(session, save, recipe, found.best.layers, force)

    found, saved = with_worker(action, tell)
    lines, best = curve_lines(found), found.best
    lines.append(f"best: step {best.step}, {len(best.lifted)} layers; ended: {found.ended}")
    lines += [f"  {sanitize(name, 200)}: {kind}" for name, kind in best.layers.items()]
    emit(_with_saved(found, saved), [*lines, *wrote_line(saved)], as_json=as_json)


@command.command("effect", epilog=EPILOG, short_help="Show the effect of other dtypes and ranges.")
@target
@request_flags(EFFECT)
@recipe_flags
@json_flag
@quiet_flag
def effect(
    target: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Show the effect of other dtypes and ranges on the outputs, without building."""

    values = values_for(EffectParams, flags)
    rounding = values.get("rounding", True)
    result = ask(EFFECT, target, flags, Narrator(quiet=quiet), **values)
    rows = [
        (
            sanitize(o.name, 60),
            *(sqnr_text(v, unit=False) for v in (o.before_db, o.sqnr_db)),
            *((rounding_text(o.rounding_before), rounding_text(o.rounding)) if rounding else ()),
        )
        for o in result.outputs
    ]
    columns = ("output", "before dB", "after dB (simulated)", "round. before dB", "round. after dB")
    lines = table(columns if rounding else columns[:3], rows)
    lines.append(f"SQNR over {result.over}")
    emit(result, [*lines, *check_lines(result.honoured)], as_json=as_json)


@command.command("table", epilog=EPILOG)
@target
@recipe_flags
@json_flag
def layers_table(target: Path, as_json: bool, **flags: Any) -> None:
    """List the layers of a build with dtype, range, SQNR and cost on --target-platform."""

    async def action(session: WorkerSession) -> Table:
        recipe = await resolve(session, target, values_of(flags))
        await session.run(BUILD, BuildParams(recipe=recipe))
        return await session.call(TABLE, ModelTarget(recipe=recipe))

    result = with_worker(action, Narrator(quiet=True))
    rows = [
        (
            sanitize(row.tensor, 50),
            sanitize(row.layer, 40),
            row.op,
            row.dtype,
            "" if row.minimum is None else f"{row.minimum:.5g}",
            "" if row.maximum is None else f"{row.maximum:.5g}",
            sqnr_text(row.sqnr_db, unit=False),
            *(layer_cost_cells(row) if result.chip else ()),
        )
        for row in result.rows
    ]
    columns = ("tensor", "layer", "op", "dtype", "minimum", "maximum", "SQNR dB (simulated)")
    costs = ("ms (estimated)", "adds ms (estimated)", "adds bytes") if result.chip else ()
    lines = [*table((*columns, *costs), rows), f"SQNR over {result.over}"]
    if result.chip and result.time_ms is not None:
        lines.append(f"time on {result.chip}: {result.time_ms:.3f} ms (estimated)")
    emit(result, lines, as_json=as_json)


@command.command(
    "joins", epilog=EPILOG, short_help="Find inputs with mismatched ranges before a build."
)
@target
@recipe_flags
@json_flag
def joins(target: Path, as_json: bool, **flags: Any) -> None:
    """Find operators whose inputs have mismatched ranges (boxes and scores in one Concat)."""

    async def action(session: WorkerSession) -> Joins:
        recipe = await resolve(session, target, values_of(flags))
        return await session.call(JOINS, ModelTarget(recipe=recipe))

    result = with_worker(action, Narrator(quiet=True))
    lines = [
        f"{f.severity}: {sanitize(f.where, 80)}: {sanitize(f.what)} "
        f"{sanitize(f.cause)} Fix: {sanitize(f.remedy)}"
        for f in result.findings
    ]
    emit(result, lines or "No mismatched ranges.", as_json=as_json)


async def _saved(
    session: WorkerSession,
    save: Path | None,
    recipe: Values,
    layers: LayerDtypes,
    force: bool,
) -> str | None:
    """Write the recipe with the layers where asked; its file."""
    if save is None:
        return None
    values = {**recipe, "quantized_layers": dict(layers)} if layers else recipe
    path = str(save.absolute())
    await session.call(RECIPE_SAVE, SaveParams(values, path, force))
    return path


def _with_saved(found: Proposal | SearchResult, path: str | None) -> dict[str, object]:
    """A result and the recipe that was written, for ``--json``."""
    return {**encode(found), **({} if path is None else {"saved": path})}
