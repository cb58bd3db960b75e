"""The same over a real sshd: the class ``RKNN``, the verbs, and the workbench."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from engine.api import RKNN
from engine.devices.address import Address
from rknntui.app import Workbench
from rknntui.screens.devices.workspace import Devices
from rknntui.screens.run.workspace import Run
from tests.devices.conftest import Equip
from tests.devices.demo_container import LAYER, demo_container
from tests.devices.end_to_end.conftest import LOADS, Stand, recipe_for, told
from tests.devices.faulty_board import FaultyBoard
from tests.devices.test_commands import run
from tests.tui.calm import wait_by_what_is_left
from tests.tui.conftest import screen_text, until
from tests.tui.flow import choose_path, press_text, visited

pytestmark = [pytest.mark.long, pytest.mark.sshd, pytest.mark.cc]

Ready = tuple[Stand, str]


@pytest.fixture
def ready(
    ssh_board: Callable[..., tuple[FaultyBoard, Address]], equip: Equip, tmp_path: Path
) -> Iterator[Ready]:
    """A board with the demo model's container, and where it is; nothing is left on it."""
    board, address = ssh_board("rk3588")
    equip(board).set_load(LOADS["rk3588"])
    container = demo_container(tmp_path / "rk3588.rknn", "rk3588")
    stand = Stand("rk3588", board, container, recipe_for(tmp_path, "rk3588"))
    yield stand, str(address)
    assert stand.left() == []


def test_the_class(ready: Ready, digit: np.ndarray) -> None:
    stand, address = ready
    rknn = RKNN()
    assert rknn.load_rknn(str(stand.container)) == 0
    asked = {"target": "rk3588", "device_id": address}
    assert rknn.init_runtime(**asked, perf_debug=True, eval_mem=True) == 0
    outputs = rknn.inference(inputs=[digit])
    assert outputs is not None
    for found, values in zip(outputs, stand.expected(digit).values(), strict=True):
        np.testing.assert_array_equal(found, values)
    assert "Conv" in rknn.eval_perf(is_print=False)
    assert rknn.eval_memory(is_print=False)["weight_memory"] > 10_000
    assert "rknnrt" in str(rknn.get_sdk_version())
    rknn.release()


def test_the_verbs(ready: Ready, digit: np.ndarray, digit_file: Path, tmp_path: Path) -> None:
    stand, address = ready
    model, device, given = str(stand.container), ("--device", address), ("-i", str(digit_file))
    ids = [each["id"] for each in told("devices", "list", "--ssh", address)["devices"]]
    assert address in ids
    checks = {check["name"]: check for check in told("doctor", *device)["checks"]}
    assert (checks["runtime"]["state"], checks["driver"]["state"]) == ("ok", "ok")
    found = told("run", model, *device, *given, "--layers", "--save", str(tmp_path / "out"))
    assert (found["label"], bool(found["layers"])) == ("emulated", True)
    for path, values in zip(found["saved"], stand.expected(digit).values(), strict=True):
        np.testing.assert_array_equal(np.load(path), values)
    assert told("perf", model, *device, "--loops", "3", "--fix-clocks")["points"][0]["count"] == 3
    assert told("memory", model, *device)["memory"]["weight"] > 10_000
    done = run("monitor", *device, "--hz", "5", "--seconds", "8", "--json")
    summary = json.loads(done.stdout.splitlines()[-1])["summary"]
    load = [core["mean"] for core in summary["boards"][0]["npu_load"]]
    assert load == list(LOADS["rk3588"])
    stand.board.bend(LAYER)
    assert told("compare", str(stand.recipe), *device, *given, code=1)["first"] == LAYER


@pytest.mark.asyncio(loop_scope="session")
async def test_the_workbench(
    ready: Ready, digit: np.ndarray, digit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand, address = ready
    monkeypatch.chdir(digit_file.parent)
    monkeypatch.setenv("TERM", "xterm-256color")
    app = Workbench(str(stand.recipe), state_kept=False)

    async def sees(pilot: Pilot[None], *words: str) -> None:
        await until(pilot, lambda: all(word in screen_text(app) for word in words), str(words))

    with wait_by_what_is_left():
        async with app.run_test(size=(160, 60)) as pilot:
            devices = await visited(pilot, Devices)
            await pilot.press("a")
            await press_text(pilot, address)
            await pilot.press("enter")
            await until(pilot, lambda: devices.table.select_record("id", address), "the board")
            await pilot.press("enter")
            await until(pilot, lambda: "Versions" in devices.pane.text(), "what it is")
            await pilot.press("v", "v", "r")
            await sees(pilot, "samples", *(f"{load} %" for load in LOADS["rk3588"]))
            await pilot.press("r")
            await until(pilot, lambda: not devices.monitor.running, "the watch ends")
            screen = await visited(pilot, Run)
            if screen.target != address:
                await pilot.press("t")
                await sees(pilot, "Run on")
                await pilot.press("enter")
            await pilot.press("e")
            await choose_path(pilot, digit_file)
            await until(pilot, lambda: screen.inputs_pane.paths is not None, "an input")
            await pilot.press("r")
            await sees(pilot, "Outputs (emulated)")
            (values,) = stand.expected(digit).values()
            assert screen.results.outputs.table.records[0].maximum == float(values.max())
            stand.board.bend(LAYER)
            await pilot.press("v", "v", "v", "r")
            await sees(pilot, "is the first layer that")
            assert screen.results.layer_id == LAYER
