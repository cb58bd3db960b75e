"""Thresholds and choices of the table of layers: what is marked, where a layer runs, its shares."""

from __future__ import annotations

import pytest

from engine.wire.compile import Compiled, CompiledLayer
from engine.wire.cost import ChipEstimate
from engine.wire.devices import LayerTime
from engine.wire.layer_tables import BOARD, COST, LAYERS, QUALITY, disagreement
from engine.wire.layers import LayerFigures, by_layer, layer_rows
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
    times = (LayerTime(4, "x", microseconds=30.0), LayerTime(5, "y", microseconds=10.0))
    timed.show_layers(LayerFigures(id="", number=t.number, measured=t) for t in times)
    assert [record["share"] for record in timed.records] == [0.75, 0.25]
    assert timed.figures is not None
    assert (timed.figures.number, timed.figures.name) == (4, "x")


def test_views_choose_among_the_columns() -> None:
    keys = {column.key for column in LAYERS.columns}
    for view in (QUALITY, COST, BOARD):
        assert {column.key for column in view.columns} <= keys
        assert all(c.heading == LAYERS.column(c.key).heading for c in view.columns)
