"""What Result looks like as text at three sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.screens.result.workspace import Result
from tests.tui.board_answers import BOARD, BoardAnswers
from tests.tui.flow import opened
from tests.tui.test_snapshots import PLACE, at_sizes, holds, recipe

__all__ = ["recipe"]

pytestmark = pytest.mark.usefixtures("warm")


@at_sizes
async def test_result(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLACE)
    monkeypatch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
    BoardAnswers(monkeypatch)
    async with opened(recipe, Result, size=size) as (app, pilot, workspace):
        await holds(pilot, "result-nothing")
        app.session.boards.choose(BOARD)
        workspace.inputs_pane.files["image"] = str(PLACE / "calibration" / "005.png")
        workspace.results.bar.choose("Board")
        await pilot.press("r", sees="Outputs (emulated)")
        await holds(pilot, "result-board")
        await pilot.press("v")
        await holds(pilot, "result-score")
