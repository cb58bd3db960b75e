"""The workbench on boards of every kind, by keys: Devices and Run, by adb and by SSH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from rknntui.app import Workbench
from rknntui.screens.bench.workspace import Devices
from rknntui.screens.result.workspace import Result
from tests.devices.demo_container import LAYER
from tests.devices.end_to_end.conftest import LOADS, Stand
from tests.tui.calm import wait_by_what_is_left
from tests.tui.conftest import screen_text, until
from tests.tui.flow import choose_path, press_text, visited

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
        devices = await visited(pilot, Devices)
        await until(pilot, lambda: app.session.listing is not None, "the list")
        if stand.kind == "ssh":  # which nobody lists by itself
            await pilot.press("a")
            await press_text(pilot, device)
            await pilot.press("enter")
        await until(pilot, lambda: devices.table.select_record("id", device), "the board")
        facts = await facts_of(pilot, devices, device)
        assert stand.chip in facts.lower()
        assert "emulated" in facts
        for component in ("driver", "runtime"):
            assert component in facts
        await pilot.press("v", "r")
        await sees(pilot, "✓ chip", "✓ runtime")
        await pilot.press("v", "r")
        loads = LOADS.get(stand.kind, ())
        await sees(pilot, "samples", *(f"{load} %" for load in loads))
        await pilot.press("r")
        await until(pilot, lambda: not devices.monitor.running, "the watch ends")

        run = await visited(pilot, Result)
        if run.target != device:
            await pilot.press("t")
            await sees(pilot, "Run on")
            await pilot.press("enter")
        await sees(pilot, f"on {device}")
        await pilot.press("e")
        await choose_path(pilot, digit_file)
        await until(pilot, lambda: run.inputs_pane.paths is not None, "an input")
        stand.board.bend(None)
        await pilot.press("r")
        await sees(pilot, "Outputs (emulated)")
        (values,) = stand.expected(digit).values()
        (output,) = run.results.outputs.table.records
        assert output.maximum == float(values.max())
        await pilot.press("v", "R")
        if stand.kind == "rv1106":  # its runtime tells no layers
            await sees(pilot, "tells neither")
        else:
            await sees(pilot, "Layers (emulated)")
            assert sum(row["microseconds"] or 0 for row in run.results.timed.table.records) > 0
        await pilot.press("v", "r")
        if stand.generation == 1:
            await sees(pilot, "Not available on this runtime", "librknn_runtime.so")
        else:
            await sees(pilot, "Memory (emulated)", "weights")
        stand.board.bend(LAYER)
        await pilot.press("v", "r")
        await sees(pilot, "is the first layer that")
        found = run.results.compared.result
        assert found is not None
        assert found.first == bent, found.verdict
        assert run.results.layer_id == bent


async def facts_of(pilot: Pilot[None], devices: Devices, device: str) -> str:
    """What the board is; it is used in Run from then on."""
    await pilot.press("enter")
    await until(pilot, lambda: devices.session.board == device, "it is used")
    await until(pilot, lambda: "Versions" in devices.pane.text(), "what it is")
    return devices.pane.text()
