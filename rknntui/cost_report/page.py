"""A report as one HTML file: tables and pictures, no script, nothing from outside."""

from __future__ import annotations

from html import escape

from engine import sanitize
from engine.wire.cost import ChipEstimate, Estimates
from engine.wire.cost_tables import CHIPS, problem_lines
from engine.wire.layers import COST, layer_rows
from rknntui.cost_report.pictures import chip_bars, layer_bars, memory_map
from rknntui.tables import html_table

_STYLE = (
    "body{font:14px sans-serif;margin:24px;color:#222}table{border-collapse:collapse}"
    "td,th{border-bottom:1px solid #ddd;padding:2px 10px;text-align:left;white-space:nowrap}"
    "td.n{text-align:right}svg{max-width:100%;height:auto}"
)
_NOTE = (
    "Every figure is estimated: from formulas that give what the vendor's compiler prints, and "
    "from a model fitted to published frame rates. Nothing was measured on your board unless it "
    "says so."
)


def page(found: Estimates) -> str:
    """The whole page; what is from the model is escaped."""
    title = f"{_clean(found.model)}: cost on {len(found.chips)} chips (estimated)"
    parts = [f"<h1>{title}</h1><p>{escape(_NOTE)}</p>", chip_bars(found)]
    parts.append(html_table(CHIPS, found.chips))
    parts += [f"<p>{_clean(line)}</p>" for line in problem_lines(found.chips)]
    for one in found.chips:
        parts += _chip(one, found.model)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n{''.join(parts)}\n</body></html>\n"
    )


def _chip(one: ChipEstimate, model: str) -> list[str]:
    if not one.layers:
        return []
    parts = [f"<h2>{_clean(one.chip)} ({_clean(one.dtype)}, estimated)</h2>"]
    parts.append(layer_bars(one, model))
    if one.memory is not None and one.memory.spans:
        parts.append(memory_map(one, model))
    return [*parts, html_table(COST, layer_rows(one))]


def _clean(text: str) -> str:
    return escape(sanitize(text, 500))
