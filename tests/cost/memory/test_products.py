"""Working bytes of products, as rknn-toolkit2 2.3.2 prints them.

``products.csv``: of (batch, inner, 1, filters) and (batch, inner, 1, pixels), asked on 2026-11-26.
"""

from __future__ import annotations

import csv
from pathlib import Path

import onnx
import pytest

from engine.cost.memory.layout import settled
from engine.cost.memory.working import working_bytes
from engine.facts.npu import NpuDtype
from tests.cost.asked.maker import Maker
from tests.cost.asked.parts import attention
from tests.cost.support import Layers, laid_out, npu_of, read_model

# on RK3566: rows, heads, values a head: scores, and values weighed with them (asked on 2026-11-26)
ASKED: dict[NpuDtype, dict[tuple[int, int, int], tuple[int, int]]] = {
    "int8": {
        (16, 1, 32): (1408, 2176),
        (16, 2, 8): (2688, 2560),
        (16, 2, 24): (2688, 4224),
        (16, 2, 40): (7936, 6272),
        (16, 3, 64): (9344, 12416),
        (100, 1, 32): (18496, 25216),
        (100, 2, 24): (36064, 47936),
        (100, 2, 40): (75168, 60224),
        (100, 3, 64): (115840, 107456),
        (144, 2, 8): (60032, 59264),
        (144, 3, 64): (145280, 156800),
    },
    "float16": {
        (16, 1, 32): (2176, 2176),
        (16, 2, 8): (3200, 1152),
        (16, 2, 24): (8064, 3200),
        (24, 2, 8): (5504, 5888),
        (24, 3, 64): (18560, 40832),
        (100, 1, 32): (40896, 44032),
        (100, 2, 24): (92064, 74816),
        (100, 3, 64): (119936, 191552),
    },
}


def attending(rows: int, heads: int, depth: int) -> onnx.ModelProto:
    width = heads * depth
    m = Maker((1, width, 1, rows), opset=17)
    flat = m.add("Reshape", m.conv("x", width, width, 1), m.whole(1, width, rows))
    turned = m.add("Transpose", flat, perm=[0, 2, 1])
    return m.model(m.add("Add", turned, attention(m, turned, rows, width, heads)))


@pytest.mark.parametrize("dtype", ASKED)
def test_products_of_an_attention(dtype: NpuDtype) -> None:
    for size, printed in ASKED[dtype].items():
        lowered = settled(laid_out(read_model(attending(*size)), "rk3566", dtype))
        products = [layer for layer in lowered.layers if layer.kind == "exMatMul"]
        working = (working_bytes(each, npu_of("rk3566"), lowered) for each in products)
        assert tuple(working) == printed, size


def test_products_of_every_family() -> None:
    with Path(__file__).with_name("products.csv").open(encoding="utf-8") as file:
        asked = list(csv.DictReader(file))
    for row in asked:
        maker = Layers(row["chip"], row["dtype"])
        sizes = (int(row[key]) for key in ("batch", "inner", "filters", "pixels"))
        batch, inner, filters, pixels = sizes
        maker.feature("filters", batch, inner, 1, filters)
        maker.feature("pixels", batch, inner, 1, pixels)
        maker.feature("product", batch, filters, 1, pixels)
        maker.layer("exMatMul", "filters", "pixels", to=("product",))
        assert maker.working() == int(row["bytes"]), row
    assert len({row["chip"] for row in asked}) == 8
