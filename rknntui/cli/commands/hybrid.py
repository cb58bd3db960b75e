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
    Effect,
    EffectParams,
    Joins,
    LayerDtypes,
    Proposal,
    ProposeParams,
    SearchParams,
    SearchResult,
    Step1,
    Step1Params,
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
    output_flag,
    quiet_flag,
    recipe_flags,
    rounding_flag,
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
from rknntui.cli.session import WorkerSession, resolve, with_worker

save_flag = click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a recipe with the layers found.",
)
budget_ms_flag = click.option(
    "--budget-ms",
    type=click.FloatRange(0, min_open=True),
    help="Milliseconds of an inference on --target-platform at most (estimated); then what gains "
    "most for its time goes first.",
)
force_flag = click.option("--force", is_flag=True, help="Overwrite files that exist.")


class Named(click.ParamType):
    """``NAME=VALUE``, split at the last ``=``; the value may be left out where it has a default."""

    name = "NAME=VALUE"

    def __init__(self, default: str | None = None) -> None:
        self._default = default

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """(name, value)."""
        name, mark, text = str(value).rpartition("=")
        if not mark and self._default is not None:
            name, text = text, self._default
        if not name or not text:
            self.fail(f"{value!r} is not NAME=VALUE.", param, ctx)
        return name, text


class Span(Named):
    """``NAME=LOW,HIGH``."""

    name = "NAME=LOW,HIGH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """(name, (low, high))."""
        name, text = super().convert(value, param, ctx)
        try:
            low, high = (float(part) for part in text.split(","))
        except ValueError:
            self.fail(f"{value!r} is not NAME=LOW,HIGH with two numbers.", param, ctx)
        return name, (low, high)


@click.group("hybrid", cls=VerbGroup)
def command() -> None:
    """Give layers another dtype: files of the vendor's two steps, proposal, search, effect."""


@command.command(
    "step1", epilog=EPILOG, short_help="Write the three files of hybrid quantization step 1."
)
@target
@click.option(
    "-o",
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder for the three files. Default: the current one.",
)
@click.option("--proposal", is_flag=True, help="Promote the layers that matter most.")
@click.option(
    "--proposal-dataset-size",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Samples used by --proposal.",
)
@click.option(
    "--custom-hybrid",
    "pairs",
    multiple=True,
    type=(str, str),
    metavar="INPUT OUTPUT",
    help="Promote all layers between two tensors; may be repeated.",
)
@recipe_flags
@force_flag
@json_flag
@quiet_flag
def step1(
    target: Path,
    output_dir: Path,
    proposal: bool,
    proposal_dataset_size: int,
    pairs: tuple[tuple[str, str], ...],
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Write structure, data and NAME.quantization.cfg, to edit and give to step2."""

    async def action(session: WorkerSession) -> Step1:
        asked = Step1Params(
            recipe=await resolve(session, target, values_of(flags)),
            folder=str(output_dir.absolute()),
            proposal=proposal,
            proposal_dataset_size=proposal_dataset_size,
            custom_hybrid=pairs or None,
            force=force,
        )
        return await session.run(STEP1, asked)

    result = with_worker(action, Narrator(quiet=quiet))
    files = result.files
    lines = [files.model, files.data, files.config, *ranking_lines(result.ranking)]
    emit(result, lines, as_json=as_json)


@command.command("step2", short_help="Build from the edited files of step 1.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--dataset", type=click.Path(path_type=Path), help="Instead of step 1's.")
@output_flag("The .rknn to write.")
@force_flag
@json_flag
@quiet_flag
def step2(
    model: Path,
    data: Path,
    config: Path,
    dataset: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Build from the files of step1 and tell, line by line, what became of every edit."""

    asked = Step2Params(
        model=str(model.absolute()),
        data=str(data.absolute()),
        config=str(config.absolute()),
        dataset=None if dataset is None else str(dataset.absolute()),
        path=None if output is None else str(output.absolute()),
        force=force,
    )

    async def action(session: WorkerSession) -> Built:
        return await session.run(STEP2, asked)

    result = with_worker(action, Narrator(quiet=quiet))
    files = [str(path) for path in (model, data, config)]
    then = (
        shlex.join(["rknntui", "hybrid", "step2", *files, "-o", "model.rknn"])
        if output is None
        else shlex.join(["rknntui", "inspect", str(output)])
    )
    result = replace(result, summary=replace(result.summary, next_command=then))
    told = summary_text(result.summary).split("\n")
    emit(result, [*check_lines(result.honoured), "", *told], as_json=as_json)


@command.command(
    "propose", epilog=EPILOG, short_help="Rank the layers by the gain of promoting them."
)
@target
@click.option(
    "--budget", type=click.IntRange(1), help="Number of layers. Default: all with a gain."
)
@budget_ms_flag
@click.option("--dtype", help="Dtype of the promoted layers. Default: half precision.")
@save_flag
@recipe_flags
@force_flag
@json_flag
@quiet_flag
def propose(
    target: Path,
    budget: int | None,
    budget_ms: float | None,
    dtype: str | None,
    save: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Rank the layers by the gain of promoting them, estimated from their effect on the outputs."""

    async def action(session: WorkerSession) -> tuple[Proposal, str | None]:
        recipe = await resolve(session, target, values_of(flags))
        asked = ProposeParams(recipe=recipe, budget=budget, dtype=dtype, budget_ms=budget_ms)
        found = await session.run(PROPOSE, asked)
        return found, await _saved(session, save, recipe, found.asked, force)

    found, saved = with_worker(action, Narrator(quiet=quiet))
    lines = [*ranking_lines(found.ranking), *time_lines(found), *wrote_line(saved)]
    emit(_with_saved(found, saved), lines, as_json=as_json)


@command.command(
    "search", epilog=EPILOG, short_help="Find the layers to promote for a floor or a budget."
)
@target
@click.option("--floor", type=float, help="SQNR in dB that every output must reach.")
@click.option("--budget", type=click.IntRange(1), help="At most this many promoted layers.")
@budget_ms_flag
@click.option("--dtype", help="Dtype of the promoted layers. Default: half precision.")
@click.option(
    "--demote",
    "--lower",
    "lower",
    is_flag=True,
    help="Start with all promoted; demote what is not needed.",
)
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Time limit in seconds.")
@save_flag
@recipe_flags
@force_flag
@json_flag
@quiet_flag
def search(
    target: Path,
    floor: float | None,
    budget: int | None,
    budget_ms: float | None,
    dtype: str | None,
    lower: bool,
    seconds: float | None,
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

    async def action(session: WorkerSession) -> tuple[SearchResult, str | None]:
        recipe = await resolve(session, target, values_of(flags))
        asked = SearchParams(
            recipe=recipe,
            floor_db=floor,
            budget=budget,
            dtype=dtype,
            lower=lower,
            seconds=seconds,
            budget_ms=budget_ms,
        )
        found = await session.run(SEARCH, asked)
        return found, await _saved(session, save, recipe, found.best.layers, force)

    found, saved = with_worker(action, tell)
    lines, best = curve_lines(found), found.best
    lines.append(f"best: step {best.step}, {len(best.lifted)} layers; ended: {found.ended}")
    lines += [f"  {sanitize(name, 200)}: {kind}" for name, kind in best.layers.items()]
    emit(_with_saved(found, saved), [*lines, *wrote_line(saved)], as_json=as_json)


@command.command("effect", epilog=EPILOG, short_help="Show the effect of other dtypes and ranges.")
@target
@click.option(
    "--promote",
    "--lift",
    "layers",
    multiple=True,
    type=Named("float16"),
    metavar="LAYER[=DTYPE]",
    help="A layer, by any of its names; float16 by default.",
)
@click.option(
    "--range", "ranges", multiple=True, type=Span(), metavar="LAYER=LOW,HIGH", help="Its range."
)
@rounding_flag
@recipe_flags
@json_flag
@quiet_flag
def effect(
    target: Path,
    layers: tuple[tuple[str, str], ...],
    ranges: tuple[tuple[str, tuple[float, float]], ...],
    rounding: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Show the effect of other dtypes and ranges on the outputs, without building."""

    async def action(session: WorkerSession) -> Effect:
        recipe = await resolve(session, target, values_of(flags))
        asked = EffectParams(
            recipe=recipe, layers=dict(layers), ranges=dict(ranges), rounding=rounding
        )
        return await session.run(EFFECT, asked)

    result = with_worker(action, Narrator(quiet=quiet))
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
