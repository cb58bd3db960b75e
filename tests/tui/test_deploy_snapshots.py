"""What Deploy looks like as text at three sizes, with prepared answers of a toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.screens.deploy.workspace import Deploy
from tests.tui.conftest import screen_text, until
from tests.tui.deploy_answers import DeployAnswers
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
async def test_deploy(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLACE)
    monkeypatch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
    answers = DeployAnswers(monkeypatch)
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=size) as pilot:
        workspace = await visited(pilot, Deploy)
        await holds(pilot, "deploy-export")
        await pilot.press("v")
        await until(pilot, lambda: "✓ 2.3.2" in screen_text(app), "the toolkit")
        workspace.views.compiled.table.select_record("chip", "rk3588")
        await pilot.press("space", "up", "space", "up")
        await holds(pilot, "deploy-compile")
        answers.open.clear()
        await pilot.press("r", "enter")
        await until(pilot, lambda: "▶ 30%" in screen_text(app), "how far it is")
        await holds(pilot, "deploy-compiling")
        answers.open.set()
        await until(pilot, lambda: "✓ compiled" in screen_text(app), "the result")
        workspace.views.compiled.table.select_record("chip", "rk3588")
        await holds(pilot, "deploy-compiled")
        await pilot.press("enter")
        await until(pilot, lambda: "Layers of rk3588" in screen_text(app), "the layers")
        await holds(pilot, "deploy-layers")
        for view, shown in (
            ("agreement", "99.95"),
            ("toolkits", "installed" if size[0] > 80 else "3.11.7"),
        ):
            await pilot.press("v")
            await until(pilot, lambda shown=shown: shown in screen_text(app), view)
            await holds(pilot, f"deploy-{view}")
        await pilot.press("v", "down", "down", "enter", "end", "enter", "r")
        await until(pilot, lambda: "golden.bin" in screen_text(app), "the files")
        await holds(pilot, "deploy-code")
