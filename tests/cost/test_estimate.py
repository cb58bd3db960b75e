"""What a model costs on the chips: shared work, layer ids, what cannot be estimated."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.base.errors import UsageError
from engine.cost.chips import chips_named
from engine.cost.estimate import (
    CostSettings,
    advice,
    estimate,
    estimate_chip,
    npu_dtype,
    repeated,
)
from engine.facts import chips
from engine.graph.ir import Graph
from engine.graph.layers import Layer, LayerMap
from engine.wire.cost import ChipEstimate
from tests.graph.models import model, nodes_of


def graph_of(*, quantized: bool = False) -> Graph:
    """Two convolutions with a Relu; with ``quantized`` a Q/DQ pair on each feature and weight."""
    nodes, weights = "", {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8)}
    pair = "{0}_q = QuantizeLinear ({0}, s, z); {0}_dq = DequantizeLinear ({0}_q, s, z); "
    for at, source in enumerate(("x", "r0")):
        weight = np.zeros((16, 16 if at else 3, 3, 3), np.float32)
        if quantized:
            nodes += pair.format(source) + f"w{at} = DequantizeLinear (w{at}_q, s, z); "
            weights[f"w{at}_q"] = weight.astype(np.int8)
        else:
            weights[f"w{at}"] = weight
        data = f"{source}_dq" if quantized else source
        nodes += f"[conv{at}] c{at} = Conv <pads=[1, 1, 1, 1]> ({data}, w{at}); "
        nodes += f"[relu{at}] r{at} = Relu (c{at}); "
    nodes += pair.format("r1") if quantized else ""
    outputs = ["r1_dq" if quantized else "r1"]
    return model(nodes.removesuffix("; "), {"x": (1, 3, 32, 32)}, outputs, weights)


def of(chip: str, **settings: Any) -> ChipEstimate:
    """What :func:`graph_of` costs on a chip."""
    return estimate_chip(graph_of(), chip, CostSettings(**settings))


def test_every_chip_has_an_estimate_or_says_why() -> None:
    found = estimate(graph_of(), CostSettings())
    assert [each.chip for each in found] == [each.name for each in chips()]
    for each in found:
        assert each.label == "estimated"
        assert each.problem or each.total_cycles > 0 or each.generation == 1


def test_chips_of_one_family_share_cycles() -> None:
    first, second = estimate(graph_of(), CostSettings(chips=("rk3566", "rk3568")))
    assert first.total_cycles == second.total_cycles > 0
    assert [row.name for row in first.layers] == [row.name for row in second.layers]


def test_a_quantized_source_model_costs_what_its_float_model_does() -> None:
    settings = CostSettings(chips=("rk3588",))
    plain, quantized = (estimate(graph_of(quantized=each), settings)[0] for each in (False, True))
    assert quantized.total_cycles == plain.total_cycles > 0
    assert quantized.macs == plain.macs
    assert not [row for row in quantized.layers if "Quantize" in row.op]


def test_float16_costs_more_cycles_than_int8() -> None:
    fast, slow = (of("rk3566", dtype=dtype) for dtype in ("int8", "float16"))
    assert slow.total_cycles > fast.total_cycles
    assert (fast.dtype, slow.dtype) == ("int8", "float16")


def test_a_chip_without_the_dtype_says_so() -> None:
    found = of("rv1106", dtype="float16")
    assert "rv1106 has no float16" in found.problem
    assert "int8" in found.remedy
    assert found.time_ms is None
    assert not found.layers


def test_a_chip_without_int8_is_given_float16_unless_it_is_asked_for() -> None:
    assert of("rk2118").dtype == "float16"
    assert "rk2118 has no int8" in of("rk2118", dtype="int8").problem


def test_unknown_chips_and_dtypes_are_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no chip 'rk3589'") as error:
        chips_named(("rk3589",))
    assert "rk3588" in error.value.remedy
    with pytest.raises(UsageError, match="no estimates in the dtype 'int4'"):
        npu_dtype("int4")


def test_an_alias_is_its_chip_and_each_is_there_once() -> None:
    assert [each.name for each in chips_named(("RK3588S", "rk3588"))] == ["rk3588"]


def test_a_chip_takes_the_cores_that_it_has() -> None:
    found = estimate(graph_of(), CostSettings(chips=("rk3566", "rk3588"), cores=3))
    assert [each.cores for each in found] == [1, 3]


def test_a_lifted_layer_costs_more_on_both_generations() -> None:
    for name in ("rk3588", "rk1808"):
        plain, lifted = of(name), of(name, layer_dtypes={"conv1": "float16"})
        assert lifted.time_ms.value > plain.time_ms.value, name
        assert {row.dtype for row in lifted.layers if row.macs} == {"int8", "float16"}, name


def of_nodes(nodes: list[onnx.NodeProto], shape: list[int | str], last: str) -> Graph:
    weights = {"w": np.zeros((8, 8, 1, 1), np.float32)}
    return model(nodes, {"x": shape}, [last], weights)


def test_a_dynamic_shape_is_told_with_its_remedy() -> None:
    graph = of_nodes([helper.make_node("Relu", ["x"], ["y"])], ["n", 8, "h", 4], "y")
    with pytest.raises(UsageError, match="not fixed") as error:
        estimate(graph, CostSettings())
    assert "sizes" in error.value.remedy


def test_an_operator_that_nobody_knows_is_refused_and_the_others_are_counted() -> None:
    nodes = nodes_of("[conv] a = Conv (x, w); [det] y = Det (a)")
    found = estimate(of_nodes(nodes, [1, 8, 8, 8], "y"), CostSettings(chips=("rk3588",)))[0]
    assert found.total_cycles > 0
    row = next(row for row in found.layers if row.op == "Det")
    assert row.target == "none"
    assert row.reason
    assert row.remedy
    assert found.refused_layers == 1
    assert any("refuses 1" in note for note in found.notes)


def test_batches_are_so_many_inferences() -> None:
    one, four = (of("rk3588", batch=batch) for batch in (1, 4))
    assert four.time_ms.value == pytest.approx(4 * one.time_ms.value)
    assert four.memory.internal == 4 * one.memory.internal
    assert four.memory.weight == one.memory.weight


def test_advice_is_of_one_chip() -> None:
    found, told = advice(graph_of(), "rk3566", CostSettings())
    assert found.chip == "rk3566"
    assert all(each.title and each.source for each in told)


def test_another_choice_of_layers_is_estimated_again() -> None:
    again = repeated(graph_of(), "rk3566", CostSettings(), LayerMap())
    assert again({}) == of("rk3566")


@pytest.mark.long
def test_ten_thousand_nodes() -> None:
    nodes = []
    for at in range(2500):
        source = f"a{at - 1}" if at else "x"
        nodes += [
            helper.make_node("Conv", [source, "w"], [f"c{at}"], name=f"conv{at}"),
            helper.make_node("Sigmoid", [f"c{at}"], [f"s{at}"], name=f"sigmoid{at}"),
            helper.make_node("Mul", [f"c{at}", f"s{at}"], [f"m{at}"], name=f"mul{at}"),
            helper.make_node("Add", [f"m{at}", source], [f"a{at}"], name=f"add{at}"),
        ]
    found = estimate(of_nodes(nodes, [1, 8, 8, 8], "a2499"), CostSettings(chips=("rk3588",)))[0]
    assert not found.problem
    assert sum(row.op.startswith("Conv") for row in found.layers) == 2500


def test_a_row_has_a_layer_of_the_build_where_there_is_one() -> None:
    layers = LayerMap(
        (
            Layer("first", "Conv", "weighted", ("conv0", "relu0"), ("c0",), ("r0",), ("conv0",)),
            Layer("second", "Conv", "weighted", ("conv1",), (), ("c1",), ("conv1",)),
        )
    )
    for chip in ("rk3588", "rv1126"):
        found = estimate_chip(graph_of(), chip, CostSettings(), layers)
        assert {row.id for row in found.layers} == {"first", "second"}
        convolutions = [row.id for row in found.layers if row.op.startswith("Conv")]
        assert convolutions == ["first", "second"]


def test_a_dtype_without_figures_is_told() -> None:
    found = of("rk3562", quantized_dtype="w8a16")
    assert found.dtype == "float16"
    assert any("w8a16" in note for note in found.notes)
    assert not any("counted as" in note for note in of("rk3562").notes)


def test_weights_of_4_bits_are_counted_where_a_chip_has_them() -> None:
    plain, small = of("rk3576", dtype="float16"), of("rk3576", quantized_dtype="w4a16")
    assert (small.problem, plain.problem) == ("", "")
    assert small.notes[-1].startswith("w4a16: dense weights are counted in 4 bits")
    bits4, bits16 = (sum(row.weight_bytes for row in one.layers) for one in (small, plain))
    assert bits4 < bits16
    other = of("rk3588", dtype="w4a16")
    assert other.problem == "The vendor's toolkit compiles no w4a16 for rk3588."
    assert "rk3576" in other.remedy
    assert other.layers == ()


def test_a_network_of_views_alone_takes_some_time_on_every_chip() -> None:
    views = model("y = Flatten (x)", {"x": (1, 2, 4, 4)}, ["y"])
    for each in estimate(views, CostSettings()):
        assert 0 < each.time_ms.low < each.time_ms.value < each.time_ms.high
        assert each.fps.value < 1e6


@pytest.mark.parametrize("mhz", [0.0, -5.0, float("nan"), float("inf"), 1e9, 0.9, 10_001.0])
def test_an_impossible_clock_is_refused(mhz: float) -> None:
    with pytest.raises(UsageError, match="clock"):
        of("rk3588", npu_mhz=mhz)


@pytest.mark.parametrize("mhz", [1.0, 10_000.0])
def test_the_slowest_and_the_fastest_clock(mhz: float) -> None:
    one = of("rk3588", npu_mhz=mhz)
    assert one.npu_mhz == mhz
    assert not one.problem


@pytest.mark.parametrize("settings", [{"batch": 0}, {"cores": -1}])
def test_no_batch_and_no_cores_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="1 or more"):
        of("rk3588", **settings)
