"""Forms that exporters write: the rows and cycles that the vendor's compiler prints for them."""

from __future__ import annotations

import numpy as np
import pytest

from engine.cost.cycles import all_cycles
from engine.cost.lowered import Lowered
from tests.cost.lowering.small_nets import Net, layer_of, names, shapes
from tests.cost.support import npu_of


def cycles(found: Lowered, chip: str, name: str) -> tuple[int, int]:
    """Of the memory and of the array, of the layer of that name."""
    cost = all_cycles(found, npu_of(chip))[found.layers.index(layer_of(found, name))]
    return cost.ddr, cost.npu


def dilated(chip: str, channels: int, gap: int, size: int = 33) -> Lowered:
    net = Net(1, channels, size, size)
    net.conv("c", "start", 32, channels, 3, 3, dilations=[gap, gap], pads=[gap] * 4)
    return net.lower(chip, "c")


def test_long_dilated_filters_have_their_rows_picked() -> None:
    found = dilated("rk3588", 96, 12)
    assert shapes(found, "Pad:start_pad") == [(1, 96, 33, 33), (1, 96, 34, 33)]
    assert shapes(found, "Gather:start_pad_gather") == [(1, 96, 34, 33), (1, 96, 99, 33)]
    assert cycles(found, "rk3588", "Conv:c") == (15913, 29808)


@pytest.mark.parametrize(
    ("chip", "gap", "rows"),
    [
        ("rk3588", 10, ["Split:start_split", "Conv:c_tile1", "Conv:c_tile0_ConvAdd"]),
        ("rk3588", 16, ["Pad:start_pad", "Conv:c"]),
        ("rk3566", 10, ["Conv:c"]),
        ("rk3566", 24, ["Pad:start_pad", "Conv:c"]),
        ("rk3576", 12, ["Conv:c"]),
    ],
)
def test_shorter_ones_are_cut_by_channels_or_padded(chip: str, gap: int, rows: list[str]) -> None:
    found = names(dilated(chip, 32, gap))
    assert [
        each for each in found if each.split(":")[0] in ("Conv", "Gather", "Pad", "Split")
    ] == rows


def test_spread_rows_that_do_not_fit_run_in_float16_parts() -> None:
    net = Net(1, 256, 33, 33)
    net.conv("c", "start", 64, 256, 3, 3, dilations=[18, 18], pads=[18] * 4)
    found = net.lower("rk3588", "c")
    assert cycles(found, "rk3588", "Conv:c_branch1") == (49214, 119232)
    assert cycles(found, "rk3588", "Conv:c_branch2_ConvAdd") == (40667, 79488)


def test_the_mean_of_each_row_is_a_matrix_of_positions() -> None:
    net = Net(1, 128, 25)
    net.add("ReduceMean", "mean", "start", net.constant("axes", np.array([-1])), keepdims=0)
    found = net.lower("rk3588", "mean")
    matrix = next(each for each in found.layers if each.kind == "exMatMul")
    assert shapes(found, matrix.full_name) == [(1, 25, 1, 128), (1, 128, 1, 1)]
    assert cycles(found, "rk3588", matrix.full_name)[1] == 256


def test_unbound_heads_of_a_matrix_are_put_in_order_beforehand() -> None:
    net = Net(1, 197, 192)
    weight = net.constant("w", np.ones((192, 576), np.float32))
    data = net.add("MatMul", "q/MatMul", "start", weight)
    shape = net.constant("shape", np.array([1, 197, 3, 3, 64]))
    data = net.add(
        "Transpose", "turn", net.add("Reshape", "view", data, shape), perm=[2, 0, 3, 1, 4]
    )
    parts = ["q0", "k0", "v0"]
    net.add("Split", "split", data, outputs=parts, axis=0, num_outputs=3)
    axis = net.constant("axis", np.array([0]))
    query, key, value = (net.add("Squeeze", each[0], each, axis) for each in parts)
    key = net.add("Transpose", "kt", key, perm=[0, 1, 3, 2])
    scores = net.add("Softmax", "soft", net.add("MatMul", "scores", query, key), axis=-1)
    net.add("MatMul", "out", scores, value)
    found = net.lower("rk3588", "out", dtype="float16")
    assert shapes(found, "Conv:q/MatMul#3") == [(1, 192, 1, 197), (1, 576, 1, 197)]
    assert shapes(found, "Split:turn-rs_split") == [(3, 192, 1, 197), *[(3, 64, 1, 197)] * 3]
    assert "exSDPAttention:out_2sdpa" in names(found)


def test_one_input_channel_takes_one_step_whatever_the_outputs() -> None:
    net = Net(1, 1, 32, 32)
    net.conv("c", "x", 256, 1, 3, 3)
    assert cycles(net.lower("rk3588", "c"), "rk3588", "Conv:c") == (12771, 9216)


def test_pixels_are_shuffled_by_three_on_the_cpu() -> None:
    net = Net(1, 27, 16, 16)
    net.add("DepthToSpace", "d", "start", blocksize=3)
    layer = layer_of(net.lower("rk3588", "d"), "DepthToSpace:d")
    assert layer.target == "CPU"
    assert "powers of two" in layer.reason


def test_filters_that_are_computed_are_read_as_a_feature() -> None:
    net = Net(1, 16, 9, 9)
    net.shapes["w"] = (16, 16, 3, 3)
    filters = net.add("Relu", "filters", "w")
    net.add("Conv", "c", "start", filters, kernel_shape=[3, 3])
    found = net.lower("rk3588", "c", dtype="float16")
    assert cycles(found, "rk3588", "Conv:c") == (371, 576)


def test_what_depends_on_constants_alone_is_one() -> None:
    net = Net(1, 4, 8)
    positions = net.constant("p", np.ones((1, 4, 8), np.float32))
    weight = net.constant("w", np.ones((8, 8), np.float32))
    net.add("MatMul", "fixed", positions, weight)
    net.add("Add", "sum", "start", "fixed")
    assert not any(
        each.endswith("fixed") or "fixed#" in each for each in names(net.lower("rk3588", "sum"))
    )


def test_a_normalization_of_rows_goes_into_the_matrix_before_it() -> None:
    net = Net(1, 196, 128)
    weight = net.constant("w", np.ones((128, 256), np.float32))
    rows = net.add("Flatten", "flat", net.add("MatMul", "fc", "start", weight), axis=2)
    given = [net.constant(f"n{at}", np.full(256, 0.5, np.float32)) for at in range(4)]
    rows = net.add("BatchNormalization", "bn", rows, *given)
    net.add("Reshape", "back", rows, net.constant("shape", np.array([1, 196, 256])))
    found = net.lower("rk3588", "back", dtype="float16")
    assert not any(each.startswith(("BatchNormalization", "Add")) for each in names(found))
    assert len(layer_of(found, "Conv:fc#2").consts) == 2, "it has a bias now"
