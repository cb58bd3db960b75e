"""Room behind the output of a layer that computes in several passes."""

from __future__ import annotations

import pytest

from engine.cost.lowered import LoweredLayer
from engine.cost.memory.layout import written_times
from engine.facts.npu import npu_profile


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
    npu = npu_profile(chip)
    assert npu is not None
    dtype = "int8" if size == 1 else "float16"
    layer = LoweredLayer(op, kind, "x", ("a",), (), ("b",), dtype)
    assert written_times(layer, npu, size) == times


def test_on_the_cpu_there_are_no_passes() -> None:
    npu = npu_profile("rk3588")
    assert npu is not None
    layer = LoweredLayer("Sigmoid", "Sigmoid", "x", ("a",), (), ("b",), "int8", target="CPU")
    assert written_times(layer, npu, 1) == 1
