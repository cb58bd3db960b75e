"""``rknntui hybrid``: layers of another dtype, by files, by proposal or by search."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine import Event, sanitize, summary_text
from engine.wire.build import BUILD, BuildParams
from engine.wire.build_tables import EDITS, EFFECT_OUTPUTS, SEARCH_POINTS
from engine.wire.codec import Values, encode
from engine.wire.formats import MILLISECONDS
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
    Joins,
    Proposal,
    SearchResult,
    Step1,
    Step2Params,
    Table,
)
from engine.wire.layers import DTYPES, PROPOSED, layer_rows, layers_of
from engine.wire.requests import RECIPE_SAVE, SaveParams
from rknntui.cli.flags import VerbGroup, force_flag
from rknntui.cli.output import row_text, table_lines
from rknntui.cli.session import WorkerSession, resolve
from rknntui.cli.verb import Printed, verb

save_flag = click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a recipe with the layers found.",
)


@click.group("hybrid", cls=VerbGroup)
def command() -> None:
    """Give layers another dtype: files of the vendor's two steps, proposal, search, effect."""


@verb(STEP1, of=command)
def step1(result: Step1) -> list[str]:
    """Write structure, data and NAME.quantization.cfg, to edit and give to step2."""
    files = result.files
    lines = table_lines(PROPOSED, layers_of("proposed", result.ranking), whole=True)
    return [files.model, files.data, files.config, *([PROPOSED.title] if lines else []), *lines]


@verb(STEP2, of=command)
def step2(result: Built, asked: Step2Params) -> Printed:
    """Build from the files of step1 and tell, line by line, what became of every edit."""
    files = [asked.model, asked.data, asked.config]
    then = (
        ["hybrid", "step2", *files, "-o", "model.rknn"]
        if asked.path is None
        else ["inspect", asked.path]
    )
    summary = replace(result.summary, next_command=shlex.join(["rknntui", *then]))
    lines = [*table_lines(EDITS, result.honoured), "", *summary_text(summary).split("\n")]
    return Printed(lines, more={"summary": encode(summary)})


async def _save(session: WorkerSession, asked: Any, result: Any, flags: Values) -> Values:
    """Write the recipe with the layers where asked; its file."""
    if flags["save"] is None:
        return {"saved": {}}
    layers = result.asked if isinstance(result, Proposal) else result.best.layers
    values = {**asked.recipe, "quantized_layers": dict(layers)} if layers else asked.recipe
    path = str(flags["save"].absolute())
    await session.call(RECIPE_SAVE, SaveParams(values, path, flags["force"]))
    return {"saved": {"saved": path}}


def _wrote(saved: Mapping[str, str]) -> list[str]:
    return [f"wrote {sanitize(path, 300)}" for path in saved.values()]


@verb(PROPOSE, of=command, then=_save)
@save_flag
@force_flag
def propose(found: Proposal, saved: Mapping[str, str]) -> Printed:
    """Rank the layers by the gain of promoting them, estimated from their effect on the outputs."""
    table = table_lines(PROPOSED, layer_rows(found), whole=True)
    lines = [*([PROPOSED.title] if table else []), *table, *_times(found), *_wrote(saved)]
    return Printed(lines, more=saved)


def _times(found: Proposal) -> list[str]:
    """What a proposal does to the time of an inference, where there is a chip."""
    times = (found.time_before_ms, found.time_after_ms)
    if None in times:
        return []
    before, after = map(MILLISECONDS.show, times)
    return [f"time on {found.chip}: {before} ms -> {after} ms (estimated)"]


def _point(event: Event) -> str | None:
    point = CURVE.of(event)
    return None if point is None else row_text(SEARCH_POINTS, point)


@verb(SEARCH, of=command, then=_save, tell=_point)
@save_flag
@force_flag
def search(found: SearchResult, saved: Mapping[str, str]) -> Printed:
    """Find the layers to promote for a floor or a budget; the curve grows on standard error."""
    lines, best = table_lines(SEARCH_POINTS, found.curve), found.best
    lines.append(f"best: step {best.step}, {len(best.promoted)} layers; ended: {found.ended}")
    lines += [f"  {sanitize(name, 200)}: {kind}" for name, kind in best.layers.items()]
    return Printed([*lines, *_wrote(saved)], more=saved)


@verb(EFFECT, of=command)
def effect(result: Effect) -> list[str]:
    """Show the effect of other dtypes and ranges on the outputs, without building."""
    lines = [EFFECT_OUTPUTS.title, *table_lines(EFFECT_OUTPUTS, result.outputs)]
    return [*lines, f"SQNR over {result.over}", *table_lines(EDITS, result.honoured)]


async def _built(session: WorkerSession, where: Path, options: Values, _: Values) -> Values:
    recipe = await resolve(session, where, options)
    await session.run(BUILD, BuildParams(recipe=recipe))
    return {"recipe": recipe}


@verb(TABLE, of=command, fill=_built, silent=True)
def layers_table(result: Table) -> list[str]:
    """List the layers of a build with dtype, range, SQNR and cost on --target-platform."""
    lines = [DTYPES.title, *table_lines(DTYPES, layer_rows(result), whole=True)]
    lines.append(f"SQNR over {result.over}")
    if result.chip and result.time_ms is not None:
        lines.append(f"time on {result.chip}: {MILLISECONDS.text(result.time_ms)} ms (estimated)")
    return lines


@verb(JOINS, of=command)
def joins(result: Joins) -> list[str]:
    """Find operators whose inputs have mismatched ranges (boxes and scores in one Concat)."""
    lines = [
        f"{f.severity}: {sanitize(f.where, 80)}: {sanitize(f.what)} "
        f"{sanitize(f.cause)} Fix: {sanitize(f.remedy)}"
        for f in result.findings
    ]
    return lines or ["No mismatched ranges."]
