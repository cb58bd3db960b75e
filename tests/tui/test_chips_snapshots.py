"""What Chips looks like as text at three sizes, with prepared estimates."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.screens.chips.workspace import Chips
from rknntui.session import background
from tests.tui.compile_answers import CompileAnswers
from tests.tui.conftest import until
from tests.tui.cost_answers import CostAnswers
from tests.tui.flow import opened
from tests.tui.test_snapshots import PLACE, at_sizes, holds, recipe

__all__ = ["recipe"]

pytestmark = pytest.mark.usefixtures("warm")


@at_sizes
async def test_chips(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    CostAnswers(monkeypatch)
    async with opened(recipe, Chips, size=size) as (_, pilot, workspace):
        await pilot.sees("15 chips in")
        await pilot.press("home", "space", "G", until=lambda: not workspace.answers.asking)
        await holds(pilot, "chips-chips")
        await pilot.press("f", *"250", "enter", sees="goal 250 FPS")
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
            await pilot.sees(shown)
            await holds(pilot, f"chips-{view.lower()}")
        await pilot.press("e", sees="What if (estimated)")
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
    async with opened(recipe, Chips, size=size) as (_, pilot, workspace):
        await pilot.sees("15 chips in")
        await until(pilot, lambda: workspace.toolkits.rows is not None, "the toolkit")
        await pilot.press("G", "k", "space", "space")
        answers.open.clear()
        await pilot.press("r", "enter", sees="▶ 30%")
        await holds(pilot, "chips-compiling")
        answers.open.set()
        await pilot.sees("✓ compiled")
        await holds(pilot, "chips-compiled")
        await pilot.press("v", "r", sees="golden.bin")
        await holds(pilot, "chips-code")
        await pilot.press("v")
        await holds(pilot, "chips-exports")
        await pilot.press("V", "V", "V", sees="3.11.7")
        await holds(pilot, "chips-toolkits")
