"""What Chips looks like as text at three sizes, with prepared estimates."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.screens.chips.workspace import Chips
from rknntui.session import background
from tests.tui.compile_answers import CompileAnswers
from tests.tui.conftest import screen_text, until
from tests.tui.cost_answers import CostAnswers
from tests.tui.flow import visited
from tests.tui.test_snapshots import PLACE, at_sizes, holds, recipe

__all__ = ["recipe"]

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@at_sizes
async def test_chips(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    CostAnswers(monkeypatch)
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=size) as pilot:
        workspace = await visited(pilot, Chips)
        await until(pilot, lambda: "15 chips in" in screen_text(app), "the chips")
        await pilot.press("home", "space", "G")
        await until(pilot, lambda: not workspace.answers.asking, "all answers")
        await holds(pilot, "chips-chips")
        await pilot.press("f", *"250", "enter")
        await until(pilot, lambda: "goal 250 FPS" in screen_text(app), "the goal")
        await until(pilot, lambda: not workspace.answers.asking, "what chips need")
        await holds(pilot, "chips-goal")
        await pilot.press("d")
        await holds(pilot, "chips-detail")
        await pilot.press("d", "W")
        for view, shown in (
            ("Compare", "rk1808 ms"),
            ("Memory", "▼ peak"),
            ("Roofline", "operations a byte"),
            ("Advice", "multiple of 16"),
        ):
            workspace.views.bar.choose(view)
            await until(pilot, lambda shown=shown: shown in screen_text(app), view)
            await holds(pilot, f"chips-{view.lower()}")
        await pilot.press("e")
        await until(pilot, lambda: "What if (estimated)" in screen_text(app), "what if")
        await holds(pilot, "chips-what-if")


@at_sizes
async def test_what_is_made(
    recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PLACE)
    monkeypatch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
    # its build would end at any time
    monkeypatch.setattr(background, "built_unseen", lambda _: None)
    CostAnswers(monkeypatch)
    answers = CompileAnswers(monkeypatch)
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=size) as pilot:
        workspace = await visited(pilot, Chips)
        await until(pilot, lambda: "15 chips in" in screen_text(app), "the chips")
        await until(pilot, lambda: workspace.toolkits.rows is not None, "the toolkit")
        await pilot.press("G", "k", "space", "space")
        answers.open.clear()
        await pilot.press("r", "enter")
        await until(pilot, lambda: "▶ 30%" in screen_text(app), "how far it is")
        await holds(pilot, "chips-compiling")
        answers.open.set()
        await until(pilot, lambda: "✓ compiled" in screen_text(app), "the result")
        await holds(pilot, "chips-compiled")
        await pilot.press("v", "r")
        await until(pilot, lambda: "golden.bin" in screen_text(app), "the files")
        await holds(pilot, "chips-code")
        await pilot.press("v")
        await holds(pilot, "chips-exports")
        await pilot.press("V", "V", "V")
        await until(pilot, lambda: "3.11.7" in screen_text(app), "the toolkits")
        await holds(pilot, "chips-toolkits")
