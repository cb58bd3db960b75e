"""The tasks that the workbench is measured by, by keys alone at 80x24, over real workers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from rknntui.app import Workbench
from rknntui.demo import demo_folder
from scripts.tasks import TASKS, play
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import adb_server
from tests.tui.conftest import Driver, driven, screen_text, until

__all__ = ["adb_server"]

pytestmark = pytest.mark.long


Played = Callable[[str], AbstractAsyncContextManager[tuple[Workbench, Driver]]]


@pytest.fixture
def played(own_workers: None, zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    """The workbench after a task, which took no more keys than it may."""
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def running(name: str) -> AsyncIterator[tuple[Workbench, Driver]]:
        task = TASKS[name]
        app = Workbench(str(task.file(tmp_path, zoo, demo_folder())), state_kept=False)
        async with driven(app) as pilot:

            async def sees(text: str) -> None:
                await pilot.sees(text)

            await play((*task.before, *task.steps), pilot.press, sees)
            assert task.keys <= task.most
            yield app, pilot

    return running


async def test_a_from_a_file_to_w8a8_with_its_accuracy(played: Played) -> None:
    async with played("a") as (app, pilot):
        assert app.session.recipe["mean_values"] == [[127.0] * 3]
        assert app.session.recipe["std_values"] == [[128.0] * 3]
        assert app.session.summary.quantized_dtype == "w8a8"
        await pilot.sees("boxes", "scores")


async def test_b_two_promotions_within_five_percent_and_an_export(
    played: Played, tmp_path: Path
) -> None:
    async with played("b") as (app, pilot):
        assert len(app.session.recipe["quantized_layers"]) == 2
        percent = re.search(r"ms \(\+([\d.]+) %\)", screen_text(app))
        assert 0 < float(percent[1]) <= 5
        await until(pilot, (tmp_path / "faces.rknn").is_file, "the export")


async def test_c_chips_at_25_frames_a_second_and_what_the_others_need(played: Played) -> None:
    async with played("c") as (app, pilot):
        workspace = app.workspace
        table = workspace.views.chips.table
        rows = lambda: {str(row["chip"]): row for row in table.records}  # noqa: E731
        needs = lambda: rows()["rv1106"].get("way") not in (None, "", "…")  # noqa: E731
        await until(pilot, needs, "what rv1106 needs")
        reached = [rows()[chip]["reaches"] for chip in ("rk3566", "rk3588", "rv1106")]
        assert reached == ["yes", "yes", "maybe"]
        assert str(rows()["rv1106"]["way"]).startswith("input ")
        assert float(str(rows()["rv1106"]["then"])) > 25
        await pilot.press("n")
        assert workspace.chip in workspace.missing


@pytest.mark.adb
async def test_e_an_emulated_board_from_nothing(adb_server: AdbServer, played: Played) -> None:
    async with played("e") as (app, pilot):
        workspace = app.workspace
        await until(pilot, lambda: workspace.run.result, "the run ends in order, and is kept")
        await pilot.sees("14 layers agree up to rounding", "emulated")
        assert app.session.boards.chosen
        kept = app.session.to_state()
        assert (kept.board, kept.board_chips) == (None, {}), "it ends with the workbench"
        await pilot.press("r", until=lambda: workspace.run.measuring)
        await pilot.press("delete", sees="removed, its run ended.")
        await pilot.sees("0 ready")
        assert not workspace.run.going
        assert app.session.bench is None


@pytest.mark.vendor
@pytest.mark.usefixtures("toolkit2")
async def test_f_two_chips_compiled_a_project_with_its_model_and_an_encrypted_file(
    played: Played, tmp_path: Path
) -> None:
    async with played("f") as (app, _):
        assert len(app.session.compilations) == 2
        assert (tmp_path / "digits_demo-rk3588.crypt.rknn").is_file()
        assert list((tmp_path / "digits_demo-cpp" / "model").glob("*.rknn"))
        assert app.session.layers.of("compiled")


async def test_g_what_changed_between_two_builds(played: Played) -> None:
    async with played("g") as (app, _):
        assert "as the model → float16" in app.workspace.detail.about.text()
