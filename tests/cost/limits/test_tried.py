"""A remedy is offered where the graph shows that it helps."""

from __future__ import annotations

import numpy as np
import pytest

from engine.cost.limits import with_reasons
from engine.cost.limits.remedies import END_BEFORE, NOTHING_HELPS
from engine.cost.lowered import LoweredLayer
from tests.cost.lowering.small_nets import Net


def attention() -> tuple[Net, str]:
    """Two heads of 32 over 64 pixels, and a convolution behind them."""
    net = Net(1, 64, 8, 8)
    rows = net.constant("rows", np.array([1, 2, 32, 64], np.int64))
    query, key, value = (
        net.add("Reshape", f"{name}_heads", net.conv(name, "start", 64, 64, 1, 1), rows)
        for name in ("query", "key", "value")
    )
    turned = net.add("Transpose", "turned", query, perm=[0, 1, 3, 2])
    scores = net.add("MatMul", "scores", turned, key)
    shares = net.add("Softmax", "shares", scores, axis=-1)
    back = net.add("Transpose", "back", shares, perm=[0, 1, 3, 2])
    mixed = net.add("MatMul", "mixed", value, back)
    plane = net.constant("plane", np.array([1, 64, 8, 8], np.int64))
    return net, net.conv("last", net.add("Reshape", "map", mixed, plane), 64, 64, 1, 1)


def on_cpu(net: Net, output: str, chip: str) -> list[LoweredLayer]:
    lowered = with_reasons(net.lower(chip, output), chip)
    return [
        each
        for each in lowered.layers
        if each.target == "CPU" and not each.kind.endswith("Operator")
    ]


@pytest.mark.parametrize("chip", ["rk3566", "rk3588"])
def test_an_attention_is_not_told_to_end(chip: str) -> None:
    found = on_cpu(*attention(), chip)
    assert bool(found) == (chip == "rk3566")
    for layer in found:
        assert layer.remedy == NOTHING_HELPS, layer


def test_64_channels_are_not_told_to_be_a_multiple_of_8() -> None:
    for layer in on_cpu(*attention(), "rk3566"):
        assert "multiple" not in layer.remedy


def test_the_last_softmax_can_be_left_to_the_program() -> None:
    net = Net(1, 64, 8, 8)
    (softmax,) = (
        each
        for each in on_cpu(net, net.add("Softmax", "end", "start", axis=1), "rk3566")
        if "oftmax" in each.kind
    )
    assert softmax.remedy == END_BEFORE


@pytest.mark.parametrize(("chip", "offered"), [("rk3588", True), ("rv1106", False)])
def test_float16_is_offered_where_the_chip_has_it(chip: str, offered: bool) -> None:
    net = Net(1, 16, 8, 8)
    (layer,) = on_cpu(net, net.add("Sqrt", "root", "start"), chip)
    assert ("float16" in layer.remedy) == offered
