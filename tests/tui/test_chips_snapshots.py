"""What Chips looks like as text at three sizes, with prepared estimates."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.screens.chips.workspace import Chips
from tests.tui.conftest import screen_text, until
from tests.tui.cost_answers import CostAnswers
from tests.tui.flow import visited
from tests.tui.test_snapshots import SIZES, holds, recipe

__all__ = ["recipe"]

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@pytest.mark.long
@pytest.mark.parametrize(
    "size",
    [SIZES[0], *(pytest.param(size, marks=pytest.mark.long) for size in SIZES[1:])],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
async def test_chips(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    CostAnswers(monkeypatch)
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=size) as pilot:
        await visited(pilot, Chips)
        await until(pilot, lambda: "15 chips in" in screen_text(app), "the chips")
        await pilot.press("home", "space", "G")
        await holds(pilot, "chips-chips")
        for view, shown in (
            ("layers", "Layers on rk3588"),
            ("compare", "rk1808 ms"),
            ("memory", "▼ peak"),
            ("roofline", "operations a byte"),
            ("check", "4 on the NPU"),
            ("advice", "multiple of 16"),
        ):
            await pilot.press("v")
            await until(pilot, lambda shown=shown: shown in screen_text(app), view)
            await holds(pilot, f"chips-{view}")
        await pilot.press("w")
        await until(pilot, lambda: "What if (estimated)" in screen_text(app), "what if")
        await holds(pilot, "chips-what-if")
