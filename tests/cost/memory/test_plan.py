"""The memory of whole graphs: lifetimes, totals, branches, many nodes.

Parts of a Split are as the table of feature tensors of rknn-toolkit2 2.3.2 has them.
"""

from __future__ import annotations

import onnx
import pytest

from engine.cost.lowered import LoweredLayer
from engine.cost.memory.layout import written_times
from engine.facts.npu import npu_profiles
from tests.cost.asked import maker as models
from tests.cost.support import Layers, npu_of, planned, read_model


def residual(chip: str = "rk3588") -> Layers:
    maker = Layers(chip)
    stem = maker.conv("stem", maker.input("x", 1, 3, 32, 32), 32, kernel=3)
    branch = maker.conv("b", maker.conv("a", stem, 32, kernel=3), 32, kernel=3)
    maker.layer("Add", stem, branch, to=(maker.feature("sum", 1, 32, 32, 32),))
    maker.output("sum")
    return maker


def test_a_tensor_lives_until_its_last_reader() -> None:
    plan = residual().plan()
    life = {span.tensor: (span.first, span.last) for span in plan.spans}
    assert life == {"x": (0, 1), "stem": (1, 4), "a": (2, 3), "b": (3, 4), "sum": (4, 5)}
    assert plan.internal == 3 * 32 * 32 * 32 + 3 * 32 * 32
    assert plan.total == plan.internal + plan.weight


def test_every_family_has_a_plan() -> None:
    for npu in npu_profiles():
        if "int8" in npu.dtypes:
            plan = residual(npu.family).plan()
            assert plan.internal > 0
            assert plan.weight > 0


def test_many_layers_that_are_all_needed_at_the_end() -> None:
    maker = Layers()
    source = maker.input("x", 1, 8, 4, 4)
    for index in range(3000):
        maker.output(maker.conv(f"c{index}", source, 16, kernel=3))
    plan = maker.plan()
    outputs = [span for span in plan.spans if span.tensor.startswith("c")]
    assert len(outputs) == 2 * 3000
    assert plan.internal >= 3000 * 16 * 16


def test_a_graph_without_layers_needs_nothing() -> None:
    plan = Layers().plan()
    assert (plan.internal, plan.weight, plan.spans) == (0, 0, ())


PIXELS = 16 * 16


def split(*parts: int) -> onnx.ModelProto:
    m = models.Maker((1, 3, 32, 32), opset=17)
    whole = m.conv("x", 3, sum(parts), 3, 2, then="Relu")
    cut = m.split(whole, m.whole(*parts), count=len(parts), axis=1)
    ends = [m.conv(name, size, 16, 1) for name, size in zip(cut, parts, strict=True)]
    return m.model(*ends)


# channels that each part has in memory (asked on 2026-11-26)
ASKED = [
    ((4, 30, 6), "rk3588", "int8", (16, 64, 32)),
    ((4, 30, 6), "rk3588", "float16", (8, 48, 16)),
    ((4, 30, 6), "rk3566", "int8", (8, 48, 16)),
    ((4, 30, 6), "rv1106", "int8", (16, 48, 16)),
    ((5, 9, 18, 32), "rk3588", "int8", (16, 32, 32, 32)),
    ((5, 9, 18, 32), "rk3566", "int8", (8, 16, 32, 32)),
    ((20, 20), "rk3566", "int8", (24, 32)),
    ((24, 8, 8), "rk3588", "int8", (32, 32, 16)),
    ((16, 8, 16), "rk3588", "int8", (16, 16, 32)),
]


@pytest.mark.parametrize(("parts", "chip", "dtype", "channels"), ASKED)
def test_a_part_that_begins_within_a_group(
    parts: tuple[int, ...], chip: str, dtype: str, channels: tuple[int, ...]
) -> None:
    plan = planned(read_model(split(*parts)), chip, dtype)
    sizes = {span.tensor: span.end - span.start for span in plan.spans if "split" in span.tensor}
    size = 1 if dtype == "int8" else 2
    assert tuple(sizes.values()) == tuple(each * PIXELS * size for each in channels)


@pytest.mark.parametrize(
    ("chip", "op", "kind", "size", "times"),
    [
        ("rk3566", "ConvExSwish", "Conv", 1, 1),
        ("rk3566", "ConvExSwish", "Conv", 2, 3),
        ("rk3588", "ConvHardSwish", "Conv", 2, 3),
        ("rk3562", "ConvHardSwish", "Conv", 2, 2),
        ("rk3576", "ConvSigmoid", "Conv", 2, 2),
        ("rk3566", "ConvHardSigmoid", "Conv", 2, 2),
        ("rk3588", "ConvRelu", "Conv", 2, 1),
        ("rk3588", "ConvLeakyRelu", "Conv", 2, 1),
        ("rk3588", "Softplus", "Softplus", 2, 2),
        ("rk3562", "Softplus", "Softplus", 2, 3),
        ("rk3588", "Sigmoid", "Sigmoid", 1, 4),
        ("rk3566", "Sigmoid", "Sigmoid", 1, 1),
        ("rk2118", "HardSwish", "HardSwish", 2, 3),
    ],
)
def test_activations_of_several_passes(
    chip: str, op: str, kind: str, size: int, times: int
) -> None:
    npu = npu_of(chip)
    dtype = "int8" if size == 1 else "float16"
    layer = LoweredLayer(op, kind, "x", ("a",), (), ("b",), dtype)
    assert written_times(layer, npu, size) == times


def test_on_the_cpu_there_are_no_passes() -> None:
    npu = npu_of("rk3588")
    layer = LoweredLayer("Sigmoid", "Sigmoid", "x", ("a",), (), ("b",), "int8", target="CPU")
    assert written_times(layer, npu, 1) == 1
