"""Parts of a Split, as the table of feature tensors of rknn-toolkit2 2.3.2 has them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from engine.cost.lowering import lower, read_graph
from engine.cost.memory import plan_memory
from engine.facts.npu import NpuDtype, npu_profile
from engine.frontends.find import find_source
from engine.frontends.load import load_source
from tests.cost.asked.maker import Maker

PIXELS = 16 * 16


def split(*parts: int) -> onnx.ModelProto:
    m = Maker((1, 3, 32, 32), opset=17)
    whole = m.conv("x", 3, sum(parts), 3, 2, then="Relu")
    cut = m.split(whole, m.whole(*parts), count=len(parts), axis=1)
    ends = [m.conv(name, size, 16, 1) for name, size in zip(cut, parts, strict=True)]
    return m.model(*ends)


# channels that each part has in memory (asked on 2026-11-26)
ASKED = [
    ((4, 30, 6), "rk3588", "int8", (16, 64, 32)),
    ((4, 30, 6), "rk3588", "float16", (8, 48, 16)),
    ((4, 30, 6), "rk3566", "int8", (8, 48, 16)),
    ((4, 30, 6), "rv1106", "int8", (16, 48, 16)),
    ((5, 9, 18, 32), "rk3588", "int8", (16, 32, 32, 32)),
    ((5, 9, 18, 32), "rk3566", "int8", (8, 16, 32, 32)),
    ((20, 20), "rk3566", "int8", (24, 32)),
    ((24, 8, 8), "rk3588", "int8", (32, 32, 16)),
    ((16, 8, 16), "rk3588", "int8", (16, 16, 32)),
]


@pytest.mark.parametrize(("parts", "chip", "dtype", "channels"), ASKED)
def test_a_part_that_begins_within_a_group(
    parts: tuple[int, ...], chip: str, dtype: NpuDtype, channels: tuple[int, ...], tmp_path: Path
) -> None:
    onnx.save(split(*parts), path := tmp_path / "split.onnx")
    npu = npu_profile(chip)
    assert npu is not None
    plan = plan_memory(lower(read_graph(load_source(find_source(path)).graph), npu, dtype), npu)
    sizes = {span.tensor: span.end - span.start for span in plan.spans if "split" in span.tensor}
    size = 1 if dtype == "int8" else 2
    assert tuple(sizes.values()) == tuple(each * PIXELS * size for each in channels)
