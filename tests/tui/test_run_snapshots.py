"""What Run looks like as text at three sizes, with prepared answers of a board."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.screens.result.workspace import Run
from tests.tui.board_answers import BOARD, BoardAnswers
from tests.tui.conftest import screen_text, until
from tests.tui.flow import visited
from tests.tui.test_snapshots import PLACE, SIZES, holds, recipe

__all__ = ["recipe"]

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@pytest.mark.long
@pytest.mark.parametrize(
    "size",
    [SIZES[0], *(pytest.param(size, marks=pytest.mark.long) for size in SIZES[1:])],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
async def test_run(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLACE)
    monkeypatch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
    BoardAnswers(monkeypatch)
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=size) as pilot:
        workspace = await visited(pilot, Run)
        await pilot.press("t")
        await until(pilot, lambda: BOARD in screen_text(app), "the boards")
        lines = [row for row in screen_text(app).splitlines() if "│  simulator" in row]
        assert len(lines) == 4
        assert not any("…" in row for row in lines)
        await holds(pilot, "run-target")
        workspace.inputs_pane.files["image"] = str(PLACE / "calibration" / "005.png")
        await pilot.press(*["down"] * 4, "enter")  # behind the four ways of the simulator
        for view, shown in (
            ("outputs", "Outputs (emulated)"),
            ("layers", "Layers (emulated)"),
            ("memory", "Memory (emulated)"),
            ("compare", "is the first layer that"),
        ):
            await pilot.press("r")
            await until(pilot, lambda shown=shown: shown in screen_text(app), view)
            await holds(pilot, f"run-{view}")
            await pilot.press("v")
