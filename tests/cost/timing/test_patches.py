"""The patches of a vision transformer: windows that the compiler splits are not strided ones."""

from __future__ import annotations

from engine.cost.cycles import all_cycles
from engine.cost.timing import layer_times
from engine.facts.npu import npu_profile
from engine.graph.ir import Graph, infer_shapes
from tests.cost.asked.graphs import GRAPHS
from tests.cost.lowering.small_nets import lower_for


def test_a_split_patch_takes_its_cycles() -> None:
    # A stride of 32 is one of 4, and the factor 1.82 of a stride of 2 made CLIP's ViT/32 1.42 to
    # 1.70 times what the vendor published (held out by a reviewer; without it 0.92 to 1.05).
    chip = "rk3588"
    npu = npu_profile(chip)
    assert npu is not None
    lowered = lower_for(
        infer_shapes(Graph.from_proto(GRAPHS["kernel_32_by_32"]())), chip, "float16"
    )
    cycles = all_cycles(lowered, npu)
    times = layer_times(lowered, cycles, chip)
    patches = [
        (time.ms, cost.npu)
        for layer, cost, time in zip(lowered.layers, cycles, times, strict=True)
        if layer.name.endswith("conv_split")
    ]
    assert len(patches) == 4
    for milliseconds, count in patches:
        assert 0.9 * count / 1e6 < milliseconds < 1.3 * count / 1e6
