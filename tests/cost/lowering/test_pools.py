"""Pools, and what a convolution takes in, with the names that rknn-toolkit2 2.3.2 printed."""

from __future__ import annotations

import numpy as np
import pytest

from engine.cost.lowered import Lowered
from tests.cost.lowering.small_nets import Net, names


def steps(lowered: Lowered) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Kernel and result, rows and columns, of each pool or convolution."""
    return [
        (each.window.kernel, lowered.shape(each.outputs[0])[2:])
        for each in lowered.layers
        if each.window is not None
    ]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((7, 7), [((7, 7), (1, 1))]),
        ((20, 20), [((7, 7), (3, 3)), ((3, 3), (1, 1))]),
        ((12, 40), [((7, 7), (2, 6)), ((2, 6), (1, 1))]),
        ((112, 112), [((7, 7), (16, 16)), ((7, 7), (3, 3)), ((3, 3), (1, 1))]),
        ((121, 5), [((7, 5), (18, 1)), ((7, 1), (3, 1)), ((3, 1), (1, 1))]),
    ],
)
def test_global_means_are_convolutions_of_seven_rows(
    size: tuple[int, int], expected: list[tuple[tuple[int, int], tuple[int, int]]]
) -> None:
    net = Net(1, 16, *size)
    lowered = net.lower("rk3588", net.add("GlobalAveragePool", "g", "start"))
    assert steps(lowered) == expected
    assert names(lowered)[1:] == [f"Conv:g_2conv{at}" for at in range(len(expected))]


def test_global_maxima_go_in_steps_too() -> None:
    net = Net(1, 16, 29, 31)
    lowered = net.lower("rk3566", net.add("GlobalMaxPool", "g", "start"))
    assert names(lowered)[1:] == ["MaxPool:g_tile0", "MaxPool:g_tile1"]
    assert steps(lowered) == [((7, 7), (5, 5)), ((5, 5), (1, 1))]


@pytest.mark.parametrize(
    ("chip", "dtype", "expected"),
    [
        ("rk3588", "int8", "AveragePool:a"),
        ("rk3588", "float16", "AveragePool:a"),
        ("rk3562", "float16", "Conv:a_2dw"),
        ("rk3576", "int8", "AveragePool:a"),
        ("rk3576", "float16", "Conv:a_2dw"),
        ("rv1106b", "int8", "Conv:a_2dw"),
        ("rk2118", "float16", "Conv:a_2dw"),
    ],
)
def test_chips_without_average_pools_convolve(chip: str, dtype: str, expected: str) -> None:
    net = Net(1, 16, 8, 8)
    end = net.add("AveragePool", "a", "start", kernel_shape=[2, 2], strides=[2, 2])
    assert names(net.lower(chip, end, dtype=dtype))[1:] == [expected]


def test_large_average_pools_and_those_of_the_whole_map() -> None:
    net = Net(1, 16, 28, 28)
    large = net.add("AveragePool", "l", "start", kernel_shape=[14, 14], strides=[14, 14])
    whole = net.add("AveragePool", "w", "start", kernel_shape=[28, 28], strides=[28, 28])
    assert {"Conv:l_2dw_split", "Conv:l_2dw_select", "Conv:w_2gavg_2conv0"} <= set(
        names(net.lower("rk3588", large, whole))
    )


@pytest.mark.parametrize(
    ("kernel", "pad", "expected"),
    [
        (7, 3, ["m"]),
        (8, 0, ["m_0_1", "m_0", "m"]),
        (9, 4, ["m_0_1", "m_0", "m_1", "m"]),
        (13, 6, ["m_0_1", "m_0", "m_1", "m"]),
    ],
)
def test_large_maximum_pools_are_several(kernel: int, pad: int, expected: list[str]) -> None:
    net = Net(1, 16, 28, 28)
    sizes = {"kernel_shape": [kernel, kernel], "pads": [pad] * 4}
    lowered = net.lower("rk3588", net.add("MaxPool", "m", "start", **sizes))
    assert names(lowered)[1:] == [f"MaxPool:{each}" for each in expected]
    assert steps(lowered)[-1][1] == (28 + 2 * pad - kernel + 1,) * 2


def test_the_same_pool_twice_is_done_once() -> None:
    net = Net(1, 16, 28, 28)
    sizes = {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}
    ends = [
        net.add("Sigmoid", f"s{at}", net.add("MaxPool", f"m{at}", "start", **sizes))
        for at in range(2)
    ]
    found = names(net.lower("rk3588", *ends))
    assert [each for each in found if each.startswith("MaxPool")] == ["MaxPool:m0"]


def test_shape_arithmetic_costs_nothing() -> None:
    net = Net(1, 8, 4, 4)
    shape = net.add("Shape", "shape", "start")
    batch = net.add("Gather", "g", shape, net.constant("zero", np.array([0])))
    target = net.add("Concat", "cat", batch, net.constant("rest", np.array([-1])), axis=0)
    end = net.add("Reshape", "flat", "start", target)
    assert names(net.lower("rk3566", end))[0] == "Relu:start"
    assert not any("Shape:" in name or "Gather" in name for name in names(net.lower("rk3566", end)))
