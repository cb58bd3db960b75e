"""``rknntui simulate``, ``evaluate``, ``accuracy``, ``compare``: how good a build is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from engine import layers_counted, rounding_lines, sanitize
from engine.wire.accuracy import EVALUATE, Evaluated
from engine.wire.build import ACCURACY, SIMULATE, AccuracyParams, Analysis, LayerAccuracy, Simulated
from engine.wire.build_tables import scores_of
from engine.wire.codec import Values, encode
from engine.wire.compare import COMPARE_BOARD, ComparedLayer, Comparison
from engine.wire.formats import MILLISECONDS, PERCENT, range_of
from engine.wire.guide import GUIDE, GuideParams, Step
from engine.wire.layers import COMPARE, LAYERS, QUALITY, LayerFigures, layer_rows
from rknntui.cli.figures import output_lines
from rknntui.cli.flags import Verb, json_flag, quiet_flag, recipe_flags, target, values_of
from rknntui.cli.gates import Limits, limit_flags, worst_layer
from rknntui.cli.output import emit, table_lines
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, resolve, sniffed, with_worker
from rknntui.cli.verb import Printed, described, show, verb


async def _where(session: WorkerSession, target: Path, options: Values, _: Values) -> Values:
    if (await sniffed(session, target)).kind == "rknn":
        # a container holds no code: the classes of its custom operators are given beside it
        names = ("custom_ops", "op_packages")
        beside = {name: options[name] for name in names if options.get(name)}
        return {"path": str(target.absolute()), "source": beside}
    return {"recipe": await resolve(session, target, options)}


@verb(SIMULATE, fill=_where, keys=True)
def simulate(result: Simulated) -> list[str]:
    """Run inputs through a build or a container on this machine (simulated)."""
    lines = output_lines(result.outputs)
    if result.quantized:
        compiled = ", as compiled" if result.as_compiled else ""
        lines.append(f"{result.arithmetic} arithmetic{compiled} (simulated)")
    lines.append(
        f"{MILLISECONDS.text(1000 * result.seconds)} ms on this machine (measured; no NPU time)"
    )
    lines += [f"wrote {path}" for path in result.saved]
    return lines


@verb(EVALUATE)
def evaluate(result: Evaluated) -> list[str]:
    """Score labelled samples with the float model and with the quantized one (simulated)."""
    scores = scores_of(shares=result.agreement is not None)
    points = " points" if result.agreement is not None else ""
    score, change = scores.column("simulated").format, scores.column("difference").format
    lines = [f"{result.samples} samples, float against simulated"]
    lines += table_lines(scores, result.scores)
    if result.agreement is not None:
        lines.append(f"same answer on {PERCENT.text(result.agreement)} % of the samples")
    for row in result.rounding:
        apart = f"{change.show(row.difference)}{points}"
        if row.difference_interval is not None:
            apart += f" ({range_of(change).text(row.difference_interval)})"
        lines.append(
            f"{sanitize(row.name, 40)} in the reference arithmetic: {score.show(row.reference)}, "
            f"{apart} beside the integer kernels"
        )
    if result.rounding_agreement is not None:
        same = PERCENT.text(result.rounding_agreement)
        lines.append(f"both arithmetics: same answer on {same} %")
    return [*lines, result.note]


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
    return show(result, Printed(_ranking_lines(result, title), gates), as_json=as_json)


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


def _ranking_lines(result: Analysis, title: str) -> list[str]:
    lines = [title, *table_lines(QUALITY, layer_rows(result), whole=True)]
    lines += [] if result.rounding is None else rounding_lines(result.rounding)
    return [*lines, *[f"wrote {path}" for path in result.files]]


_TABLE = replace(COMPARE, columns=(*COMPARE.columns, LAYERS.column("diverges")))


@verb(COMPARE_BOARD)
def compare(found: Comparison) -> Printed:
    """Compare float, simulator and board on the same input; name the first layer that diverges."""
    return Printed(_comparison_lines(found), code=1 if found.first else 0)


def _comparison_lines(comparison: Comparison) -> list[str]:
    where = (
        f"{sanitize(comparison.device)}: {comparison.chip}, runtime {sanitize(comparison.runtime)}"
    )
    where += f", driver {sanitize(comparison.driver)}" if comparison.driver else ""
    lines = [
        f"{where} ({comparison.label})",
        *table_lines(_TABLE, layer_rows(comparison), whole=True),
    ]
    lines += [f"not given by the board: {sanitize(name, 120)}" for name in comparison.missing[:20]]
    if len(comparison.missing) > 20:
        lines.append(f"and {len(comparison.missing) - 20} more")
    lines += [sanitize(note) for note in comparison.notes]
    lines += [f"wrote {path}" for path in comparison.files]
    first = next((layer for layer in comparison.layers if layer.diverges), None)
    if first is not None:
        lines += _inside(first)
    if comparison.rounding is not None:
        lines += [
            sanitize(text, 400) for text in comparison.judged or rounding_lines(comparison.rounding)
        ]
    return [*lines, f"input SHA-256 {comparison.sha256}", sanitize(comparison.verdict, 500)]


def _inside(layer: ComparedLayer) -> list[str]:
    return [f"  or {sanitize(name, 120)}" for name in layer.inside[:20]]


# The accuracy guide on the command line: every step in turn, remedies that help applied.

_SIGNS = {"pass": "ok  ", "warning": "warn", "fail": "FAIL", "told": "    "}


@dataclass(frozen=True)
class Guided:
    """The steps that ran, whether the change of each was applied, and all that were."""

    steps: tuple[tuple[Step, bool], ...]
    changes: Values

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        steps = [{**encode(step), "applied": applied} for step, applied in self.steps]
        return {"steps": steps, "changes": dict(self.changes)}


async def run_guide(
    session: WorkerSession,
    recipe: Values,
    values: Mapping[str, Any],
) -> Guided:
    """Run the steps to the end.

    A change that a step proposes and that brings the outputs near enough to float is applied:
    the steps after it see the better recipe. Nothing is written.
    """
    steps: list[tuple[Step, bool]] = []
    changes: dict[str, object] = {}
    while True:
        done = tuple(step.id for step, _ in steps)
        asked = GuideParams({**recipe, **changes}, done, **values)
        answer = await session.run(GUIDE, asked)
        step = answer.step
        if step is None:
            break
        applied = bool(step.changes) and step.verdict == "pass"
        steps.append((step, applied))
        if applied:
            changes |= step.changes
            continue  # which step is due now, the better recipe decides
        if answer.next is None:
            break
    return Guided(tuple(steps), changes)


def guide_lines(result: Guided) -> list[str]:
    """For people."""
    lines: list[str] = []
    for step, applied in result.steps:
        lines.append(f"{_SIGNS[step.verdict]} {step.id:<5} {step.title}")
        lines.append(f"           {sanitize(step.did, 2000)}")
        lines += [
            f"      {_SIGNS[fact.verdict]} {sanitize(fact.label, 60)}: {sanitize(fact.value, 300)}"
            for fact in step.found
        ]
        if step.advice:
            lines.append(f"        -> {sanitize(step.advice, 1000)}")
        taken = "applied" if applied else "proposed"
        lines += [
            f"           {taken}: {name} = {sanitize(str(value), 500)}"
            for name, value in step.changes.items()
        ]
    lines.append("")
    if result.changes:
        lines.append("Applied to the recipe (all simulated):")
        lines += [f"  {n}: {sanitize(str(v), 2000)}" for n, v in result.changes.items()]
    else:
        lines.append("No recipe change needed (all simulated).")
    return lines
