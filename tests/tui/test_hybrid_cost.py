"""Hybrid says what each layer costs on the recipe's chip, and a search keeps to a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.wire.codec import encode
from engine.wire.formats import ADDED_BYTES, ADDED_MS
from engine.wire.hybrid import PROPOSE, SEARCH, SearchParams
from rknntui.app import Workbench
from rknntui.keys.commandline import job_flags
from rknntui.screens.layers.words import time_text
from rknntui.screens.layers.workspace import Hybrid
from tests.tui.conftest import screen_text, until
from tests.tui.flow import press_text, read_form, visited, write_recipe

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@pytest.mark.long
async def test_layers_have_their_cost_and_a_proposal_its_gain(demo: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, demo, count=4)
    with recipe.open("a", encoding="utf-8") as file:
        file.write("target: {target_platform: rk3588}\n")
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.session.model is not None, "the model")
        await pilot.press("4", "b")
        await until(pilot, lambda: app.session.built is not None, "the build")
        workspace = await visited(pilot, Hybrid)
        await until(pilot, lambda: "est. ms" in screen_text(app), "the time of each layer")
        top = screen_text(app).splitlines()[2]
        assert "ms on rk3588" in top
        assert "→" not in top
        keys = workspace.table.shown_keys
        assert {"time_ms", "promote_ms"} <= set(keys)
        assert "gain_db" not in keys  # before a proposal
        await pilot.press("p", "down")
        await press_text(pilot, "4 ms")
        await pilot.press("enter")
        await until(
            pilot, lambda: "budget ms: a number above 0" in screen_text(app), "what is wrong"
        )
        await pilot.press(*["backspace"] * 4)
        await press_text(pilot, "900")
        await pilot.press("enter")
        await until(pilot, lambda: "gain dB" in screen_text(app), "what each layer gains")
        await until(pilot, lambda: "→" in screen_text(app).splitlines()[2], "before and after")
        gains = [row["gain_db"] for row in workspace.table.records if row["gain_db"] is not None]
        assert len(gains) >= 2
        assert min(gains) > 0
        asked = [job.params for job in app.session.jobs.values() if job.method == PROPOSE.name]
        assert [params["budget_ms"] for params in asked] == [900.0]
        await pilot.press("p")
        await until(pilot, lambda: "Propose layers to promote" in screen_text(app), "it again")
        assert app.screen.query_one("#budget_ms").value == "900"
        await pilot.press("escape")
        assert len(app.screen_stack) == 1
        assert len([job for job in app.session.jobs.values() if job.method == PROPOSE.name]) == 1


async def test_a_budget_of_time_is_asked_for() -> None:
    asked = read_form(SearchParams(dtype="float16"), {"budget_ms": "4.5"})
    assert asked.budget_ms == 4.5
    assert job_flags(SEARCH.name, encode(asked)) == ["--budget-ms", "4.5", "--dtype", "float16"]
    for wrong in ("4 ms", "0"):
        with pytest.raises(ValueError, match="budget ms: a number above 0"):
            read_form(SearchParams(), {"budget_ms": wrong})


async def test_costs_as_texts() -> None:
    assert [ADDED_MS.text(value) for value in (0.1234, -0.05, 1e-9)] == ["+0.1234", "-0.0500", "0"]
    assert [ADDED_BYTES.text(value) for value in (2048, -1, 0)] == ["+2.00 KiB", "-1 B", "0"]
    assert time_text(4.5, 4.6, "rk3588") == "est. 4.500 → 4.600 ms on rk3588"
    assert time_text(None, 4.6, "rk3588") == "est. 4.600 ms on rk3588"
    assert time_text(4.5, None, "rk3588") == time_text(4.5, 4.6, "") == ""
