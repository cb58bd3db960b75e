"""Where single operators are put: as the vendor's compiler prints it, family by family."""

from __future__ import annotations

import numpy as np
import pytest

from engine.cost.lowered import LoweredLayer, Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.placement import place
from engine.cost.lowering.rules import Context
from engine.facts.npu import NpuDtype
from tests.cost.lowering.small_nets import Net
from tests.cost.support import npu_of

SIZE = (1, 32, 24, 24)


def placed(op: str, chip: str, **attributes: object) -> LoweredLayer:
    net = Net(*SIZE)
    net.add(op, "it", "start", **attributes)
    return it(net, chip)


def it(net: Net, chip: str) -> LoweredLayer:
    """The layer of this name."""
    return next(layer for layer in net.lower(chip, "it").layers if layer.name == "it")


@pytest.mark.parametrize("chip", ["rk3566", "rk3562", "rk3588", "rk3576", "rv1103b"])
@pytest.mark.parametrize("op", ["Exp", "Floor", "Erf", "Softsign", "Round"])
def test_operators_that_no_npu_has(op: str, chip: str) -> None:
    layer = placed(op, chip)
    assert layer.target == "CPU"
    assert op in layer.reason
    assert layer.remedy


def test_padded_average_pool_names_its_padding() -> None:
    pool = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
    layer = placed("AveragePool", "rk3588", **pool)
    assert layer.target == "CPU"
    assert "[1, 1, 1, 1]" in layer.reason
    assert placed("AveragePool", "rk3576", **pool).target == "NPU"
    assert placed("AveragePool", "rk3588", count_include_pad=1, **pool).target == "NPU"


def test_large_pool_is_split_or_on_the_cpu() -> None:
    pool = {"kernel_shape": [12, 12], "strides": [12, 12]}
    layer = placed("MaxPool", "rk3588", **pool)
    assert layer.target == "CPU"
    assert "12x12" in layer.reason
    assert placed("MaxPool", "rv1103b", **pool).target == "NPU"
    assert placed("MaxPool", "rk3588", kernel_shape=[3, 3], dilations=[2, 2]).target == "none"


@pytest.mark.parametrize(
    ("mode", "scale", "chip", "target"),
    [
        ("half_pixel", 2, "rk3588", "NPU"),
        ("align_corners", 2, "rk3588", "CPU"),
        ("align_corners", 2, "rk3562", "NPU"),
        ("half_pixel", 1.5, "rk3588", "CPU"),
        ("half_pixel", 0.5, "rk3588", "NPU"),
    ],
)
def test_linear_resize(mode: str, scale: float, chip: str, target: str) -> None:
    net = Net(*SIZE)
    scales = net.constant("scales", np.array([1, 1, scale, scale], np.float32))
    net.add("Resize", "it", "start", "", scales, mode="linear", coordinate_transformation_mode=mode)
    layer = it(net, chip)
    assert layer.target == target
    assert bool(layer.reason) == (target == "CPU")


@pytest.mark.parametrize(
    ("before", "after", "target"),
    [
        # as rknn-toolkit2 2.3.2 places them for rk3566, rk3588, rk3576 and rv1103b
        ((1, 1), (65, 65), "NPU"),  # the pooled branch of DeepLab
        ((2, 2), (20, 20), "NPU"),
        ((9, 9), (17, 65), "NPU"),
        ((41, 41), (21, 21), "NPU"),
        ((65, 65), (513, 513), "NPU"),
        ((3, 3), (20, 21), "CPU"),
        ((16, 16), (128, 128), "CPU"),
        ((1, 4), (20, 20), "CPU"),
    ],
)
def test_corners_that_stay_are_a_whole_number_of_steps_apart(
    before: tuple[int, int], after: tuple[int, int], target: str
) -> None:
    net = Net(1, 16, *before)
    sizes = net.constant("sizes", np.array([1, 16, *after], np.int64))
    corners = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    net.add("Resize", "it", "start", "", "", sizes, **corners)
    assert it(net, "rk3588").target == target


@pytest.mark.parametrize(
    ("chip", "row", "target"),
    [("rk3588", 8192, "NPU"), ("rk3588", 8193, "CPU"), ("rk3576", 8193, "NPU")],
)
def test_the_longest_row_of_a_softmax(chip: str, row: int, target: str) -> None:
    net = Net(1, 16, 1, row)
    net.add("Softmax", "it", "start", axis=1)
    layers = net.lower(chip, "it").layers
    assert [each.target for each in layers if each.kind == "exSoftmax13"] == [target]


def test_unknown_operator_is_refused_and_named() -> None:
    layer = placed("LpPool", "rk3588", kernel_shape=[2, 2])
    assert layer.target == "none"
    assert "LpPool" in layer.reason
    assert layer.remedy


def test_op_target_is_honoured() -> None:
    node = Node("Sigmoid", "it", "Sigmoid", ["x"], ["y"], sources=("/net/it",))
    npu = npu_of("rk3588")
    work = LoweringGraph([node], {}, ["x"], ["y"])
    place(work, Context(npu, "int8", {}, {"/net/it": "cpu"}))
    assert node.target == "CPU"
    assert "op_target" in node.reason


@pytest.mark.parametrize(
    ("chip", "dtype", "side", "targets"),
    [
        ("rk3588", "int8", 56, ("NPU", "CPU")),
        ("rk3588", "int8", 112, ("CPU", "CPU")),
        ("rk3588", "float16", 56, ("CPU", "CPU")),
        ("rk3566", "int8", 112, ("CPU", "NPU")),
        ("rk3566", "float16", 112, ("CPU", "CPU")),
        ("rv1103b", "int8", 56, ("CPU", "CPU")),
    ],
)
def test_inputs_and_outputs(
    chip: str, dtype: NpuDtype, side: int, targets: tuple[str, str]
) -> None:
    net = Net(1, 3, side, side)
    weight = net.constant("w", np.ones((16, 3, 1, 1), np.float32))
    net.nodes.clear()
    net.add("Conv", "it", "x", weight)
    layers = net.lower(chip, "it", dtype=dtype).layers
    assert (layers[0].target, layers[-1].target) == targets
