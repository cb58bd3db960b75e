"""Layers from Python: error, time and placement in one row, as columns and as a frame."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import pytest

import engine
from engine.api.layer_table import LayerTable
from engine.base.errors import UsageError
from engine.wire.build import Analysis, Distance, LayerAccuracy
from engine.wire.compile import Compiled, CompiledLayer
from engine.wire.cost import ChipEstimate, Estimates, LayerCost
from engine.wire.devices import LayerTime, Performance
from engine.wire.hybrid import Ranked
from engine.wire.layer_tables import worth_promoting
from engine.wire.layers import LayerFigures, by_layer, layer_rows
from rknntui.demo import demo_recipe


def cost(layer: str, op: str = "Conv", target: str = "NPU", ms: float = 1.0) -> LayerCost:
    return LayerCost(
        id=layer, layers=(layer,), name=f"{op}:{layer}", op=op, dtype="INT8", target=target,
        reason="", remedy="", shapes_in="", shape_out="", ddr_cycles=10, npu_cycles=20,
        total_cycles=30, read_bytes=4, write_bytes=2, weight_bytes=1, macs=5, time_ms=ms,
        bound="memory",
    )  # fmt: skip


def estimate(*layers: LayerCost, chip: str = "rk3588") -> ChipEstimate:
    return ChipEstimate(chip, 2, "int8", 1, 1, 1000.0, "fitted", layers=layers)


def error(layer: str, sqnr: float | None, **more: object) -> LayerAccuracy:
    near = Distance(0.99, 1.0)
    row = LayerAccuracy(layer, "Conv", f"{layer}_out", layer, False, (layer,), "int8", (), near)
    return replace(row, sqnr=sqnr, **more)


ERRORS = Analysis(1, "", (error("a", 30.0), error("b", None), error("in", 1.0, inner=True)), ())
COSTS = estimate(
    cost("b", ms=1.5), cost("b", op="Gemm", target="CPU", ms=0.25), cost("a"), cost("new")
)
TIMES = Performance(
    label="emulated", device="d", chip="rk3588", runtime="2", driver="1", points=(),
    layers=(
        LayerTime(
            7, name="Conv:a", op="ConvRelu", dtype="INT8", target="NPU", microseconds=10.0,
            traffic=5, id="a",
        ),
        LayerTime(
            8, name="Conv:a_tile1", op="ConvRelu", dtype="INT8", target="NPU", microseconds=2.0,
            traffic=1, id="a",
        ),
        LayerTime(9, name="OutputOperator:y", op="OutputOperator", target="CPU", microseconds=1.0),
    ),
)  # fmt: skip


def test_a_layer_of_the_demo_has_error_time_and_placement_in_one_row() -> None:
    recipe = engine.Recipe.from_values(demo_recipe())
    report = engine.analyse_model(engine.build_model(recipe))
    found = engine.layer_table(report, engine.estimate(recipe, ["rk3588"]))
    rows = {row.id: row for row in found.rows}
    graph = list(dict.fromkeys(row.id for row in report.layers if not row.inner))
    assert list(rows)[: len(graph)] == graph
    assert rows["image"].error.op == "exDataConvert", "an input as the network sees it"
    computed = [row for row in rows.values() if row.error and row.estimated]
    assert len(computed) >= 4
    columns = found.to_dict()
    for row in computed:
        at = columns["layer"].index(row.id)
        assert columns["sqnr"][at] == pytest.approx(row.error.sqnr, abs=1e-3)
        assert columns["time_ms"][at] == pytest.approx(row.estimated.time_ms, abs=1e-6)
        assert columns["target"][at] in ("NPU", "CPU")
    assert {len(values) for values in columns.values()} == {len(found.rows)}


def test_rows_are_those_of_the_first_answer_and_steps_of_a_layer_add_up() -> None:
    a, b, new = by_layer(layer_rows(ERRORS), layer_rows(COSTS), layer_rows(TIMES))
    assert [(row.id, row.number) for row in (a, b, new)] == [("a", 1), ("b", 2), ("new", 3)]
    assert b.estimated is not None
    assert (b.estimated.time_ms, b.estimated.total_cycles, b.estimated.target) == (1.75, 60, "CPU")
    assert (b.estimated.read_bytes, b.estimated.name) == (8, "Conv:b")
    assert a.measured is not None
    assert (a.measured.microseconds, a.measured.traffic, a.label) == (12.0, 6, "emulated")
    assert (a.first("op"), a.first("dtype"), a.placement) == ("Conv", "int8", "NPU")
    assert new.error is None
    assert set(a.aliases) == {"a", "Conv:a", "a_out"}
    # the first of two answers of one kind counts
    other = estimate(cost("a", ms=9.0), chip="rk3566")
    (first, *_) = by_layer(
        layer_rows(COSTS.__class__("x", 2, "", 1, 1, 1.0, "", layers=())),
        layer_rows(estimate(cost("a"))),
        layer_rows(other),
    )
    assert first.estimated is not None
    assert first.estimated.time_ms == 1.0


def test_columns_have_plain_numbers_and_none_where_nothing_is_known() -> None:
    columns = engine.layer_table(ERRORS, COSTS, TIMES).to_dict()
    assert columns["layer"] == ["a", "b", "new"]
    assert columns["sqnr"] == [30.0, math.inf, None]
    assert columns["time_ms"] == [1.0, 1.75, 1.0]
    assert columns["microseconds"] == [12.0, None, None]
    assert columns["target"] == ["NPU", "CPU", "NPU"]
    assert columns["label"][0] == "simulated, estimated, emulated"
    assert "output_impact" not in columns, "nobody measured it"


def test_the_layers_most_worth_a_look_come_first() -> None:
    costs = estimate(cost("a"), cost("b"))
    assert [row.id for row in engine.layer_table(costs).most_worth().rows] == ["a", "b"]
    errors = Analysis(1, "", (error("a", None), error("b", 30.0)), ())
    assert [row.id for row in engine.layer_table(errors).most_worth().rows] == ["b", "a"]


def test_promotions_worth_their_time_come_first_and_those_that_go_together_once() -> None:
    def ranked(name: str, gain: float | None, ms: float, *together: str) -> LayerFigures:
        row = Ranked(
            tensor=name, id=name, op="Conv", sources=(), gain_db=gain, share=0.1, promote_ms=ms,
            promote_bytes=None, together=together,
        )  # fmt: skip
        return LayerFigures(id=name, proposed=row)

    rows = (
        ranked("dear", 9.0, 2.0),
        ranked("good", 1.0, 0.1, "pair"),
        ranked("pair", 1.0, 0.1, "good"),
        ranked("none", 0.01, 0.0),
        ranked("all", None, 0.4),
    )
    found = LayerTable(rows)
    assert [row.id for row in found.worth_promoting(10.0)] == ["all", "good", "dear"]
    assert [row.id for row in found.worth_promoting()] == ["all", "dear", "good"]
    assert [row.id for row in worth_promoting(rows, 10.0, {"all"})] == ["good", "dear", "all"]


def test_the_compiler_stands_beside_the_plan() -> None:
    row = CompiledLayer(
        name="Conv:a", op="ConvRelu", id="a", target="CPU", total_cycles=33,
        estimated_total_cycles=30, estimated_target="NPU",
    )  # fmt: skip
    columns = engine.layer_table(Compiled(chip="rk3588", layers=(row,))).to_dict()
    assert (columns["target"], columns["estimated_placement"]) == (["CPU"], ["NPU"])
    assert (columns["compiled_total_cycles"], columns["total_cycles"]) == ([33], [30])


def test_an_answer_without_layers_of_one_chip_is_refused() -> None:
    two = Estimates("m", (COSTS, estimate(chip="rk3566")), 0.1)
    for wrong, why in ((("text",), "str has no layers"), ((two,), "of 2 chips"), ((), "no answer")):
        with pytest.raises(UsageError, match=why):
            engine.layer_table(*wrong)
    assert len(engine.layer_table(Estimates("m", (COSTS,), 0.1)).rows) == 3


def test_a_frame_has_the_layers_as_its_index() -> None:
    pandas = pytest.importorskip("pandas")
    frame = engine.layer_table(ERRORS, COSTS).to_frame()
    assert list(frame.index) == ["a", "b", "new"]
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc["b", "time_ms"] == 1.75
    assert math.isnan(frame.loc["new", "cosine"])


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="needs pandas") as raised:
        engine.layer_table(COSTS).to_frame()
    assert "pip install pandas" in raised.value.remedy
