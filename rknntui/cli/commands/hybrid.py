"""``rknntui hybrid``: layers of another dtype, by files, by proposal or by search."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine import answer_lines, sanitize, summary_text, table_lines
from engine.wire.build import BUILD, BuildParams
from engine.wire.build_tables import EDITS, SEARCH_POINTS
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
    Proposal,
    SearchResult,
    Step2Params,
)
from engine.wire.requests import RECIPE_SAVE, SaveParams
from rknntui.cli.flags import VerbGroup, force_flag
from rknntui.cli.verb import Given, Printed, verb

save_flag = click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a recipe with the layers found.",
)


@click.group("hybrid", cls=VerbGroup)
def command() -> None:
    """Give layers another dtype: files of the vendor's two steps, proposal, search, effect."""


@verb(STEP1, of=command)
def step1() -> None:
    """Write structure, data and NAME.quantization.cfg, to edit and give to step2."""


@verb(EFFECT, of=command)
def effect() -> None:
    """Show the effect of other dtypes and ranges on the outputs, without building."""


@verb(JOINS, of=command)
def joins() -> None:
    """Find operators whose inputs have mismatched ranges (boxes and scores in one Concat)."""


@verb(STEP2, of=command)
def step2(found: Built, asked: Step2Params) -> Printed:
    """Build from the files of step1 and tell, line by line, what became of every edit."""
    files = [asked.model, asked.data, asked.config]
    then = (
        ["hybrid", "step2", *files, "-o", "model.rknn"]
        if asked.path is None
        else ["inspect", asked.path]
    )
    summary = replace(found.summary, next_command=shlex.join(["rknntui", *then]))
    lines = [*table_lines(EDITS, found.honoured), "", *summary_text(summary).split("\n")]
    return Printed(lines, more={"summary": encode(summary)})


async def _save(given: Given, asked: Any, found: Proposal | SearchResult) -> Values:
    """Write the recipe with the layers where asked; its file."""
    if given.flags["save"] is None:
        return {"saved": {}}
    layers = found.asked if isinstance(found, Proposal) else found.best.layers
    values = {**asked.recipe, "quantized_layers": dict(layers)} if layers else asked.recipe
    path = str(given.flags["save"].absolute())
    await given.session.call(RECIPE_SAVE, SaveParams(values, path, given.flags["force"]))
    return {"saved": {"saved": path}}


def _with_saved(found: Proposal | SearchResult, saved: Mapping[str, str]) -> Printed:
    wrote = [f"wrote {sanitize(path, 300)}" for path in saved.values()]
    return Printed([*answer_lines(found), *wrote], more=saved)


@verb(PROPOSE, of=command, then=_save)
@save_flag
@force_flag
def propose(found: Proposal, saved: Mapping[str, str]) -> Printed:
    """Rank the layers by the gain of promoting them, estimated from their effect on the outputs."""
    return _with_saved(found, saved)


@verb(SEARCH, of=command, then=_save, tell=(CURVE, SEARCH_POINTS))
@save_flag
@force_flag
def search(found: SearchResult, saved: Mapping[str, str]) -> Printed:
    """Find the layers to promote for a floor or a budget; the curve grows on standard error."""
    return _with_saved(found, saved)


async def _built(given: Given) -> Values:
    recipe = await given.recipe()
    await given.session.run(BUILD, BuildParams(recipe=recipe))
    return {"recipe": recipe}


@verb(TABLE, of=command, fill=_built, silent=True)
def layers_table() -> None:
    """List the layers of a build with dtype, range, SQNR and cost on --target-platform."""
