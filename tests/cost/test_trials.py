"""Changes of an operator are offered where they were tried on the graph and help."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper

from engine.cost.estimate import CostSettings, estimate_chip
from engine.cost.limits.remedies import END_BEFORE, IN_FLOAT16, NOTHING_HELPS
from engine.graph.execute import Session
from engine.wire.cost import LayerCost
from tests.cost.asked.maker import Maker
from tests.cost.lowering.small_nets import Net
from tests.cost.support import inferred
from tests.graph.models import model

Make = Callable[[Net], str]


def placed(name: str, chip: str, *, behind: bool = True) -> list[LayerCost]:
    """Layers on the CPU with a reason, of :data:`MAKES`; ``behind``: a convolution reads it."""
    net = Net(1, 32, 48, 48)
    made = MAKES[name](net)
    output = net.conv("behind", made, 16, 32, 1, 1) if behind else made
    found = estimate_chip(net.graph(output, opset=17), chip, CostSettings())
    return [each for each in found.layers if each.target == "CPU" and each.reason]


def resized(net: Net, factor: float, mode: str) -> str:
    scales = net.constant("scales", np.array([1, 1, factor, factor], np.float32))
    how = {"mode": "linear", "coordinate_transformation_mode": mode}
    return net.add("Resize", "it", "start", "", scales, **how)


def pool(op: str, size: int, **window: object) -> Make:
    return lambda net: net.add(op, "it", "start", kernel_shape=[size, size], **window)


MAKES: dict[str, Make] = {
    "padded average": pool("AveragePool", 3, pads=[1] * 4),
    "large pool": pool("MaxPool", 12, strides=[12, 12]),
    "overlapping pool": pool("MaxPool", 9, strides=[2, 2], pads=[1] * 4),
    "corners": lambda net: resized(net, 2, "align_corners"),
    "uneven": lambda net: resized(net, 1.5, "half_pixel"),
    "maxima": lambda net: net.add("ReduceMax", "it", "start", axes=[2, 3]),
    # as many channels as before, so that the convolution behind can read it
    "channel maxima": lambda net: net.add(
        "Mul", "spread", "start", net.add("ReduceMax", "it", "start", axes=[1])
    ),
    "root": lambda net: net.add("Sqrt", "it", "start"),
}


@pytest.mark.parametrize(
    ("name", "chip", "part"),
    [
        ("padded average", "rk3588", "count_include_pad=1"),
        ("large pool", "rk3588", "6x6 and 2x2"),
        ("overlapping pool", "rk3566", "2x2 and 8x8"),
        ("corners", "rk3588", "half_pixel"),
        ("uneven", "rk3566", "nearest"),
        ("maxima", "rv1106", "GlobalMaxPool"),
        ("root", "rk3588", "float16"),
    ],
)
def test_what_was_tried_and_helps_is_offered(name: str, chip: str, part: str) -> None:
    (layer,) = placed(name, chip)
    assert part in layer.remedy


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("padded average", "rk3566"),  # on the NPU it adds window by window, slower than the CPU
        ("channel maxima", "rk3588"),  # no pool is over channels
        ("root", "rv1106"),  # it has no float16
    ],
)
def test_what_does_not_help_is_not_offered(name: str, chip: str) -> None:
    found = next(each for each in placed(name, chip) if each.name.endswith(":it"))
    assert found.remedy == NOTHING_HELPS
    last = next(each for each in placed(name, chip, behind=False) if each.name.endswith(":it"))
    assert last.remedy == END_BEFORE


def test_float16_is_no_remedy_where_it_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "engine.cost.estimate._times", lambda found, **_: (1.0,) * len(found.layers)
    )
    (layer,) = placed("root", "rk3588")  # a conversion and a root: two layers in place of one
    assert layer.remedy != IN_FLOAT16
    assert layer.remedy == NOTHING_HELPS


@pytest.mark.parametrize(
    ("one", "two"),
    [((12, 12, 0), ((6, 6, 0), (2, 2, 0))), ((9, 2, 1), ((2, 1, 1), (8, 2, 0)))],
)
def test_two_pools_find_the_same_maxima(
    one: tuple[int, int, int], two: tuple[tuple[int, int, int], ...]
) -> None:
    data = np.random.default_rng(3).standard_normal((1, 3, 48, 48)).astype(np.float32)

    def pooled(*pools: tuple[int, int, int]) -> np.ndarray:
        nodes, name = [], "x"
        for at, (size, step, pad) in enumerate(pools):
            how = {"kernel_shape": [size] * 2, "strides": [step] * 2, "pads": [pad] * 4}
            nodes.append(helper.make_node("MaxPool", [name], [f"y{at}"], **how))
            name = f"y{at}"
        return Session(model(nodes, {"x": data.shape}, [name])).run({"x": data})[name]

    np.testing.assert_array_equal(pooled(one), pooled(*two))


@pytest.mark.parametrize(("side", "offered"), [(32, False), (64, True)])
def test_float16_is_timed_with_what_the_file_has_before_the_layer(side: int, offered: bool) -> None:
    net = Maker((1, 3, side, side))
    root = net.add("Sqrt", net.conv("x", 3, 16, then="Relu"), name="it")
    graph = inferred(net.model(net.conv(root, 16, 8)))
    found = estimate_chip(graph, "rk3588", CostSettings())
    (layer,) = (each for each in found.layers if each.op == "Sqrt")
    assert layer.target == "CPU"
    assert ("float16" in layer.remedy) == offered
