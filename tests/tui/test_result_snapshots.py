"""What Result looks like as text at three sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.screens.result.workspace import Result
from tests.tui.board_answers import BOARD, BoardAnswers
from tests.tui.conftest import screen_text, until
from tests.tui.flow import visited
from tests.tui.test_snapshots import PLACE, at_sizes, holds, recipe

__all__ = ["recipe"]

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@at_sizes
async def test_result(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLACE)
    monkeypatch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
    BoardAnswers(monkeypatch)
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=size) as pilot:
        workspace = await visited(pilot, Result)
        await holds(pilot, "result-nothing")
        app.session.boards.choose(BOARD)
        workspace.inputs_pane.files["image"] = str(PLACE / "calibration" / "005.png")
        workspace.results.bar.choose("Board")
        await pilot.press("r")
        await until(pilot, lambda: "Outputs (emulated)" in screen_text(app), "the board")
        await holds(pilot, "result-board")
        await pilot.press("v")
        await holds(pilot, "result-score")
