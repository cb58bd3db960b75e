"""The memory of whole graphs: lifetimes, totals, branches, many nodes."""

from __future__ import annotations

from engine.cost.memory import plan_memory
from engine.facts.npu import npu_profile, npu_profiles
from tests.cost.memory.small import Maker


def residual(family: str = "rk3588") -> Maker:
    maker = Maker(family)
    stem = maker.conv("stem", maker.input("x", 1, 3, 32, 32), 32, kernel=3)
    branch = maker.conv("b", maker.conv("a", stem, 32, kernel=3), 32, kernel=3)
    maker.layer("Add", stem, branch, to=(maker.feature("sum", 1, 32, 32, 32),))
    maker.output("sum")
    return maker


def test_a_tensor_lives_until_its_last_reader() -> None:
    npu = npu_profile("rk3588")
    assert npu is not None
    plan = plan_memory(residual().lowered(), npu)
    life = {span.tensor: (span.first, span.last) for span in plan.spans}
    assert life == {"x": (0, 1), "stem": (1, 4), "a": (2, 3), "b": (3, 4), "sum": (4, 5)}
    assert plan.internal == 3 * 32 * 32 * 32 + 3 * 32 * 32
    assert plan.total == plan.internal + plan.weight


def test_spans_are_only_in_the_answer_where_asked_for() -> None:
    npu = npu_profile("rk3588")
    assert npu is not None
    plan = plan_memory(residual().lowered(), npu)
    assert plan.cost().spans == ()
    assert plan.cost(spans=True).spans == plan.spans
    assert plan.cost().total == plan.total


def test_every_family_has_a_plan() -> None:
    for npu in npu_profiles():
        maker = residual(npu.family)
        if "int8" not in npu.dtypes:
            continue
        plan = plan_memory(maker.lowered(), npu)
        assert plan.internal > 0
        assert plan.weight > 0


def test_many_layers_that_are_all_needed_at_the_end() -> None:
    npu = npu_profile("rk3566")
    assert npu is not None
    maker = Maker()
    source = maker.input("x", 1, 8, 4, 4)
    for index in range(3000):
        maker.output(maker.conv(f"c{index}", source, 16, kernel=3))
    plan = plan_memory(maker.lowered(), npu)
    outputs = [span for span in plan.spans if span.tensor.startswith("c")]
    assert len(outputs) == 2 * 3000
    assert plan.internal >= 3000 * 16 * 16


def test_a_graph_without_layers_needs_nothing() -> None:
    npu = npu_profile("rk3566")
    assert npu is not None
    plan = plan_memory(Maker().lowered(), npu)
    assert (plan.internal, plan.weight, plan.spans) == (0, 0, ())
