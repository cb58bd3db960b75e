"""``rknntui accuracy``."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine import layers_counted, rounding_lines
from engine.wire.build import ACCURACY, AccuracyParams, Analysis, LayerAccuracy
from engine.wire.guide import GUIDE, GuideParams
from engine.wire.layers import QUALITY, LayerFigures, layer_rows
from rknntui.cli.flags import (
    Verb,
    json_flag,
    quiet_flag,
    recipe_flags,
    target,
    values_of,
)
from rknntui.cli.gates import Limits, limit_flags, worst_layer
from rknntui.cli.guide_output import Guided, guide_lines, run_guide
from rknntui.cli.output import emit, table_lines
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, resolve, with_worker
from rknntui.cli.verb import Printed, described, show

_SORTS = ("sqnr", "isolated-sqnr", "output-impact", "cosine", "isolated-cosine", "graph")
_OLDER_SORTS = {
    "own": "isolated-sqnr",
    "damage": "output-impact",
    "entire": "cosine",
    "single": "isolated-cosine",
}


class _Sort(click.Choice[str]):
    """The orders; the names of older versions are read as theirs."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        return super().convert(_OLDER_SORTS.get(value, value), param, ctx)


@click.command("accuracy", cls=Verb, **described(ACCURACY))
@target
@request_flags(ACCURACY)
@click.option(
    "--sort",
    type=_Sort(_SORTS),
    default="sqnr",
    show_default=True,
    help="Sort order of the list.",
)
@click.option("--count", type=click.IntRange(1), help="Show only this many layers.")
@click.option(
    "--guide",
    is_flag=True,
    help="Run the debugging procedure of the manuals and list the recommended changes.",
)
@request_flags(GUIDE, optional=True)
@recipe_flags
@limit_flags("under")
@json_flag
@quiet_flag
def command(
    target: Path,
    sort: str,
    count: int | None,
    guide: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Rank the layers of a build by their quantization error (simulated against float).

    Cumulative: errors add up from the input on. Isolated: the layer alone, fed with float results.
    --fail-under looks at the SQNR of every layer, errors before it included.
    """
    limits = Limits.taken(flags)
    if guide and limits:
        raise click.UsageError("--fail-under is of the ranking, not of --guide.")

    options, values = values_of(flags), values_for(AccuracyParams, flags)
    of_guide = values_for(GuideParams, flags)
    if not guide and of_guide:
        first = "--" + next(iter(of_guide))
        raise click.UsageError(
            f"{first} belongs to --guide; `rknntui compare` compares with a board."
        )

    async def action(session: WorkerSession) -> Guided | Analysis:
        recipe = await resolve(session, target, options)
        if guide:
            return await run_guide(session, recipe, of_guide)
        asked = AccuracyParams(recipe=recipe, **(values | {"output_impact": impact}))
        return await session.run(ACCURACY, asked)

    impact = values.get("output_impact", False) or sort == "output-impact"
    result = with_worker(action, Narrator(quiet=quiet))
    if isinstance(result, Guided):
        emit(result.to_json(), guide_lines(result), as_json=as_json)
        return 0
    title = f"{layers_counted(result)}, simulated against float over {result.over}"
    gates = limits.gates(worst_layer(_figures(result)))
    result = replace(result, layers=_ranked(result.layers, sort)[:count])
    return show(result, Printed(_lines(result, title), gates), as_json=as_json)


def _row(layer: LayerAccuracy) -> LayerFigures:
    return LayerFigures(id=layer.id, error=layer)


def _figures(result: Analysis) -> list[tuple[str, float | None]]:
    """SQNR of every layer; infinite without noise, NaN where it computed none."""
    sqnr = QUALITY.column("sqnr")
    return [(row.id, sqnr.of(row)) for row in layer_rows(result)]


def _ranked(layers: tuple[LayerAccuracy, ...], sort: str) -> tuple[LayerAccuracy, ...]:
    """Worst first; a layer without the figure comes last."""
    if sort == "graph":
        return layers
    figure, sign = QUALITY.column(sort.replace("-", "_")), -1 if sort == "output-impact" else 1

    def key(layer: LayerAccuracy) -> float:
        value = figure.of(_row(layer))
        return math.inf if value is None or math.isnan(value) else sign * value

    return tuple(sorted(layers, key=key))


def _lines(result: Analysis, title: str) -> list[str]:
    lines = [title, *table_lines(QUALITY, layer_rows(result), whole=True)]
    lines += [] if result.rounding is None else rounding_lines(result.rounding)
    return [*lines, *[f"wrote {path}" for path in result.files]]
