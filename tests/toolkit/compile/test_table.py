"""The compiler's table beside our plan. Rows as toolkit 2.3.2 printed them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from engine.cost.printed import parse_printed
from engine.toolkit.compile.table import compiler_table
from engine.wire.cost import LayerCost, MemoryCost
from tests.api.test_layer_table import cost as of_layer
from tests.api.test_layer_table import estimate

ROWS = (
    "                 Network Layer Information Table",
    "0 InputOperator INT8 CPU \\ (1,3,8,8) 0/0/0 0 InputOperator:x",
    "1 ConvRelu INT8 NPU (1,3,8,8),(16,3,3,3),(16) (1,16,8,8) 22/1728/1728 227 Conv:stem",
    "2 Reshape INT8 CPU (1,16,8,8) (1,16,64) 0/0/0 1 Reshape:stem_o/float-rs",
    "3 exDataConvert FLOAT16 NPU (1,16,64) (1,16,64) 5/0/5 1 exDataConvert:a/DequantizeLinear",
    "4 OutputOperator FLOAT16 CPU (1,16,64) \\ 0/0/0 1 OutputOperator:y",
    "Total Weight Memory Size: 2KB",
    "Total Internal Memory Size: 4KB",
)


def logged(rows: Iterable[str]) -> str:
    return "".join(f"D RKNN: [03:02:13.556] {row}\n" for row in rows)


LOG = logged(ROWS)


def cost(name: str, op: str, target: str = "NPU", total: int = 0, id_: str = "stem") -> LayerCost:
    return replace(of_layer(id_, op, target), name=name, npu_cycles=total, total_cycles=total)


PLAN = replace(
    estimate(
        cost("InputOperator:x", "InputOperator", "CPU"),
        cost("Conv:stem", "ConvRelu", total=1728),
        cost("Reshape:stem_o_rs", "Reshape", "CPU"),
        cost("exDataConvert:a__cvt_int8_float16", "exDataConvert", total=5, id_="a"),
        cost("OutputOperator:y", "OutputOperator", "CPU"),
    ),
    memory=MemoryCost(4096, 2048, 6144),
)


def test_a_layer_without_a_name_is_the_next_of_its_type() -> None:
    row = "9 Add FLOAT16 NPU (1,16,4,4),(1,16,4,4) (1,16,4,4) 0/0/0 1" + " " * 28
    sums = (cost("Add:first", "Add", id_="a"), cost("Add:second", "Add", id_="b"))
    plan = replace(PLAN, layers=(*PLAN.layers, *sums))
    end = ROWS.index(next(each for each in ROWS if "OutputOperator" in each))
    rows = [*ROWS[:end], row, row, *ROWS[end:]]
    found = compiler_table(parse_printed(logged(rows)), plan)
    assert found.findings == ()
    assert [each.id for each in found.layers if each.op == "Add"] == ["a", "b"]


def test_layers_meet_by_name_but_for_what_pairs_add() -> None:
    found = compiler_table(parse_printed(LOG), PLAN)
    assert found.findings == ()
    stem, reshape, converted = found.layers[1:4]
    assert (stem.id, stem.total_cycles, stem.estimated_total_cycles) == ("stem", 1728, 1728)
    assert (reshape.estimated_target, reshape.total_cycles) == ("CPU", None)
    assert (converted.id, converted.estimated_total_cycles) == ("a", 5)
    assert (found.internal_bytes, found.weight_bytes) == (4096, 2048)
    assert (found.npu_cycles, found.total_cycles) == (1728, 1733)


def test_what_is_named_after_a_tensor_of_integers_meets_what_is_named_after_the_tensor() -> None:
    row = "1 Transpose INT8 NPU (1,16,8,8) (1,8,8,16) 1/0/1 1 Transpose:x/quantized_tp"
    log = logged(["Network Layer Information Table", row])
    plan = replace(PLAN, layers=(cost("Transpose:x_tp", "Transpose", total=1),), memory=None)
    assert compiler_table(parse_printed(log), plan).findings == ()


def test_means_are_convolutions_under_two_names() -> None:
    rows = (
        "Network Layer Information Table",
        "1 Conv INT8 NPU (1,8,4,4),(1,8,4,4),(8) (1,8,1,1) 1/7/7 1 Conv:/small",
        "2 Conv INT8 NPU (1,8,16,16),(1,8,8,8),(8) (1,8,2,2) 1/8/8 1 Conv:/large/blocks/Conv",
        "3 Conv INT8 NPU (1,8,2,2),(1,8,2,2),(8) (1,8,1,1) 1/9/9 1 Conv:/large",
    )
    layers = (
        cost("Conv:/small_2conv0", "Conv", total=7, id_="/small"),
        cost("Conv:/large_2gavg_2conv0", "Conv", total=8, id_="/large"),
        cost("Conv:/large_2gavg_2conv1", "Conv", total=9, id_="/large"),
    )
    found = compiler_table(parse_printed(logged(rows)), replace(PLAN, layers=layers, memory=None))
    assert [row.estimated_total_cycles for row in found.layers] == [7, 8, 9]
    assert found.findings == ()


@pytest.mark.parametrize(("cycles", "differs"), [(1740, False), (1765, True)])
def test_a_hundredth_of_the_cycles_is_no_disagreement(cycles: int, differs: bool) -> None:
    layers = (PLAN.layers[0], cost("Conv:stem", "ConvRelu", total=cycles), *PLAN.layers[2:])
    table = compiler_table(parse_printed(LOG), replace(PLAN, layers=layers))
    assert bool(table.findings) == differs


def test_disagreements_are_told_by_layer() -> None:
    layers = (
        *PLAN.layers[:1],
        cost("Conv:stem", "ConvRelu", total=2000),
        cost("Reshape:stem_o_rs", "Reshape", "NPU"),
        cost("Pool:gone", "MaxPool", id_="gone"),
    )
    plan = replace(PLAN, layers=layers, memory=MemoryCost(4096, 9999, 1))
    found = compiler_table(parse_printed(LOG), plan).findings
    assert {each.code for each in found} == {"plan-differs"}
    text = {each.where: each.what for each in found}
    assert "1728 cycles by the compiler, 2000 by the plan" in "".join(e.what for e in found)
    assert any("runs on the CPU; the plan says NPU" in each.what for each in found)
    assert "that the compiler did not make" in text["gone"]
    assert any("that the plan does not have" in each.what for each in found)
    assert "2048 bytes by the compiler, 9999 by the plan" in text["rk3588"]


def test_many_disagreements_are_cut() -> None:
    layers = tuple(cost(f"Conv:c{i}", "Conv", id_=f"c{i}") for i in range(100))
    found = compiler_table(parse_printed(LOG), replace(PLAN, layers=layers)).findings
    assert len(found) == 31
    assert "further layers" in found[-1].what


def test_a_log_without_a_table_is_no_table() -> None:
    found = compiler_table(parse_printed("nothing was printed"), PLAN)
    assert (found.layers, found.total_cycles, found.findings) == ((), None, ())
