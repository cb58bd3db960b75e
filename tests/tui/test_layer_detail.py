"""Workspace Layers: its sets of columns, the detail and the curves, by keys alone at 80x24."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.wire.accuracy import RoundedLayer, RoundingSensitivity
from engine.wire.hybrid import CurvePoint, SearchResult
from engine.wire.layer_tables import COMPARE
from engine.wire.layers import layer_rows, layers_of
from engine.wire.model import LayerSpread, Saturation, TensorRange
from rknntui.links import GoToLayer
from rknntui.screens.bench.words import compared_lines
from rknntui.screens.layers.detail import LayerDetail
from rknntui.screens.layers.words import network_series
from rknntui.session.job_view_model import JobView
from rknntui.widgets.charts import CurveChart, bars
from rknntui.widgets.one_line import fit_facts
from tests.tui.board_answers import comparison
from tests.tui.conftest import driven, screen_text, settle, until, workbench
from tests.tui.test_layers import layers_of_build, row
from tests.tui.test_parts import Alone

SIZE = (80, 24)


@pytest.mark.usefixtures("warm")
async def test_columns_are_filled_and_the_detail_follows_the_cursor(digits: Path) -> None:
    with digits.open("a", encoding="utf-8") as file:
        file.write("target: {target_platform: rk3588}\n")
    async with layers_of_build(digits) as (app, pilot, workspace):
        assert "r measures isolated errors and clipping" in screen_text(app)
        await pilot.press("r", until=lambda: app.session.layers.of("error"))
        await pilot.sees("isol. dB")
        await pilot.sees("by gain per ms")
        order = [row["id"] for row in workspace.table.records]
        await pilot.press("down", "v", sees=("estimated on rk3588", "est. ms"))
        here = workspace.chosen
        assert here == app.session.layers.cursor == workspace.table.record["id"] == order[1]
        assert [row["id"] for row in workspace.table.records][: len(order)] == order
        await pilot.press("v", sees="not compiled for rk3588")
        assert workspace.chosen == here
        await pilot.press("v", sees=("not run on a board yet", "r Bench"))

        await pilot.press("V", "V", "V", "slash", *"gemm", "enter")
        await until(pilot, lambda: workspace.table.row_count == 1, "a filter")
        await pilot.press("v")
        assert workspace.table.row_count == 1, "the filter is that of all columns"
        await pilot.press("V", "d", sees=("integer range", "over 12 samples: SQNR"))
        await pilot.press("y")
        assert "reference (float)" in app.clipboard
        assert "█" in app.clipboard
        await pilot.press("escape", sees="1 of ")
        await pilot.press("c", sees=("SQNR dB, isolated", "▲"))
        await pilot.press("c", sees="ms (estimated)")
        await pilot.press("c", "m", until=lambda: app.current == "model")
        await pilot.sees("operator    Gemm")
        app.screen.post_message(GoToLayer(order[0], columns="cost"))
        await until(pilot, lambda: app.current == "layers", "back")
        await until(pilot, lambda: workspace.chosen == order[0], "the layer of the link")
        assert workspace.view == "Cost"


@pytest.mark.parametrize("size", [(80, 24), (149, 40), (150, 24), (200, 60)])
async def test_the_size_of_the_screen_alone_decides_where_the_detail_stands(size) -> None:
    async with workbench(size=size) as (app, pilot):
        await pilot.press("3", rests=True)
        detail = app.workspace.detail
        for rows in ((), layers_of("choice", [row("t", "int8")])):
            app.session.layers.fill("choice", rows)
            await settle(pilot)
            assert (detail.region.x > 0) == (size[0] >= 150)
            assert detail.chart.display == (size[1] > 31)


@pytest.mark.usefixtures("warm")
async def test_snapshots_are_written_to_a_folder(tmp_path: Path, digits: Path) -> None:
    async with layers_of_build(digits) as (app, pilot, _):
        await pilot.press("A", "down", *"snapshot", "enter")
        report = tmp_path / "snapshot" / "error_analysis.txt"
        await until(pilot, report.is_file, "the report")
        await until(pilot, lambda: app.session.running is None, "the end")
        assert "Gemm" in report.read_text(encoding="utf-8")


async def test_the_detail_asks_once_and_draws_what_it_gets() -> None:
    pane = LayerDetail(id="layer")
    app = Alone(pane)
    (figures,) = layers_of("choice", [row("t", "int8", "float16")])
    record = {"unmet": "why not", "built_range": None}
    async with driven(app) as pilot:
        pane.show_layer(figures, record, read=True)
        pane.show_layer(figures, record, read=True)
        await until(pilot, lambda: app.heard(LayerDetail.Wanted), "it rests there")
        assert [m.tensor for m in app.heard(LayerDetail.Wanted)] == ["t_out"]
        spread = replace(spread_of(1.0), tensor="t_out", channels=(1.0, 0.01, 0.9))
        spread = replace(spread, saturation=Saturation(0.1, 0.2))
        pane.take(spread)
        await pilot.pause()
        assert "reference" in pane.text()
        assert "1 of 3 channels use less than" in " ".join(pane.text().split())
        assert "! 30.00 % of its values are clipped" in pane.text()
        assert "✗ not applied: why not" in pane.text()
        rest = pane._rest
        pane.show_layer(figures, record, read=True)
        assert pane._rest is rest, "it is not asked for again"
        pane.forget()
        pane.failed("t_out", ValueError("no such layer"))
        await pilot.pause()
        assert "✗ no such layer" in pane.facts.text()


def test_a_curve_marks_the_layer_under_the_cursor() -> None:
    rows = layers_of(
        "choice", [replace(row(n, "int8"), sqnr_db=20.0 + n_) for n_, n in enumerate("abcd")]
    )
    curve = CurveChart()
    curve._shown = network_series("SQNR", rows, "c")
    lines = ["".join(text for text, _ in line) for line in curve._draw(80, 6)]
    assert lines[0].strip() == "SQNR dB, cumulative (simulated) · 20.00 to 23.00 · here 22.00"
    assert lines[-1].index("▲") == 1 + 2 * 6
    assert not any("isolated" in line for line in lines), "nothing is known of it"


def test_bars_show_a_trace_of_everything_above_zero() -> None:
    lines = bars((0.0, 0.01, 4.0, 8.0), 2, 8.0)
    assert lines == ["   █", " ▁██"]


def spread_of(high: float | None) -> LayerSpread:
    reach = None if high is None else (high,)
    quant = TensorRange("int8", (0.1,), (0,), None, (0.0,), reach)
    ends = (0.0, 10.0, (10,) * 10, (10,) * 10, (0.0, 10.0))
    return LayerSpread("t", "n", "Conv", 1, *ends, quant, None, 30.0, 0.99)


def test_a_comparison_says_what_other_roundings_do() -> None:
    """Below the table the judgement, in it a column beside board against simulator."""
    found = comparison()
    layers = tuple(
        replace(row, rounding=RoundedLayer(row.id, row.tensor, 31.5, 0.2)) for row in found.layers
    )
    moved = RoundingSensitivity((), layers=(), runs=("integer",), samples=1, edge=1e-3, seconds=1.0)
    judged = ("logits: the board is 3 % from the simulator. That is no more than rounding.",)
    told = replace(found, layers=layers, rounding=moved, judged=judged)
    lines = ["".join(text for text, _ in line) for line in compared_lines(told, 200)]
    assert judged[0] in lines
    assert judged[0] not in [
        "".join(text for text, _ in line) for line in compared_lines(found, 200)
    ]
    rounding = COMPARE.column("rounding")
    assert {rounding.of(row) for row in layer_rows(told)} == {31.5}
    assert {rounding.of(row) for row in layer_rows(found)} == {None}


async def test_what_a_step_promotes_is_said_at_80_columns_too() -> None:
    outputs, moves = {"o": 20.0}, {f"/stage{at}/a/long/name/Conv": "int16" for at in range(9)}
    point = CurvePoint(
        1, "t", "a", "int16", {"a": "int16", **moves}, ("a",), outputs, outputs, 0, 0
    )
    async with workbench() as (app, pilot):
        await pilot.press("3")
        pane = app.workspace.pane
        pane.found = SearchResult(point, (point,), None, "budget", 1)
        pane.show_search(JobView("1", "hybrid.search", "search", 0.0, state="done"))
        told = fit_facts(pane._facts(), 78)
        assert "budget used" in told
        assert told.endswith("a promotes 10")
