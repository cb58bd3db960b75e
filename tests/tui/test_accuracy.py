"""Workspace Accuracy, by keys alone at 80x24."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.wire.accuracy import RoundedLayer, RoundingSensitivity
from engine.wire.layers import COMPARE, layer_rows
from engine.wire.model import LayerSpread, TensorRange
from rknntui.app import Workbench
from rknntui.screens.accuracy.words import clipped
from rknntui.screens.accuracy.workspace import Accuracy
from rknntui.screens.result.words import compared_lines
from rknntui.widgets.charts import Histogram, bars, rebinned
from tests.tui.board_answers import comparison
from tests.tui.conftest import screen_text, until
from tests.tui.flow import choose_path, press_text, shown, write_recipe

SIZE = (80, 24)


async def built(pilot) -> Accuracy:
    app = shown(pilot)
    await until(pilot, lambda: app.session.model is not None, "a model is open")
    await pilot.press("4", "b")
    await until(pilot, lambda: app.session.summary is not None, "a build")
    await pilot.press("5")
    await until(pilot, lambda: isinstance(app.workspace, Accuracy), "Accuracy")
    assert isinstance(app.workspace, Accuracy)
    return app.workspace


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("warm")
async def test_layers_are_ranked_filtered_drilled_into_and_found_in_the_graph(
    demo: Path, tmp_path: Path
) -> None:
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await built(pilot)
        assert "r compares every layer" in screen_text(app)
        await pilot.press("r")
        await until(pilot, lambda: workspace.table.total > 0, "a ranking")
        known = [r["sqnr"] for r in workspace.table.records if r["sqnr"] is not None]
        assert known == sorted(known), "the worst layer comes first"
        assert workspace.ranking.result is not None
        assert workspace.ranking.result.rounding is not None
        assert any(r["rounding"] is not None for r in workspace.table.records)
        assert re.search(
            r"(roundings move logits by|rounding:) [\d.]+ % \(simulated\)", screen_text(app)
        )
        await pilot.press("t")
        await until(pilot, lambda: "by isol. dB" in screen_text(app), "another order")
        known = [
            r["isolated_sqnr"] for r in workspace.table.records if r["isolated_sqnr"] is not None
        ]
        assert known == sorted(known)
        shares = [r["added_share"] for r in workspace.table.records if r["added_share"] is not None]
        assert min(shares) < 0.5, "some layers mostly inherit their error"
        await pilot.press("t")
        await until(pilot, lambda: "by cumul. cos" in screen_text(app), "another order")
        cosines = [r["cosine"] for r in workspace.table.records if r["cosine"] is not None]
        assert cosines == sorted(cosines)

        await pilot.press("S")
        cosines = [r["cosine"] for r in workspace.table.records]
        assert None not in cosines, "a tensor inside a layer has no row"
        assert cosines == sorted(cosines, reverse=True)
        await pilot.press("G")

        await pilot.press("slash")
        await press_text(pilot, "gemm")
        await pilot.press("enter")
        assert [r["op"] for r in workspace.table.records] == ["Gemm"]
        await pilot.press("enter")
        await until(pilot, lambda: "integer range" in screen_text(app), "histograms")
        assert "over 12 samples: SQNR" in screen_text(app)
        await pilot.press("y")
        assert "reference (float)" in app.clipboard
        assert "█" in app.clipboard
        await pilot.press("escape")
        await until(pilot, lambda: "1 of " in screen_text(app), "the ranking again")

        await pilot.press("m")
        await until(pilot, lambda: app.current == "model", "the graph")
        await until(pilot, lambda: "operator    Gemm" in screen_text(app), "its node")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("warm")
async def test_snapshots_are_written_to_a_folder_and_not_over_another(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await built(pilot)
        await pilot.press("x")
        await choose_path(pilot, tmp_path / "snapshot")
        report = tmp_path / "snapshot" / "error_analysis.txt"
        await until(pilot, report.is_file, "the report")
        await until(pilot, lambda: app.session.running is None, "the end")
        assert "Gemm" in report.read_text(encoding="utf-8")
        before = report.stat().st_mtime_ns
        await pilot.press("x")
        await choose_path(pilot, tmp_path / "snapshot", "ctrl+s")
        await until(pilot, lambda: type(app.screen).__name__ == "ConfirmDialog", "a question")
        await pilot.press("n")
        assert report.stat().st_mtime_ns == before
        await pilot.press("Y")
        assert app.clipboard == f"rknntui accuracy {tmp_path / 'demo.yaml'}"


def test_a_histogram_keeps_its_counts_over_other_bins() -> None:
    histogram = Histogram("h", -1.0, 3.0, (4, 0, 8, 4))
    spread = rebinned(histogram, -2.0, 6.0, 64)
    assert sum(spread) == pytest.approx(16)
    assert spread[8:16] == pytest.approx((0.5,) * 8)
    assert spread[16:24] == pytest.approx((0.0,) * 8)
    single = rebinned(Histogram("h", 1.0, 1.0, (5,)), 0.0, 2.0, 4)
    assert sum(single) == 5


def test_bars_show_a_trace_of_everything_above_zero() -> None:
    lines = bars((0.0, 0.01, 4.0, 8.0), 2, 8.0)
    assert lines == ["   █", " ▁██"]


def test_clipped_values_are_those_outside_the_range_of_the_integers() -> None:
    def layer(high: float | None) -> LayerSpread:
        reach = None if high is None else (high,)
        quant = TensorRange("int8", (0.1,), (0,), None, (0.0,), reach)
        ends = (0.0, 10.0, (10,) * 10, (10,) * 10, (0.0, 10.0))
        return LayerSpread("t", "n", "Conv", 1, *ends, quant, None, 30.0, 0.99)

    assert clipped(layer(10.0)) == 0
    assert clipped(layer(5.0)) == pytest.approx(0.3)
    assert clipped(layer(None)) is None


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
