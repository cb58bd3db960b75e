"""Groups, long filters, large kernels and strides; every expected name was printed by 2.3.2."""

from __future__ import annotations

import numpy as np
import pytest

from engine.cost.lowered import Lowered
from tests.cost.lowering.small_nets import Net, layer_of, names


def weight(lowered: Lowered, name: str) -> tuple[int, ...]:
    """Shape of a convolution's filters."""
    return lowered.shape(layer_of(lowered, name).consts[0])


@pytest.mark.parametrize(
    ("chip", "channels", "dtype", "whole"),
    [
        ("rk3588", 24, "int8", False),
        ("rk3588", 48, "int8", False),
        ("rk3588", 32, "int8", True),
        ("rk3588", 48, "float16", True),
        ("rk3566", 48, "int8", True),
        ("rk3566", 24, "float16", True),
        ("rv1103b", 48, "int8", False),
        ("rk2118", 24, "float16", True),
    ],
)
def test_groups_are_written_out_where_they_fill_the_native_layout(
    chip: str, channels: int, dtype: str, whole: bool
) -> None:
    net = Net(1, channels, 8, 8)
    end = net.conv("g", "start", channels, channels // 2, 3, 3, group=2)
    lowered = net.lower(chip, end, dtype=dtype)
    if whole:
        assert names(lowered)[1:] == ["Split:g", "Conv:g_group_0", "Conv:g_group_1", "Concat:g"]
        assert weight(lowered, "Conv:g_group_1") == (channels // 2, channels // 2, 3, 3)
    else:
        assert names(lowered)[1:] == ["Conv:g#1"]
        assert weight(lowered, "Conv:g#1") == (channels, channels, 3, 3)


@pytest.mark.parametrize(
    ("chip", "channels", "kernel", "tiles"),
    [
        ("rk3562", 7168, 1, [7168]),
        ("rk3562", 7232, 1, [3616, 3616]),
        ("rk3562", 7216, 1, [7168, 48]),
        ("rv1103b", 7216, 1, [3608, 3608]),
        ("rk3562", 512, 7, [128, 128, 128, 128]),
        ("rk3588", 512, 7, [224, 224, 64]),
        ("rk3588", 512, 5, [256, 256]),
        ("rk3588", 11264, 1, [11264]),
        ("rk3588", 11265, 1, [11264, 1]),
        ("rk3566", 512, 5, [512]),
    ],
)
def test_long_filters_are_cut_over_their_channels(
    chip: str, channels: int, kernel: int, tiles: list[int]
) -> None:
    net = Net(1, channels, kernel, kernel)
    end = net.conv("t", "start", 16, channels, kernel, kernel, pads=[0, 0, 0, 0])
    lowered = net.lower(chip, end)
    found = [each for each in lowered.layers if each.kind == "Conv"]
    assert sorted(lowered.shape(each.consts[0])[1] for each in found) == sorted(tiles)
    if len(tiles) > 1:
        assert {"Conv:t_tile0_ConvAdd", "Conv:t_tile1", "Split:start_split"} <= set(names(lowered))


def test_rk3576_halves_filters_that_fill_its_buffer_in_float16() -> None:
    net = Net(1, 600, 24, 24)
    end = net.add("Relu", "r", net.conv("c", "start", 70, 600, 3, 3))
    lowered = net.lower("rk3576", end)
    assert weight(lowered, "Conv:c_branch0_ConvAdd") == (70, 304, 3, 3)
    assert weight(lowered, "Conv:c_branch1") == (70, 296, 3, 3)
    assert layer_of(lowered, "Conv:c_branch1").dtype == "float16"
    assert "Relu:r" in names(lowered)
    assert names(net.lower("rv1126b", end))[1:] == ["Conv:c"]


@pytest.mark.parametrize(("channels", "halved"), [(8192, False), (8193, True)])
def test_rk3566_takes_8192_input_channels(channels: int, halved: bool) -> None:
    net = Net(1, channels, 4, 4)
    lowered = net.lower("rk3566", net.conv("c", "start", 16, channels, 1, 1))
    assert any("_branch0" in name for name in names(lowered)) == halved


def test_long_strides_and_kernels_go_in_steps() -> None:
    net = Net(1, 24, 32, 32)
    step = net.conv("s", "start", 16, 24, 8, 8, strides=[8, 8], pads=[0, 0, 0, 0])
    odd = net.conv("o", "start", 16, 24, 3, 3, strides=[9, 9])
    wide = net.conv("w", "start", 16, 24, 32, 32, pads=[0, 0, 0, 0])
    lowered = net.lower("rk3588", step, odd, wide)
    first = layer_of(lowered, "Conv:s_split")
    assert lowered.shape(first.outputs[0]) == (1, 16, 7, 7)
    assert weight(lowered, "Conv:s_select") == (1, 16, 1, 1)
    assert "Conv:o" in names(lowered)
    assert {
        "Split:start_slice#1_2sp",
        "Split:start_slice_slice#1_2sp",
        "Conv:start_slice_slice_conv_ConvAdd",
        "Add:start_slice_conv_add",
    } <= set(names(lowered))


def test_channels_are_moved_and_summed_by_convolutions() -> None:
    net = Net(1, 24, 8, 8)
    shapes = [
        net.constant("five", np.array([1, 2, 12, 8, 8])),
        net.constant("four", np.array([1, 24, 8, 8])),
    ]
    apart = net.add("Reshape", "r1", "start", shapes[0])
    turned = net.add("Transpose", "t", apart, perm=[0, 2, 1, 3, 4])
    shuffled = net.add("Reshape", "r2", turned, shapes[1])
    deep = net.add("DepthToSpace", "d", "start", blocksize=2)
    total = net.add("ReduceSum", "s", "start", net.constant("axis", np.array([1])))
    lowered = net.lower("rk3588", shuffled, deep, total)
    assert weight(lowered, "Conv:r2-gather_2conv") == (24, 24, 1, 1)
    assert weight(lowered, "ConvTranspose:d_2deconv") == (24, 6, 2, 2)
    assert weight(lowered, "Conv:s_2conv") == (1, 24, 1, 1)


def test_a_sum_with_its_own_input_is_in_the_filters() -> None:
    net = Net(1, 16, 8, 8)
    end = net.add("Add", "a", net.conv("c", "start", 16, 16, 3, 3), "start")
    lowered = net.lower("rk3588", end)
    assert names(lowered)[1:] == ["Conv:c"]
    assert layer_of(lowered, "Conv:c").op == "Conv"


@pytest.mark.parametrize(
    ("chip", "dtype", "op"),
    [
        ("rk3588", "int8", "ConvReluAdd"),
        ("rv1103b", "int8", "ConvRelu"),
        ("rk2118", "float16", "ConvRelu"),
    ],
)
def test_a_sum_behind_an_activation(chip: str, dtype: str, op: str) -> None:
    net = Net(1, 16, 8, 8)
    active = net.add("Relu", "r", net.conv("c", "start", 16, 16, 3, 3))
    end = net.add("Add", "a", active, net.add("Sigmoid", "s", "start"))
    assert layer_of(net.lower(chip, end, dtype=dtype), "Conv:c").op == op


def test_an_input_of_the_graph_is_not_added_by_a_convolution() -> None:
    net = Net(1, 16, 8, 8)
    end = net.add("Add", "a", net.conv("c", "start", 16, 16, 3, 3), "x")
    assert names(net.lower("rk3588", end))[1:] == ["Conv:c", "Add:a"]


def test_constants_behind_a_convolution_are_its_own() -> None:
    net = Net(1, 16, 8, 8)
    scale = net.constant("scale", np.full((1, 16, 1, 1), 2, np.float32))
    data = net.add("Mul", "m", net.conv("c", "start", 16, 16, 3, 3), scale)
    data = net.add("Add", "a", data, net.constant("shift", np.array(0.5, np.float32)))
    data = net.add("Div", "d", data, net.constant("by", np.array(3, np.float32)))
    assert names(net.lower("rk3566", data))[1:] == ["Conv:c"]


def test_hard_swish_and_mish_written_out() -> None:
    net = Net(1, 16, 8, 8)
    first = net.conv("c", "start", 16, 16, 1, 1)
    low, high = (net.constant(f"n{each}", np.array(each, np.float32)) for each in (0, 6))
    shifted = net.add("Add", "s", first, net.constant("three", np.array(3, np.float32)))
    product = net.add("Mul", "p", first, net.add("Clip", "k", shifted, low, high))
    second = net.conv("e", net.add("Div", "q", product, high), 16, 16, 1, 1)
    curve = net.add("Tanh", "t", net.add("Softplus", "sp", second))
    end = net.add("Mul", "m", second, curve)
    assert [each.op for each in net.lower("rk3588", end).layers[2:-1]] == [
        "ConvHardSwish",
        "ConvExMish",
    ]
    assert "HardSwish:s_2hs" in names(net.lower("rv1103b", end))
    assert "exMish:sp_2exmish" in names(net.lower("rv1103b", end))


@pytest.mark.parametrize(("size", "expected"), [(5, (10, 40, 5, 5)), (6, (10, 1440, 1, 1))])
def test_a_small_map_is_read_by_a_fully_connected_layer_as_it_is(
    size: int, expected: tuple[int, ...]
) -> None:
    net = Net(1, 40, size, size)
    flat = net.add("Flatten", "f", "start")
    filters = net.constant("w", np.zeros((10, 40 * size * size), np.float32))
    shift = net.constant("b", np.zeros(10, np.float32))
    lowered = net.lower("rk3588", net.add("Gemm", "g", flat, filters, shift, transB=1))
    assert weight(lowered, "Conv:g#2") == expected
