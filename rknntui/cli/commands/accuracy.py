"""``rknntui accuracy``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine import layers_counted, rounding_lines, sanitize, sqnr_rank, sqnr_text
from engine.wire.build import ACCURACY, AccuracyParams, Analysis, Distance, LayerAccuracy
from engine.wire.guide import GUIDE, GuideParams
from rknntui.cli.figures import rounding_text
from rknntui.cli.flags import (
    EPILOG,
    Verb,
    json_flag,
    quiet_flag,
    recipe_flags,
    target,
    values_of,
)
from rknntui.cli.gates import Limits, limit_flags, worst_layer
from rknntui.cli.guide_output import Guided, guide_lines, run_guide
from rknntui.cli.output import emit, table
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, resolve, with_worker
from rknntui.cli.verb import Printed, show

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


@click.command("accuracy", cls=Verb, epilog=EPILOG)
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

    given, values = values_of(flags), values_for(AccuracyParams, flags)
    of_guide = values_for(GuideParams, flags)
    if not guide and of_guide:
        first = "--" + next(iter(of_guide))
        raise click.UsageError(
            f"{first} belongs to --guide; `rknntui compare` compares with a board."
        )

    async def action(session: WorkerSession) -> Guided | Analysis:
        recipe = await resolve(session, target, given)
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


def _figures(result: Analysis) -> list[tuple[str, float | None]]:
    """SQNR of every layer; NaN where it computed none."""
    return [
        (layer.id, float("nan") if _is_nan(layer.cumulative) else layer.sqnr)
        for layer in result.layers
        if not layer.inner
    ]


def _ranked(layers: tuple[LayerAccuracy, ...], sort: str) -> tuple[LayerAccuracy, ...]:
    """Worst first; a layer without the figure comes last."""
    last = float("inf")

    def key(layer: LayerAccuracy) -> float:
        if sort in ("sqnr", "isolated-sqnr"):
            return sqnr_rank(layer.sqnr if sort == "sqnr" else layer.isolated_sqnr)
        if sort == "output-impact":
            return last if layer.output_impact is None else -layer.output_impact
        distance = layer.cumulative if sort == "cosine" else layer.isolated
        return last if distance is None or distance.cosine is None else distance.cosine

    return layers if sort == "graph" else tuple(sorted(layers, key=key))


def _lines(result: Analysis, title: str) -> list[str]:
    found = result.rounding
    rounded = {} if found is None else {layer.id: layer for layer in found.layers}
    rows = [
        (
            sanitize(layer.id, 50),
            layer.op,
            layer.dtype,
            _decibels(layer.sqnr, layer.cumulative),
            _decibels(layer.isolated_sqnr, layer.isolated),
            _percent(layer.added_share),
            _percent(None if (lost := layer.saturation) is None else lost.low + lost.high),
            *_pair(layer.cumulative),
            *_pair(layer.isolated),
            _percent(layer.output_impact),
            rounding_text(rounded.get(layer.id)),
            sanitize(", ".join(n for n in layer.sources if n != layer.id), 60),
        )
        for layer in result.layers
        if not layer.inner
    ]
    columns = (
        "layer",
        "op",
        "type",
        "SQNR dB",
        "isol. dB",
        "added %",
        "clip %",
        "cumul. cos",
        "cumul. euc",
        "isol. cos",
        "isol. euc",
        "impact %",
        "round. dB",
        "source layer",
    )
    empty = [i for i in range(len(columns)) if not any(row[i] for row in rows)]
    kept = [i for i in range(len(columns)) if i not in empty]
    shown = [tuple(row[i] for i in kept) for row in rows]
    lines = [title, *table([columns[i] for i in kept], shown)]
    lines += [] if found is None else rounding_lines(found)
    return [*lines, *[f"wrote {path}" for path in result.files]]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.3g}"


def _decibels(sqnr: float | None, distance: Distance | None) -> str:
    return "nan" if _is_nan(distance) else sqnr_text(sqnr, unit=False)


def _is_nan(distance: Distance | None) -> bool:
    return distance is not None and distance.cosine is None


def _pair(distance: Distance | None) -> tuple[str, str]:
    if distance is None:
        return ("", "")
    cosine, euclidean = distance.cosine, distance.euclidean  # None: NaN, which JSON has not
    return (
        "nan" if cosine is None else f"{cosine:.5f}",
        "nan" if euclidean is None else f"{euclidean:.4f}",
    )
