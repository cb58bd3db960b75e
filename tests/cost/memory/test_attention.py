"""Working bytes of attention, as rknn-toolkit2 2.3.2 prints them (``attention.csv``).

Asked on 2026-11-26 of heads of a depth with queries and keys: (heads, depth, 1, queries).
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from engine.chips.npu import NpuDtype, npu_profile
from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor
from engine.cost.memory.working import working_bytes

with Path(__file__).with_name("attention.csv").open(encoding="utf-8") as file:
    ASKED = list(csv.DictReader(file))
HALF_FILLED = ("40", "48", "64")
"""Depths whose values in float16 over 36 or 40 keys are larger than their scores: not exact."""


def worked(row: dict[str, str]) -> int:
    npu = npu_profile(row["chip"])
    assert npu is not None
    dtype: NpuDtype = "int8" if row["dtype"] == "int8" else "float16"
    heads, depth, queries, keys = (int(row[key]) for key in ("heads", "depth", "queries", "keys"))
    tensors = {
        name: LoweredTensor(name, (heads, depth, 1, count), dtype)
        for name, count in (("query", queries), ("key", keys), ("value", keys), ("mixed", queries))
    }
    inputs = ("query", "key", "value")
    layer = LoweredLayer(
        "exSDPAttention", "exSDPAttention", "attention", inputs, (), ("mixed",), dtype
    )
    return working_bytes(layer, npu, Lowered(npu.family, dtype, (layer,), tensors, inputs, ()))


@pytest.mark.parametrize("chip", sorted({row["chip"] for row in ASKED}))
def test_attention_of_more_than_32_rows(chip: str) -> None:
    rows = [row for row in ASKED if row["chip"] == chip]
    found = Counter(worked(row) == int(row["bytes"]) for row in rows)
    for row in rows:
        if row["dtype"] == "int8" or row["keys"] not in ("36", "40"):
            assert worked(row) == int(row["bytes"]), row
        elif row["depth"] in HALF_FILLED:
            assert worked(row) == pytest.approx(int(row["bytes"]), rel=0.16), row
    assert found[True] >= 0.94 * len(rows)
