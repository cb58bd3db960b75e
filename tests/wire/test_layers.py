"""Thresholds and choices of the table of layers: what is marked, where a layer runs, its shares."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, get_args, get_type_hints

import pytest

from engine.build import LayerCoverage
from engine.wire.build import LayerAccuracy
from engine.wire.compile import Compiled, CompiledLayer
from engine.wire.cost import ChipCheck, ChipEstimate, LayerCost
from engine.wire.devices import LayerTime
from engine.wire.formats import ABSENT
from engine.wire.layer_tables import BOARD, COST, LAYERS, OFF_NPU, QUALITY, disagreement
from engine.wire.layers import LayerFigures, by_layer, layer_rows, layers_of
from engine.wire.model import Histogram
from engine.wire.record import record
from engine.wire.table import (
    ADDED,
    GREATEST,
    Steps,
    as_one,
    columns_at,
    marks_of,
    mean_over,
    most_of,
)
from rknntui.widgets.layer_table import LayerTable
from tests.api.test_layer_table import cost, estimate


@pytest.mark.parametrize(
    ("key", "value", "text", "means"),
    [
        ("sqnr", 19.99, "!19.99", "bad"),
        ("sqnr", 20.0, "20.00", ""),
        ("isolated_cosine", 0.9899, "!0.989900", "bad"),
        ("isolated_cosine", 0.99, "0.990000", ""),
        ("saturation", 0.0011, "0.11", "warn"),
        ("saturation", 0.001, "0.10", ""),
    ],
)
def test_what_is_bad_has_a_mark_and_a_meaning(
    key: str, value: float, text: str, means: str
) -> None:
    column = QUALITY.column(key)
    assert column.format.text(value) in (text, f"{text}0")
    assert column.style is not None
    assert column.style(value) == means


@pytest.mark.parametrize(("cycles", "sign"), [(1011, "≠"), (1009, " "), (989, "≠"), (991, " ")])
def test_cycles_disagree_from_a_percent_on(cycles: int, sign: str) -> None:
    row = CompiledLayer(
        name="Conv:a", op="Conv", id="a", target="NPU", total_cycles=cycles,
        estimated_total_cycles=1000, estimated_target="NPU",
    )  # fmt: skip
    (layer,) = layer_rows(Compiled(chip="rk3588", layers=(row,)))
    assert disagreement(layer) == sign


def test_a_layer_runs_where_it_was_measured_then_compiled_then_estimated() -> None:
    compiled = CompiledLayer(name="Conv:a", op="Conv", id="a", target="GPU")
    figures = LayerFigures(id="a", estimated=cost("a", target="none"))
    assert figures.placement == "none"
    figures |= LayerFigures(id="a", compiled=compiled)
    assert figures.placement == "GPU"
    figures |= LayerFigures(id="a", measured=LayerTime(1, target="CPU", id="a"))
    assert figures.placement == "CPU"


def test_handing_over_an_input_does_not_put_its_layer_on_the_cpu() -> None:
    for rows in (("InputOperator", "Conv"), ("Conv", "OutputOperator")):
        steps = [cost("a", op, "NPU" if op == "Conv" else "CPU") for op in rows]
        (layer,) = by_layer(layer_rows(estimate(*steps)))
        assert layer.estimated is not None
        assert (layer.placement, layer.estimated.op, layer.estimated.time_ms) == (
            "NPU",
            "Conv",
            2.0,
        )


def test_shares_are_of_the_time_of_all_layers() -> None:
    table = LayerTable(COST, id="cost", what="cost")
    chip: ChipEstimate = estimate(cost("a", ms=3.0), cost("b", ms=1.0))
    table.show_layers(layer_rows(chip))
    assert [record["share"] for record in table.records] == [0.75, 0.25]
    assert [record["bar"].count("█") for record in table.records] == [12, 4]
    timed = LayerTable(BOARD, id="board", what="board")
    times = (LayerTime(4, name="x", microseconds=30.0), LayerTime(5, name="y", microseconds=10.0))
    timed.show_layers(LayerFigures(id="", number=t.number, measured=t) for t in times)
    assert [record["share"] for record in timed.records] == [0.75, 0.25]
    assert timed.figures is not None
    assert (timed.figures.number, timed.figures.name) == (4, "x")


def test_views_choose_among_the_columns() -> None:
    keys = {column.key for column in LAYERS.columns}
    for view in (QUALITY, COST, BOARD):
        assert {column.key for column in view.columns} <= keys
        assert all(c.heading == LAYERS.column(c.key).heading for c in view.columns)


@record
class Stepped:
    macs: Annotated[int | None, ADDED]
    cycles: Annotated[int, ADDED]
    macs_a_cycle: Annotated[float | None, mean_over("cycles")]
    need: Annotated[int | None, GREATEST]
    slow: Annotated[str, most_of("cycles")]
    name: str = ""


def test_a_figure_says_how_steps_become_one() -> None:
    steps = [
        Stepped(10, 5, 2.0, 7, "a", "first"),
        Stepped(60, 15, 4.0, None, "b", "second"),
        Stepped(None, 0, None, 3, "c", "third"),
    ]
    whole = as_one(steps[1], steps)
    assert whole == Stepped(70, 20, 70 / 20, 7, "b", "second"), "the ratio is that of the sums"
    nothing = [Stepped(None, 0, None, None, "a")] * 2
    assert as_one(nothing[0], nothing) == nothing[0]


@pytest.mark.parametrize("kind", [LayerCost, CompiledLayer, LayerTime])
def test_each_number_of_a_step_has_a_rule(kind: type) -> None:
    """A figure that is added without one would be that of the first step alone."""
    ruled = {name for name, mark in marks_of(kind) if isinstance(mark, Steps)}
    hints = get_type_hints(kind)
    numbers = {name for name, hint in hints.items() if {int, float} & {hint, *get_args(hint)}}
    assert numbers - ruled <= {"number"}
    assert len(ruled) >= 5


def test_a_ratio_of_several_steps_is_that_of_their_sums() -> None:
    steps = (replace(cost("a", ms=1.0), macs=60), replace(cost("a", ms=3.0), macs=20, bound="cpu"))
    (layer,) = by_layer(layer_rows(estimate(*steps)))
    assert layer.estimated is not None
    shown = {key: LAYERS.column(key).of(layer) for key in ("intensity", "gops", "bound")}
    assert shown == {"intensity": 2 * 80 / 12, "gops": 2 * 80 / 4e6, "bound": "cpu"}


def test_a_figure_that_a_view_does_not_place_stands_at_its_end() -> None:
    for view, kind in ((QUALITY, LayerAccuracy), (COST, LayerCost), (BOARD, LayerTime)):
        keys = {column.key for column in view.columns}
        assert {column.key for column in columns_at(kind, "x")} <= keys


def test_kernels_and_checks_are_layers_too() -> None:
    kernels = (
        LayerCoverage("a", "Conv", True, "QLinearConv"),
        LayerCoverage("b", "Tan", False, "", "x"),
    )
    texts = [
        [LAYERS.column(key).show(row) for key in ("name", "op", "integer", "kernel", "why_float")]
        for row in layers_of("kernel", kernels)
    ]
    assert texts == [
        ["a", "Conv", "✓ integer", "QLinearConv", ABSENT],
        ["b", "Tan", "! float", "", "x"],
    ]
    row = replace(cost("a", target="CPU"), reason="too large", remedy="cut it")
    check = ChipCheck(
        "rk3588", 2, "int8", npu_layers=0, cpu_layers=1, refused_layers=0, rows=(row,)
    )
    (layer,) = layer_rows(check)
    assert OFF_NPU.record(layer, chips="rk3588") == {
        "name": "a", "op": "Conv", "placement": "CPU", "reason": "too large", "remedy": "cut it",
        "chips": "rk3588",
    }  # fmt: skip


def test_a_histogram_keeps_its_counts_over_other_bins() -> None:
    spread = Histogram(-1.0, 3.0, (4, 0, 8, 4)).over(-2.0, 6.0, 64)
    assert sum(spread) == pytest.approx(16)
    assert spread[8:16] == pytest.approx((0.5,) * 8)
    assert spread[16:24] == pytest.approx((0.0,) * 8)
    assert sum(Histogram(1.0, 1.0, (5,)).over(0.0, 2.0, 4)) == 5
    assert Histogram(1.0, 1.0, (5,)).over(1.0, 1.0, 4) == (0, 0, 5, 0)
    assert Histogram(0.0, 1.0, ()).over(0.0, 1.0, 2) == (0, 0)
