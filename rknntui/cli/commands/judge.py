"""``rknntui simulate``, ``evaluate``, ``accuracy``, ``compare``: how good a build is."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from engine import Guided, answer_lines, run_guide
from engine.wire.accuracy import EVALUATE
from engine.wire.build import ACCURACY, SIMULATE, AccuracyParams, Analysis, LayerAccuracy
from engine.wire.codec import Values
from engine.wire.compare import COMPARE_BOARD, Comparison
from engine.wire.guide import GUIDE, GuideParams
from engine.wire.layer_tables import QUALITY
from engine.wire.layers import LayerFigures
from rknntui.cli.flags import Verb, json_flag, quiet_flag, recipe_flags, target, values_of
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, resolve, sniffed, with_worker
from rknntui.cli.verb import (
    Given,
    Printed,
    ask,
    described,
    limit_flags,
    limits_taken,
    show,
    verb,
)


async def _where(given: Given) -> Values:
    if (await sniffed(given.session, given.target)).kind == "rknn":
        # a container holds no code: the classes of its custom operators are given beside it
        names = ("custom_ops", "op_packages")
        beside = {name: given.options[name] for name in names if given.options.get(name)}
        return {"path": str(given.target.absolute()), "source": beside}
    return {"recipe": await given.recipe()}


@verb(SIMULATE, fill=_where, keys=True)
def simulate() -> None:
    """Run inputs through a build or a container on this machine (simulated)."""


@verb(EVALUATE)
def evaluate() -> None:
    """Score labelled samples with the float model and with the quantized one (simulated)."""


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
def accuracy(
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
    limits = limits_taken(flags)
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
            return await run_guide(partial(ask, session), recipe, **of_guide)
        asked = AccuracyParams(recipe=recipe, **(values | {"output_impact": impact}))
        return await session.run(ACCURACY, asked)

    impact = values.get("output_impact", False) or sort == "output-impact"
    result = with_worker(action, Narrator(quiet=quiet))
    if isinstance(result, Guided):
        emit(result.to_json(), answer_lines(result), as_json=as_json)
        return 0
    shown = _ranked(result.layers, sort)[:count]
    printed = Printed(answer_lines(result, shown=shown), judged=[result])
    return show(replace(result, layers=shown), printed, as_json=as_json, limits=limits)


def _ranked(layers: tuple[LayerAccuracy, ...], sort: str) -> tuple[LayerAccuracy, ...]:
    """Worst first; a layer without the figure comes last."""
    if sort == "graph":
        return layers
    figure, sign = QUALITY.column(sort.replace("-", "_")), -1 if sort == "output-impact" else 1

    def key(layer: LayerAccuracy) -> float:
        value = figure.of(LayerFigures(id=layer.id, error=layer))
        return math.inf if value is None or math.isnan(value) else sign * value

    return tuple(sorted(layers, key=key))


@verb(COMPARE_BOARD)
def compare(found: Comparison) -> Printed:
    """Compare float, simulator and board on the same input; name the first layer that diverges."""
    return Printed(code=1 if found.first else 0)
