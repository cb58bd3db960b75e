"""The workbench on boards of every kind, by keys: Bench and Result, by adb and by SSH."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from rknntui.app import Workbench
from rknntui.screens.bench.workspace import Bench
from rknntui.screens.result.workspace import Result
from tests.devices.demo_container import LAYER
from tests.devices.end_to_end.conftest import LOADS, Stand
from tests.tui.calm import wait_by_what_is_left
from tests.tui.conftest import screen_text, until
from tests.tui.flow import choose_path, typed, visited

pytestmark = [
    pytest.mark.long,
    pytest.mark.adb,
    pytest.mark.cc,
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.fixture(autouse=True)
def quick_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keys take as long as what they do, on a terminal with all colours."""
    monkeypatch.setenv("TERM", "xterm-256color")
    with wait_by_what_is_left():
        yield


async def sees(pilot: Pilot[None], *words: str) -> None:
    """Wait until all of them are on the screen."""
    app = pilot.app
    assert isinstance(app, Workbench)
    await until(pilot, lambda: all(word in screen_text(app) for word in words), str(words))


async def test_devices_and_run(
    stand: Stand, bent: str, digit: np.ndarray, digit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(digit_file.parent)
    device = stand.id
    app = Workbench(str(stand.recipe), state_kept=False)
    async with app.run_test(size=(160, 60)) as pilot:
        bench = await visited(pilot, Bench)
        await until(pilot, lambda: app.session.boards.listing is not None, "the list")
        if stand.kind == "ssh":  # which nobody lists by itself
            await pilot.press("a")
            await pilot.press("right" if not app.session.boards.listing.devices else "home")
            await until(pilot, lambda: "Add a board" in screen_text(app), "the form")
            app.screen.query_one("#over").value = "ssh"
            await pilot.press("down")
            await pilot.press(*typed(device.removeprefix("ssh:")))
            await pilot.press("enter")
        await until(pilot, lambda: bench.table.select_record("id", device), "the board")
        await pilot.press("enter")
        await until(pilot, lambda: app.session.boards.chosen == device, "it is used")
        facts = ""

        def told() -> bool:
            nonlocal facts
            facts = bench.views.facts.text()
            return "Versions" in facts

        await until(pilot, told, "what it is")
        assert stand.chip in facts.lower()
        assert "emulated" in facts
        for component in ("driver", "runtime"):
            assert component in facts
        loads = LOADS.get(stand.kind, ())
        await sees(pilot, "temperature", *(f"{load} %" for load in loads))
        await pilot.press("d")
        await sees(pilot, "✓ chip", "✓ runtime")
        stand.board.bend(LAYER)
        await pilot.press("equals_sign")
        await sees(pilot, "is the first layer that")
        found = bench.views.comparison
        assert found is not None
        assert found.first == bent, found.verdict
        stand.board.bend(None)
        bench.run.settings = replace(bench.run.settings, minutes=0.02)
        await pilot.press("r")
        await until(pilot, lambda: bench.run.result, "it is measured")
        assert bench.run.result is not None
        assert bench.run.result.label == "emulated"
        if stand.kind != "rv1106":  # its runtime tells no layers
            assert sum(row["microseconds"] or 0 for row in bench.views.timed.table.records) > 0
        await pilot.press("w")

        run = await visited(pilot, Result)
        run.results.bar.choose("Board")
        await sees(pilot, f"on {device}")
        await pilot.press("e")
        await choose_path(pilot, digit_file)
        await until(pilot, lambda: run.inputs_pane.paths is not None, "an input")
        await pilot.press("r")
        await sees(pilot, "Outputs (emulated)")
        (values,) = stand.expected(digit).values()
        (output,) = run.results.outputs.table.records
        assert output.maximum == float(values.max())
