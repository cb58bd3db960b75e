"""Random graphs, built by the vendor's toolkit here and now: our tables beside its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.cost.cycles import all_cycles
from engine.cost.lowering import lower, read_graph
from engine.cost.printed import parse_printed
from engine.facts.npu import NpuDtype, npu_profile
from engine.frontends.load import find_source, load_source
from tests.vendor.models import save_model
from tests.vendor.toolkit import Toolkit

pytestmark = [pytest.mark.vendor, pytest.mark.long]


class RandomNet:
    """A graph of convolutions with odd numbers of channels, and what stands between them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.channels: dict[str, int] = {}

    def make(self, path: Path) -> int:
        """Write it; returns the side of its picture."""
        side = int(self.random.choice([32, 40, 52]))
        last = self.convolve("x", 3, stride=2)
        kept = []
        for _ in range(9):
            last = self.grow(last)
            if self.random.random() < 0.3:
                kept.append(last)
        outputs = dict.fromkeys([*kept, last])
        save_model(path, self.nodes, {"x": [1, 3, side, side]}, outputs, self.weights, 13)
        return side

    def grow(self, last: str) -> str:
        """One more part behind a tensor."""
        channels = self.channels[last]
        kind = self.random.choice(["conv", "conv", "depthwise", "residual", "concat", "pool"])
        if kind == "conv":
            return self.activate(self.convolve(last, channels))
        if kind == "depthwise":
            return self.activate(self.convolve(last, channels, group=channels))
        if kind == "pool":
            pooled = self.node("MaxPool", [last], kernel_shape=[3, 3], pads=[1] * 4)
            self.channels[pooled] = channels
            return pooled
        other = self.activate(self.convolve(last, channels, out=channels))
        if kind == "residual":
            joined = self.node("Add", [other, last])
            self.channels[joined] = channels
        else:
            joined = self.node("Concat", [other, last], axis=1)
            self.channels[joined] = 2 * channels
        return joined

    def convolve(
        self, data: str, channels: int, *, out: int = 0, stride: int = 1, group: int = 1
    ) -> str:
        """A convolution with a bias."""
        out = out or (channels if group > 1 else int(self.random.integers(6, 72)))
        side = int(self.random.choice([1, 3, 5])) if group == 1 else 3
        shape = (out, channels // group, side, side)
        weight, bias = f"w{len(self.weights)}", f"b{len(self.weights)}"
        self.weights[weight] = (self.random.standard_normal(shape) * 0.1).astype(np.float32)
        self.weights[bias] = np.zeros(out, np.float32)
        made = self.node(
            "Conv",
            [data, weight, bias],
            kernel_shape=[side, side],
            pads=[side // 2] * 4,
            strides=[stride] * 2,
            group=group,
        )
        self.channels[made] = out
        return made

    def activate(self, data: str) -> str:
        """Mostly something that a convolution does by the way."""
        op = self.random.choice(["Relu", "Sigmoid", "LeakyRelu", ""])
        if not op:
            return data
        made = self.node(op, [data])
        self.channels[made] = self.channels[data]
        return made

    def node(self, op: str, inputs: list[str], **attributes: object) -> str:
        """Add it; returns its output."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_o"], name=name, **attributes))
        return f"{name}_o"


@pytest.mark.parametrize(
    ("seed", "chip", "quant"),
    [(1, "rk3588", "i8"), (2, "rk3566", "i8"), (3, "rk3576", "i8"), (4, "rk3562", "fp")],
)
def test_a_random_graph(seed: int, chip: str, quant: str, toolkit: Toolkit, tmp_path: Path) -> None:
    model = tmp_path / "random.onnx"
    side = RandomNet(seed).make(model)
    noise = np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)
    samples = noise if quant == "i8" else None
    log = toolkit.build("random", model, {"target_platform": chip}, samples, verbose=True)
    toolkit.release("random")
    theirs = parse_printed(log).layers
    assert theirs, log[-2000:]
    npu = npu_profile(chip)
    assert npu is not None
    dtype: NpuDtype = "int8" if quant == "i8" else "float16"
    lowered = lower(read_graph(load_source(find_source(model)).graph), npu, dtype)
    ours = {
        layer.full_name: (layer, cost)
        for layer, cost in zip(lowered.layers, all_cycles(lowered, npu), strict=True)
    }
    assert set(ours) == {row.name for row in theirs}
    for row in theirs:
        layer, cost = ours[row.name]
        assert (row.name, layer.target) == (row.name, row.target)
        assert (row.name, cost.npu) == (row.name, row.npu_cycles)
        if row.total_cycles:
            assert abs(cost.total - row.total_cycles) <= 0.01 * row.total_cycles, row
