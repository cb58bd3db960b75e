"""Workspace Run from end to end: a real adb server, an emulated board, a worker, and keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.screens.result.workspace import Run
from tests.devices.conftest import Boards, adb_server, board, emulated, libraries
from tests.tui.conftest import screen_text, until
from tests.tui.flow import visited, write_recipe

__all__ = ["adb_server", "board", "emulated", "libraries"]

BENT = "/stage2/stage2.1/depthwise/depthwise.0/Conv"
pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.long,
    pytest.mark.adb,
    pytest.mark.cc,
]


async def test_the_four_views_of_a_board(
    board: Boards,
    libraries: Callable[..., Path],
    demo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    made = board("rk3588")
    made.image.install_runtime(libraries())
    made.simulate()
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=(120, 40)) as pilot:
        workspace = await visited(pilot, Run)
        results = workspace.results
        await pilot.press("n")
        await until(pilot, lambda: workspace.inputs_pane.paths is not None, "a sample")
        await pilot.press("r")
        await until(pilot, lambda: results.run is not None, "the simulator's outputs")
        assert results.run is not None
        simulated = results.run.outputs[0]

        await pilot.press("t")
        await until(pilot, lambda: made.address in screen_text(app), "the board in the dialog")
        await pilot.press(*["down"] * 4, "enter")  # behind the four ways of the simulator
        await until(pilot, lambda: f"on adb:{made.address}" in screen_text(app), "the target")
        await pilot.press("r")
        await until(pilot, lambda: results.run is not None, "the board's outputs")
        assert results.run is not None
        output = results.run.outputs[0]
        assert output.label == "emulated"
        assert output.top[0].index == simulated.top[0].index
        assert output.maximum == pytest.approx(simulated.maximum)

        await pilot.press("v", "L")
        timed = results.timed
        await until(pilot, lambda: workspace.live.runs >= 2, "live layers")
        known = [row["id"] for row in timed.table.records if row["id"]]
        assert BENT in known
        assert all(row["microseconds"] is not None for row in timed.table.records)
        assert results.memory.result is not None

        await pilot.press("v", "r")  # the board is let go first
        await until(pilot, lambda: "On adb:" in screen_text(app), "the memory")
        await until(pilot, lambda: results.memory.result.model_bytes > 0, "of the file")
        assert not workspace.live.on

        await pilot.press("v", "r")
        await until(pilot, lambda: results.compared.result is not None, "the comparison")
        assert results.compared.result is not None
        assert results.compared.result.first == "", results.compared.result.verdict
        made.bend(BENT)
        await pilot.press("r")
        await until(pilot, lambda: results.compared.result.first, "what diverges")
        assert results.compared.result.first == BENT
        assert results.layer_id == BENT
        assert "✗" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.current == "layers", "Layers")
        await until(pilot, lambda: BENT in screen_text(app), "of that layer")
