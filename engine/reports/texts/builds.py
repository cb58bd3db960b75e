"""Builds in words: runs, scores, rankings, comparisons, variants, layers of another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.base.text import human_bytes, sanitize
from engine.report import layers_counted, rounding_lines, sqnr_rank, summary_text
from engine.reports.files import table_lines
from engine.reports.texts import words
from engine.reports.texts.boards import output_lines, where_line
from engine.wire.accuracy import Evaluated
from engine.wire.build import Analysis, BuildSummary, Exported, LayerAccuracy, Simulated
from engine.wire.build_tables import (
    EDITS,
    EFFECT_OUTPUTS,
    SEARCH_POINTS,
    SWEEP_ROWS,
    scores_of,
)
from engine.wire.compare import Comparison
from engine.wire.formats import MILLISECONDS, PERCENT, range_of
from engine.wire.hybrid import Effect, Joins, Proposal, SearchResult, Step1, Table
from engine.wire.layer_tables import COMPARE, DTYPES, LAYERS, PROPOSED, QUALITY
from engine.wire.layers import layer_rows, layers_of
from engine.wire.sweep import Row, Sweep


@words.register
def _built(summary: BuildSummary) -> list[str]:
    return [summary_text(summary)]


@words.register
def _simulated(result: Simulated) -> list[str]:
    lines = output_lines(result.outputs)
    if result.quantized:
        compiled = ", as compiled" if result.as_compiled else ""
        lines.append(f"{result.arithmetic} arithmetic{compiled} (simulated)")
    lines.append(
        f"{MILLISECONDS.text(1000 * result.seconds)} ms on this machine (measured; no NPU time)"
    )
    lines += [f"wrote {path}" for path in result.saved]
    return lines


@words.register
def _evaluated(result: Evaluated) -> list[str]:
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


@words.register
def _analysed(result: Analysis, shown: Sequence[LayerAccuracy] | None = None) -> list[str]:
    """``shown``: its layers as they are to be listed; None: as it has them."""
    lines = [f"{layers_counted(result)}, simulated against float over {result.over}"]
    listed = result if shown is None else replace(result, layers=tuple(shown))
    lines += table_lines(QUALITY, layer_rows(listed), whole=True)
    lines += [] if result.rounding is None else rounding_lines(result.rounding)
    return [*lines, *[f"wrote {path}" for path in result.files]]


_TABLE = replace(COMPARE, columns=(*COMPARE.columns, LAYERS.column("diverges")))


@words.register
def _compared(comparison: Comparison) -> list[str]:
    lines = [where_line(comparison), *table_lines(_TABLE, layer_rows(comparison), whole=True)]
    lines += [f"not given by the board: {sanitize(name, 120)}" for name in comparison.missing[:20]]
    if len(comparison.missing) > 20:
        lines.append(f"and {len(comparison.missing) - 20} more")
    lines += [sanitize(note) for note in comparison.notes]
    lines += [f"wrote {path}" for path in comparison.files]
    first = next((layer for layer in comparison.layers if layer.diverges), None)
    if first is not None:
        lines += [f"  or {sanitize(name, 120)}" for name in first.inside[:20]]
    if comparison.rounding is not None:
        lines += [
            sanitize(text, 400) for text in comparison.judged or rounding_lines(comparison.rounding)
        ]
    return [*lines, f"input SHA-256 {comparison.sha256}", sanitize(comparison.verdict, 500)]


@words.register
def _exported(found: Exported) -> list[str]:
    lines = [f"{found.path}: {human_bytes(found.bytes)}, SHA-256 {found.sha256}", found.note]
    lines += [f"also {path}" for path in found.more]
    return lines + [f"{finding.what} {finding.remedy}" for finding in found.findings]


@words.register
def _swept(result: Sweep) -> list[str]:
    rows = sorted(result.rows, key=_badness)
    axes = f"build: {', '.join(result.axes)}"
    basis = f"simulated, compared on the {result.compared_on}"
    left = f"; {result.left_out} combinations skipped" if result.left_out else ""
    return [axes, *table_lines(SWEEP_ROWS, rows), f"{basis}{left}"]


def _badness(row: Row) -> float:
    """Rows in the order of their worst output, the best first; failed ones last."""
    if row.outputs is None:
        return float("inf")
    return -min((sqnr_rank(o.sqnr_db) for o in row.outputs), default=float("inf"))


@words.register
def _step1(result: Step1) -> list[str]:
    files = result.files
    lines = table_lines(PROPOSED, layers_of("proposed", result.ranking), whole=True)
    return [files.model, files.data, files.config, *([PROPOSED.title] if lines else []), *lines]


@words.register
def _proposed(found: Proposal) -> list[str]:
    table = table_lines(PROPOSED, layer_rows(found), whole=True)
    return [*([PROPOSED.title] if table else []), *table, *_times(found)]


def _times(found: Proposal) -> list[str]:
    """What a proposal does to the time of an inference, where there is a chip."""
    times = (found.time_before_ms, found.time_after_ms)
    if None in times:
        return []
    before, after = map(MILLISECONDS.show, times)
    return [f"time on {found.chip}: {before} ms -> {after} ms (estimated)"]


@words.register
def _searched(found: SearchResult) -> list[str]:
    lines, best = table_lines(SEARCH_POINTS, found.curve), found.best
    lines.append(f"best: step {best.step}, {len(best.promoted)} layers; ended: {found.ended}")
    if best.samples:
        lines.append(f"SQNR over {best.samples} calibration samples (simulated)")
    lines += [f"  {sanitize(name, 200)}: {kind}" for name, kind in best.layers.items()]
    return lines


@words.register
def _effect(result: Effect) -> list[str]:
    lines = [EFFECT_OUTPUTS.title, *table_lines(EFFECT_OUTPUTS, result.outputs)]
    return [*lines, f"SQNR over {result.over}", *table_lines(EDITS, result.honoured)]


@words.register
def _table(result: Table) -> list[str]:
    lines = [DTYPES.title, *table_lines(DTYPES, layer_rows(result), whole=True)]
    lines.append(f"SQNR over {result.over}")
    if result.chip and result.time_ms is not None:
        lines.append(f"time on {result.chip}: {MILLISECONDS.text(result.time_ms)} ms (estimated)")
    return lines


@words.register
def _joins(result: Joins) -> list[str]:
    lines = [
        f"{f.severity}: {sanitize(f.where, 80)}: {sanitize(f.what)} "
        f"{sanitize(f.cause)} Fix: {sanitize(f.remedy)}"
        for f in result.findings
    ]
    return lines or ["No mismatched ranges."]
