"""The formulas of cycles and bytes, row by row of the printed tables, without the lowering."""

from __future__ import annotations

from collections import Counter, defaultdict

from engine.cost.cycles import Cycles, all_cycles
from engine.facts.npu import npu_profile
from tests.cost.against_compiler.facts import Build, Row
from tests.cost.against_compiler.one_layer import one_layer

STEP = 7
"""Every seventh row: some 2,200 of all platforms, dtypes and graphs."""


def _counted(builds: dict[Build, list[Row]]) -> list[tuple[Build, Row, Cycles]]:
    rows = [(build, row) for build, its in builds.items() for row in its if row.ddr]
    found = []
    for build, row in rows[::STEP]:
        npu = npu_profile(build.platform)
        assert npu is not None
        layer, lowered = one_layer(build, row, npu.family)
        place = next(at for at, each in enumerate(lowered.layers) if each is layer)
        found.append((build, row, all_cycles(lowered, npu)[place]))
    return found


def test_cycles_of_printed_rows(builds: dict[Build, list[Row]]) -> None:
    rows = _counted(builds)
    assert len(rows) > 2000
    wrong = [(build, row.name) for build, row, ours in rows if ours.npu != row.npu]
    assert not wrong[:3]
    near: dict[str, Counter[bool]] = defaultdict(Counter)
    exact: Counter[bool] = Counter()
    read: Counter[bool] = Counter()
    for build, row, ours in rows:
        near[f"{build.platform} {build.quant}"][
            abs(ours.total - row.total) <= 0.01 * row.total
        ] += 1
        exact[ours.ddr == row.ddr] += 1
        read[ours.read_bytes // 1024 == row.rw_kb] += 1
    for key, counts in near.items():
        assert counts[True] >= 0.98 * counts.total(), key
    assert exact[True] >= 0.97 * exact.total()
    assert read[True] >= 0.99 * read.total()
