"""A cost report as CSV, as one HTML file or as SVG, by the end of its file's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Literal

from engine.reports.files import html_page, html_table, html_text, table_file
from engine.reports.pictures import chip_bars, layer_bars, memory_map, picture, roofline
from engine.wire.cost import ChipEstimate, Estimates
from engine.wire.cost_tables import CHIPS, TENSORS, problem_lines
from engine.wire.layer_tables import COST
from engine.wire.layers import layer_rows


def csv_text(estimates: Estimates, kind: str) -> str:
    """CSV with a head; the last column says that every row is estimated."""
    if kind == "chips":
        return table_file(CHIPS, estimates.chips)
    if kind == "tensors":
        spans = [
            TENSORS.record(span, chip=one.chip)
            for one in estimates.chips
            if one.memory is not None
            for span in one.memory.spans
        ]
        return table_file(TENSORS, spans)
    rows = [COST.record(row, chip=one.chip) for one in estimates.chips for row in layer_rows(one)]
    return table_file(COST, rows)


_NOTE = (
    "Every figure is estimated: from formulas that give what the vendor's compiler prints, and "
    "from a model fitted to published frame rates. Nothing was measured on your board unless it "
    "says so."
)


def page(estimates: Estimates) -> str:
    """One HTML file without script or links to outside; what is from the model is escaped."""
    parts = [f"<p>{html_text(_NOTE)}</p>", chip_bars(estimates)]
    parts.append(html_table(CHIPS, estimates.chips))
    parts += [f"<p>{html_text(line)}</p>" for line in problem_lines(estimates.chips)]
    for one in estimates.chips:
        parts += _chip(one, estimates.model)
    many = len(estimates.chips)
    return html_page(f"{estimates.model}: cost on {many} chips (estimated)", parts)


def _chip(one: ChipEstimate, model: str) -> list[str]:
    if not one.layers:
        return []
    parts = [f"<h2>{html_text(one.chip)} ({html_text(one.dtype)}, estimated)</h2>"]
    parts += [layer_bars(one, model), roofline(one, model)]
    if one.memory is not None and one.memory.spans:
        parts.append(memory_map(one, model))
    return [*parts, html_table(COST, layer_rows(one))]


CostReport = Literal["chips", "layers", "tensors", "roofline"]
"""What the rows of a CSV are, and what a picture shows."""

_FORMS: dict[str, Callable[[Estimates, CostReport], str]] = {
    ".csv": csv_text,
    ".svg": picture,
    ".html": lambda estimates, _: page(estimates),
    ".htm": lambda estimates, _: page(estimates),
}
COST_REPORTS = tuple(_FORMS)
"""Ends of names that a report may have."""


def cost_report(estimates: Estimates, form: str, kind: CostReport) -> str:
    """A report.

    Args:
        estimates: with layers, and with tensors over time where the form shows them.
        form: one of :data:`COST_REPORTS`.
        kind: what it is about.
    """
    return _FORMS[form.lower()](estimates, kind)


CHIP_ORDERS: dict[str, Callable[[ChipEstimate], float]] = {
    "fps": lambda each: -each.fps.value if each.fps is not None else inf,
    "memory": lambda each: each.memory.total if each.memory is not None else inf,
    "cpu": lambda each: inf if each.cpu_layers is None else each.cpu_layers + each.refused_layers,
}
"""By what chips are ranked -> a number that is small where a chip is good."""


def ranked(found: Estimates, by: str) -> Estimates:
    """The chips with the best first; those without an estimate come last.

    Args:
        found: of several chips.
        by: one of :data:`CHIP_ORDERS`: frames a second, memory, layers on the CPU.
    """
    key = CHIP_ORDERS[by]
    chips = sorted(found.chips, key=lambda chip: (bool(chip.problem), key(chip)))
    return replace(found, chips=tuple(chips))
