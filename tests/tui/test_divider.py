"""The line between two panes: moved by keys and the mouse, and kept for the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.widgets.divider import LEAST, Divider
from rknntui.workspaces import keys_of
from tests.tui.conftest import screen_text, settle, until

SIZE = (120, 40)


@pytest.mark.usefixtures("no_engine")
async def test_keys_and_mouse_move_it_and_the_next_start_has_it_there(own_home: Path) -> None:
    app = Workbench()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(keys_of("model")[0])
        await until(pilot, lambda: app.current == "model")
        await settle(pilot)
        divider = app.workspace.query_one(Divider)
        before = divider.region.x
        await pilot.press("ctrl+right")
        await until(pilot, lambda: divider.region.x > before, "it moved by a key")
        await pilot.mouse_down(divider)
        await pilot.hover("TopBar", offset=(30, 1))
        await pilot.mouse_up("TopBar", offset=(30, 1))
        await until(pilot, lambda: abs(divider.region.x - 30) <= 1, "it was dragged")
        for _ in range(20):
            await pilot.press("ctrl+left")
        await settle(pilot)
        assert app.dividers == {"model-divider beside": LEAST}
        await pilot.press("q")
    again = Workbench()
    async with again.run_test(size=SIZE) as pilot:
        await pilot.press(keys_of("model")[0])
        await until(pilot, lambda: again.current == "model")
        await settle(pilot)
        assert again.workspace.query_one(Divider).region.x == round(SIZE[0] * LEAST / 100)
        await pilot.press(keys_of("builds")[0])
        await until(pilot, lambda: again.current == "builds")
        await pilot.press("ctrl+left")
        why = "No line between panes can be moved here."
        await until(pilot, lambda: why in screen_text(again), "why not")
