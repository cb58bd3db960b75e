"""All that is known of a build as one HTML file without links to outside, or one chart of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from platform import python_version
from typing import Any

from engine.base.errors import ContainerError, EngineError, UsageError
from engine.base.plain import Values
from engine.base.text import did_you_mean
from engine.base.version import __version__, version_of
from engine.jobs.history import JobRecord, list_jobs
from engine.options import OPTIONS
from engine.report import sqnr_rank, summary_sections
from engine.reports.builds import (
    Priced,
    Tried,
    build_rows,
    build_times,
    recipe_of,
    result_of,
    results_of,
    tried,
)
from engine.reports.files import html_page, html_rows, html_table, html_text
from engine.reports.pictures import (
    Series,
    channel_bars,
    chip_bars,
    curves,
    front_chart,
    memory_map,
    roofline,
)
from engine.wire.build import ACCURACY, BUILD, AccuracyParams, BuildParams, BuildSummary
from engine.wire.cost import COST_ESTIMATE, ChipEstimate, EstimateParams, Estimates
from engine.wire.cost_tables import CHIPS
from engine.wire.devices import DEVICES_PERF, Performance
from engine.wire.layer_tables import LAYERS
from engine.wire.layers import LayerFigures, by_layer, layer_rows, layers_of
from engine.wire.method import Ask, Method
from engine.wire.model import OPEN, RANGES, ModelView, RangeRow
from engine.wire.requests import ModelTarget
from engine.wire.sweep import SWEEP

_POINTS = 20
"""Other builds that the front has at most."""


@dataclass(frozen=True)
class BuildReport:
    """What is known of one build.

    Attributes:
        layers: what every source knows of each of them.
        estimates: of the recipe's chip; of all chips where it names none.
        absent: what is not in it, and why.
        front: builds and variants of the model in the history, and this one, on the same chip.
    """

    summary: BuildSummary
    recipe: Values
    layers: tuple[LayerFigures, ...]
    estimates: Estimates | None
    ranges: tuple[RangeRow, ...]
    absent: tuple[str, ...] = ()
    front: tuple[Priced, ...] = ()

    @property
    def chip(self) -> ChipEstimate | None:
        """The estimate of the recipe's chip, with its layers."""
        chips = self.estimates.chips if self.estimates is not None else ()
        return chips[0] if len(chips) == 1 and chips[0].layers else None


async def gather_report(ask: Ask, recipe: Values) -> BuildReport:
    """Ask for all of a build.

    Raises:
        EngineError: it cannot be built; without a further figure the report says why.
    """
    values, absent = dict(recipe), []
    summary: BuildSummary | None = await ask(BUILD, BuildParams(recipe=values))
    if summary is None:
        raise UsageError("The summary of this build is not known.", remedy="Build it again.")
    tables = [layers_of("kernel", summary.layers)]

    async def also(what: str, method: Method[Any, Any], params: Any) -> Any:
        try:
            answer = await ask(method, params)
        except EngineError as error:
            absent.append(f"{what}: {error.what}")
            return None
        if answer is None:
            absent.append(f"{what}: not known yet")
        return answer

    ranges: tuple[RangeRow, ...] = ()
    if summary.quantized:
        asked = AccuracyParams(recipe=values, rounding=False)
        if (analysis := await also("error of each layer", ACCURACY, asked)) is not None:
            tables.insert(0, layer_rows(analysis))
        found = await also("ranges", RANGES, ModelTarget(recipe=values))
        ranges = found.tensors if found is not None else ()
    chip = values.get("target_platform")
    chips = (str(chip),) if chip else ()
    params = EstimateParams(recipe=values, chips=chips, layers=bool(chip), spans=bool(chip))
    estimates: Estimates | None = await also("estimate", COST_ESTIMATE, params)
    if estimates is not None and chip and estimates.chips:
        tables.append(layer_rows(estimates.chips[0]))
    records = await asyncio.to_thread(list_jobs, 200)
    measured = await asyncio.to_thread(_measured, records, values)
    if measured is not None:
        tables.append(layer_rows(measured))
    else:
        absent.append("times on a board: no run of this build with layers is in the history")
    points: list[Priced] = []
    if chip:
        known = await asyncio.to_thread(_tried, records, values)
        points = await _front(ask, known, values, summary)
    layers = by_layer(*tables)
    return BuildReport(summary, recipe, layers, estimates, ranges, tuple(absent), tuple(points))


async def container_report(ask: Ask, path: str) -> BuildReport:
    """What a container says of its build.

    Raises:
        EngineError: it cannot be read, or does not hold what was known of its build.
    """
    view: ModelView = await ask(OPEN, ModelTarget(path))
    if view.summary is None:
        raise ContainerError(
            f"{view.name} does not say how its build went.",
            cause="An older version wrote it, or that part of it is damaged.",
            remedy="Give the recipe or the model that it was built from.",
        )
    layers = by_layer(layers_of("kernel", view.summary.layers))
    return BuildReport(view.summary, view.recipe or {}, layers, None, (), _NOT_IN_A_CONTAINER)


_NOT_IN_A_CONTAINER = tuple(
    f"{what}: a container does not hold it; give the recipe or the model that it was built from"
    for what in ("error of each layer", "ranges", "estimate", "times on a board", "other builds")
)


def _measured(records: Sequence[JobRecord], recipe: Values) -> Performance | None:
    """The newest run of this build on a board that timed its layers."""
    return next((run for run in results_of(records, DEVICES_PERF, recipe) if run.layers), None)


def _tried(records: Sequence[JobRecord], recipe: Values) -> list[Tried]:
    """The newest other builds of the model, and its newest variants."""
    model = recipe.get("model")
    sweeps = (one for one in records if one.method == SWEEP.name and one.state == "done")
    swept = next((one for one in sweeps if recipe_of(one).get("model") == model), None)
    varied, sweep = (recipe_of(swept), result_of(swept, SWEEP)) if swept else ({}, None)
    points = tried(build_rows(records, model), varied, sweep)
    return [one for one in points if one.recipe != recipe][:_POINTS]


async def _front(
    ask: Ask, known: list[Tried], recipe: Values, summary: BuildSummary
) -> list[Priced]:
    """Estimate these, and this build, on the recipe's chip."""
    if summary.outputs:
        lowest = min(sqnr_rank(one.sqnr_db) for one in summary.outputs)
        known = [*known, Tried("this", recipe, lowest, "this build")]
    by_id = {one.id: one for one in known}
    recipes = [(one.id, one.recipe) for one in known]
    times = build_times(ask, recipes, str(recipe["target_platform"]))
    return [(time, by_id[name]) async for name, time in times if time is not None]


# -- charts ----------------------------------------------------------------------------------------


def _error(report: BuildReport) -> str:
    rows = [row.error for row in report.layers if row.error is not None]
    series = (
        Series("cumulative", [row.sqnr for row in rows], "#b5423c"),
        Series("isolated: each layer alone", [row.isolated_sqnr for row in rows], "#3b6fb6"),
    )
    return curves(f"{report.summary.name}: SQNR along the network (simulated)", "dB", series)


def _time(report: BuildReport) -> str:
    rows = [row for row in report.layers if row.estimated is not None or row.measured is not None]
    estimated = [None if row.estimated is None else row.estimated.time_ms for row in rows]
    label = next((row.label for row in rows if row.label), "measured")
    series = (
        Series("estimated", estimated, "#3b6fb6"),
        Series(label, [row.measured_ms for row in rows], "#c9822b"),
    )
    return curves(f"{report.summary.name}: time along the network", "ms", series)


def _of_chip(draw: Callable[[ChipEstimate, str], str]) -> Callable[[BuildReport], str]:
    def drawn(report: BuildReport) -> str:
        if report.chip is None:
            return curves(f"{report.summary.name}: the recipe names no chip", "", ())
        return draw(report.chip, report.summary.name)

    return drawn


CHARTS: dict[str, Callable[[BuildReport], str]] = {
    "error": _error,
    "time": _time,
    "roofline": _of_chip(roofline),
    "memory": _of_chip(memory_map),
    "front": lambda report: front_chart(
        report.front, str(report.recipe.get("target_platform") or "no chip"), "this"
    ),
    "channels": lambda report: channel_bars(report.ranges, report.summary.name),
    "chips": lambda report: chip_bars(report.estimates or Estimates(report.summary.name, (), 0.0)),
}
"""Name of a chart -> its SVG."""


def chart_svg(report: BuildReport, chart: str) -> str:
    """One chart of a build; what is not known of it, the chart says.

    Args:
        report: of the build.
        chart: ``error``: SQNR along the network; ``time``: of each layer, estimated and measured;
            ``roofline``; ``memory``: over time; ``front``: error against time of the builds of the
            history; ``channels``: their ranges; ``chips``: frames a second.

    Raises:
        UsageError: there is no such chart.
    """
    if chart not in CHARTS:
        remedy = did_you_mean(chart, CHARTS) or f"It is one of {', '.join(CHARTS)}."
        raise UsageError(f"There is no chart {chart!r} of a build.", remedy=remedy)
    return CHARTS[chart](report)


# -- the page --------------------------------------------------------------------------------------

_SCRIPT = """
for (const table of document.querySelectorAll("table.sort")) {
  table.rows[0].addEventListener("click", event => {
    const at = event.target.cellIndex, rows = [...table.rows].slice(1);
    const read = row => row.cells[at].textContent.replace(/[,!✓✗~]/g, "");
    const falls = table.dataset.by === String(at);
    table.dataset.by = falls ? "" : at;
    rows.sort((a, b) => {
      const x = read(a), y = read(b), n = parseFloat(x) - parseFloat(y);
      return (isNaN(n) ? x.localeCompare(y) : n) * (falls ? -1 : 1);
    });
    rows.forEach(row => row.parentNode.append(row));
  });
}
"""
_LIBRARIES = ("onnx", "onnxruntime", "numpy", "pillow")


def report_html(report: BuildReport) -> str:
    """One HTML file; what is from model, recipe or findings is escaped."""
    sections = [one for one in summary_sections(report.summary) if one.title != "Next step"]
    parts = [
        "<p>Figures say whether they are simulated, estimated or measured.</p>",
        *(f"<h2>{html_text(one.title)}</h2>{html_rows(one.columns, one.rows)}" for one in sections),
        *(draw(report) for draw in CHARTS.values()),
        "<h2>Layers</h2><p>A click on a heading sorts, another one turns the order.</p>",
    ]
    table = html_table(LAYERS, report.layers).replace("<table>", '<table class="sort">', 1)
    parts.append(f'<div class="wide">{table}</div>')
    if report.estimates is not None:
        parts.append(f"<h2>Chips (estimated)</h2>{html_table(CHIPS, report.estimates.chips)}")
    set_ = [o for o in OPTIONS if report.recipe.get(o.name, o.default) != o.default]
    options = [(o.name, o.render(report.recipe[o.name])) for o in set_]
    parts.append(f"<h2>Options that are set</h2>{html_rows(('option', 'value'), options)}")
    parts.append(f"<h2>Versions</h2>{html_rows(('what', 'version'), _versions())}")
    if report.absent:
        rows = [tuple(text.split(": ", 1)) for text in report.absent]
        parts.append(f"<h2>Not in this report</h2>{html_rows(('what', 'why'), rows)}")
    title = f"{report.summary.name}: build {report.summary.key[:12]}"
    return html_page(title, parts, _SCRIPT)


def _versions() -> list[tuple[str, str]]:
    found = [("rknntui", __version__), ("Python", python_version())]
    return found + [(name, told) for name in _LIBRARIES if (told := version_of(name))]
