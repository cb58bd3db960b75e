"""Our lowering, placement and cycles against every printed table whose graph is in the zoo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cost.against_compiler.facts import Build, Row
from tests.cost.against_compiler.score import BuildScore, score, table, totals, worst

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
