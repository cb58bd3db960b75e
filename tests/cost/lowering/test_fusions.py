"""Activations and sums that a convolution takes in."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cost.lowering.small_nets import Net, names


@pytest.mark.parametrize(
    ("chip", "expected"),
    [
        ("rk3588", ["Relu:start", "Conv:c"]),
        ("rv1103b", ["Relu:start", "Conv:c", "exSwish:s_2swish"]),
    ],
)
def test_silu_is_one_layer_and_fused_where_the_chip_can(chip: str, expected: list[str]) -> None:
    net = Net(1, 8, 8, 8)
    data = net.conv("c", "start", 16, 8, 3, 3)
    gate = net.add("Sigmoid", "s", data)
    end = net.add("Mul", "m", data, gate)
    lowered = net.lower(chip, end)
    assert names(lowered) == expected
    assert {"c", "s", "m"} <= {name for each in lowered.layers for name in each.sources}


def test_a_sum_goes_into_the_first_convolution() -> None:
    net = Net(1, 8, 8, 8)
    first = net.conv("c1", "start", 8, 8, 3, 3)
    second = net.conv("c2", "start", 8, 8, 1, 1)
    end = net.add("Relu", "r", net.add("Add", "a", first, second))
    lowered = net.lower("rk3588", end)
    assert names(lowered) == ["Relu:start", "Conv:c2", "Conv:c1_ConvAddRelu"]
    assert lowered.layers[-2].op == "ConvAddRelu"
    assert lowered.layers[-2].inputs == ("start", "c2")


def test_shape_arithmetic_costs_nothing() -> None:
    net = Net(1, 8, 4, 4)
    shape = net.add("Shape", "shape", "start")
    batch = net.add("Gather", "g", shape, net.constant("zero", np.array([0])))
    target = net.add("Concat", "cat", batch, net.constant("rest", np.array([-1])), axis=0)
    end = net.add("Reshape", "flat", "start", target)
    assert names(net.lower("rk3566", end))[0] == "Relu:start"
    assert not any("Shape:" in name or "Gather" in name for name in names(net.lower("rk3566", end)))


def test_depthwise_weights_are_told_as_one_filter_a_channel() -> None:
    net = Net(1, 24, 8, 8)
    end = net.conv("d", "start", 24, 1, 3, 3, group=24)
    layer = net.lower("rk3562", end).layers[2]
    assert layer.depthwise
    assert layer.window is not None
    assert layer.window.kernel == (3, 3)
