"""``engine.build_report``: all of a build for a script, as a file or a chart; of a container."""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import (
    BuildReport,
    ContainerError,
    Recipe,
    Tried,
    UsageError,
    build_model,
    build_report,
    build_rows,
    chart_svg,
    gather_report,
    list_jobs,
    report_html,
)
from engine.build import BuildSummary, OutputFidelity
from engine.reports.build_report import CHARTS
from engine.reports.pictures import Series, curves, round_values
from engine.wire.layers import layers_of
from engine.wire.model import RangeRow
from rknntui.demo import demo_recipe
from tests.reports.test_estimates import HOSTILE, estimates


class Seen(HTMLParser):
    """Tags, and everything that would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href", "data")]


def report(name: str) -> BuildReport:
    counts = dict.fromkeys(("samples", "float_bytes", "container_bytes", "nodes"), 1)
    texts = dict.fromkeys(("key", "quantized_dtype", "quantized_algorithm", "next_command"), name)
    lists = dict.fromkeys(("layers", "worst", "findings", "stages"), ())
    output = OutputFidelity(None, 1.0, name=name)
    summary = BuildSummary(
        name=name, quantized=True, quantized_method=name, quantized_bytes=1, outputs=(output,),
        **counts, **texts, **lists,
    )  # fmt: skip
    found = estimates(name)
    chip = replace(found.chips[0], peak_gops=6000.0, bandwidth_gbs=20.0)
    ranges = (RangeRow(name, "int8", 8, 0.1, 0.4, None, None, None, None, None),)
    recipe = {"dataset": name, "target_platform": name}
    points = [Tried(name, {}, db, name) for db in (math.inf, 20.0)]
    front = tuple(zip((2.0, 1.0), points, strict=True))
    rows, found = layers_of("estimated", chip.layers), replace(found, chips=(chip,))
    return BuildReport(summary, recipe, rows, found, ranges, front=front)


def test_hostile_names_stay_text_and_nothing_is_loaded() -> None:
    seen = Seen()
    text = report_html(report(HOSTILE))
    seen.feed(text)
    assert seen.tags.count("script") == 1, "our own"
    assert seen.loaded == []
    assert "\x1b" not in text
    bare = replace(report(HOSTILE), layers=(), estimates=None, ranges=(), front=())
    for draw, known in product(CHARTS.values(), (report(HOSTILE), bare)):
        root = ElementTree.fromstring(draw(known))  # noqa: S314 - our own text
        names = {each.tag.rpartition("}")[2] for each in root.iter()}
        assert names <= {"svg", "title", "rect", "text", "path", "circle"}


async def test_a_build_without_a_result_has_no_report() -> None:
    """One that failed, or whose record is gone: its answers are None in the workbench."""

    async def ask(_method: object, _params: object) -> None:
        return None

    with pytest.raises(UsageError, match="The summary of this build is not known"):
        await gather_report(ask, {"model": "net.onnx"})


def test_a_script_has_all_of_a_build_where_a_loop_runs_already() -> None:
    """In a notebook, too; the history has the build afterwards."""
    recipe = Recipe.from_values(demo_recipe("rk3588"))

    async def cell() -> BuildReport:
        return build_report(recipe)

    report = asyncio.run(cell())
    assert report.summary.quantized
    assert report.chip is not None
    assert any(row.error and row.kernel and row.estimated for row in report.layers)
    assert [why.split(":")[0] for why in report.absent] == ["times on a board"]
    assert "cumulative" in chart_svg(report, "error")
    assert "SQNR along the network (simulated)" in report_html(report)
    with pytest.raises(UsageError, match="Did you mean 'error'"):
        chart_svg(report, "eror")
    assert build_rows(list_jobs(20))[0].lowest is not None


def test_without_a_chip_the_history_is_not_searched_for_builds_to_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.reports.build_report._tried", None)
    assert build_report(Recipe.from_values(demo_recipe())).front == ()


def test_a_container_says_what_it_does_not_hold(tmp_path: Path) -> None:
    built = build_model(Recipe.from_values(demo_recipe()))
    file = tmp_path / "net.rknn"
    file.write_bytes(built.container)
    report = build_report(file)
    assert report.summary.outputs == built.summary.outputs
    text = report_html(report)
    assert "SQNR along the network" in text
    for what in ("error of each layer", "ranges", "estimate", "times on a board"):
        assert f"<td>{what}</td>" in text
    file.write_bytes(built.container[:-9])
    with pytest.raises(ContainerError):
        build_report(file)


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_values_at_an_axis_are_few_round_and_on_it(low: float, length: float) -> None:
    values = round_values(low, low + length)
    assert 3 <= len(values) <= 9 or length < abs(low) * 1e-9
    assert all(low - 1e-9 * length <= value <= low + 1.000001 * length for value in values)


def test_small_figures_at_an_axis_stay_beside_it() -> None:
    assert round_values(0.0, 0.02158) == [0.0, 0.005, 0.01, 0.015, 0.02]
    assert round_values(11.3, 48.9) == [15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0]
    drawn = curves("", "", [Series("", [0.0, 0.02158, 1e308, None], "red")])
    assert re.findall(r">([0-9.]+)</text>", drawn) == ["0", "0.005", "0.01", "0.015", "0.02"]
