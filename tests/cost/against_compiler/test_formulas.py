"""The formulas of cycles and bytes, row by row of the printed tables, without the lowering.

Our lowering, placement and cycles against every printed table whose graph is in the zoo.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from engine.cost.cycles import Cycles, all_cycles
from tests.cost.against_compiler.facts import Build, Row
from tests.cost.against_compiler.one_layer import one_layer
from tests.cost.against_compiler.score import BuildScore, score, table, totals, worst
from tests.cost.support import npu_of

STEP = 7
"""Every seventh row: some 2,200 of all platforms, dtypes and graphs."""


def _counted(builds: dict[Build, list[Row]]) -> list[tuple[Build, Row, Cycles]]:
    rows = [(build, row) for build, its in builds.items() for row in its if row.ddr_cycles]
    found = []
    for build, row in rows[::STEP]:
        npu = npu_of(build.platform)
        layer, lowered = one_layer(build, row, npu.family)
        place = next(at for at, each in enumerate(lowered.layers) if each is layer)
        found.append((build, row, all_cycles(lowered, npu)[place]))
    return found


def test_cycles_of_printed_rows(builds: dict[Build, list[Row]]) -> None:
    rows = _counted(builds)
    assert len(rows) > 2000
    wrong = [(build, row.name) for build, row, ours in rows if ours.npu != row.npu_cycles]
    assert not wrong[:3]
    near: dict[str, Counter[bool]] = defaultdict(Counter)
    exact: Counter[bool] = Counter()
    read: Counter[bool] = Counter()
    for build, row, ours in rows:
        near[f"{build.platform} {build.quant}"][
            abs(ours.total - row.total_cycles) <= 0.01 * row.total_cycles
        ] += 1
        exact[ours.ddr == row.ddr_cycles] += 1
        read[ours.read_bytes // 1024 == row.read_kb] += 1
    for key, counts in near.items():
        assert counts[True] >= 0.98 * counts.total(), key
    assert exact[True] >= 0.97 * exact.total()
    assert read[True] >= 0.99 * read.total()


SMALL = ("chain_c1", "groupconv", "pool_h7_c512", "deconv_b", "attn_192", "gemm_b16", "matmul_dyn")
"""Graphs of operators that are read and lowered in a second."""


def _agree(scores: list[BuildScore], placed: float) -> None:
    report = f"\n{table(scores)}\n{worst(scores, 8)}"
    for each in totals(scores):
        assert each.npu >= 0.995 * each.rows, each.key + report
        assert each.total >= 0.98 * each.rows, each.key + report
        assert each.placed >= placed * each.layers, each.key + report
        assert each.nets_within == each.nets, each.key + report


def test_graphs_of_operators(zoo: Path, builds: dict[Build, list[Row]]) -> None:
    scores = list(score(builds, zoo, graphs=SMALL, platforms=["rk3566", "rk3588", "rv1103b"]))
    assert len(scores) == 5 * len(SMALL)
    _agree(scores, 0.98)


@pytest.mark.long
def test_every_graph(zoo: Path, builds: dict[Build, list[Row]]) -> None:
    """What the issue asks for, per platform and dtype: an unmatched row is a miss."""
    scores = list(score(builds, zoo))
    assert sum(each.rows for each in scores) > 15_000
    _agree(scores, 0.975)
    last = totals(scores)[-1]
    assert last.placed >= 0.99 * last.layers
    assert last.ddr >= 0.98 * last.rows
