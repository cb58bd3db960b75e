"""Emulated boards over a real adb server: what they are, run, do and lack."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.devices.board.runtime import BoardRuntime
from engine.devices.doctor.diagnose import STEPS, diagnose
from engine.devices.probe.clocks import chip_clocks, clock_paths, clock_plan
from engine.devices.probe.identify import identify
from engine.devices.probe.state import once_paths, parse, read_state, watch_paths
from engine.devices.probe.versions import read_versions
from engine.devices.transports.adb.transport import AdbTransport
from tests.devices.conftest import add_c_library
from tests.devices.faulty_board import FaultyBoard
from tests.safety import ends

pytestmark = pytest.mark.adb
LONG = pytest.mark.long

Boards = Callable[..., FaultyBoard]


@pytest.mark.parametrize(
    ("chip", "android", "runtime", "driver", "cores"),
    [
        ("rk3588", False, "librknnrt 2.3.2", "rknpu 0.9.8", 3),
        pytest.param("rk3566", False, "librknnrt 2.3.2", "rknpu 0.9.8", 1, marks=LONG),
        pytest.param("rv1106", False, "librknnmrt 2.3.2", "rknpu 0.9.8", 1, marks=LONG),
        ("rk1808", False, "librknn_runtime 1.7.5", "galcore 6.4.6.5.351518", 0),
        pytest.param("rk3588", True, "librknnrt 2.3.2", "rknpu 0.9.8", 3, marks=LONG),
    ],
)
def test_an_emulated_board_from_end_to_end(
    board: Boards, chip: str, android: bool, runtime: str, driver: str, cores: int, tmp_path: Path
) -> None:
    made = board(chip, android=android, serial="TS018083200400316")
    add_c_library(made)
    way = AdbTransport.open(made.address)
    load = tuple(7.0 * core for core in range(1, cores + 1))
    if load:
        made.set_load([int(core) for core in load])
    made.image.set_temperature(63.5)
    found = tuple(diagnose(way, test=lambda _: "it ran", proc=tmp_path))
    assert [check.name for check in found] == list(STEPS)
    states = {check.name: check.state for check in found}
    assert "bad" not in states.values(), found
    assert states["device files"] == "skipped"
    assert states["memory"] == ("note" if load else "ok"), "the NPU is busy"
    for step in ("server", "runtime", "driver", "agent", "versions", "room", "test tensor"):
        assert states[step] == "ok", step

    identity = identify(way)
    assert (identity.chip, identity.emulated) == (chip, True)
    assert identity.generation == (1 if chip == "rk1808" else 2)
    assert identity.serial == "TS018083200400316"
    assert identity.compatible[-1] == f"rockchip,{chip}"
    assert identity.system == ("Android 12" if android else "Buildroot 2021.11")
    assert (identity.machine, identity.kernel) == (made.board.machine, made.board.kernel)

    versions = read_versions(way, chip, identity.generation)
    assert (str(versions.runtime), str(versions.driver)) == (runtime, driver)
    assert versions.server is not None
    assert versions.server.version is not None
    assert versions.server_pids == (321,)

    state = read_state(way, chip)
    assert state.npu_load == (load or None)
    assert state.npu_celsius == 63.5
    assert state.npu_clock == (made.board.hertz if made.board.node else None)
    assert state.memory is not None
    assert dict(state.cpu_clocks or ()).keys() == {f"policy{n}" for n, _ in made.board.policies}
    told = {"this kernel has no such node", "the driver of this chip tells no load"}
    assert {why for _, why in state.missing} <= told


@pytest.mark.long
@pytest.mark.parametrize("chip", ["rk1808", pytest.param("rk3588", marks=pytest.mark.long)])
def test_the_plan_of_clocks_is_written_and_restored(board: Boards, chip: str) -> None:
    made = board(chip)
    made.set_frequency(made.board.hertz // 4)
    way = AdbTransport.open(made.address)
    with BoardRuntime(way, chip=chip) as runtime:
        before = runtime.read(clock_paths(chip))
        plan = clock_plan(chip, before)
        assert "NPU" not in dict(plan.not_adjustable)
        done = runtime.fix_clocks(plan.values)
        assert done.changed == tuple(path for path, _ in plan.values)
        assert done.refused == ()
        (row,) = chip_clocks(chip)
        fixed = tuple((policy, khz * 1000) for policy, khz in row.cpu_khz)
        until(lambda: read_state(way, chip).npu_clock == row.npu_hz)
        state = read_state(way, chip)
        assert (state.npu_governor, state.cpu_clocks) == ("userspace", fixed)
        runtime.restore_clocks()
        after = runtime.read(clock_paths(chip))
        assert {k: v for k, v in after.items() if "governor" in k} == {
            k: v for k, v in before.items() if "governor" in k
        }


def until(holds: Callable[[], bool]) -> None:
    """Wait for the emulator, which follows what is written in its own time."""
    with ends():
        while not holds():
            time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("chip", ["rk3588", pytest.param("rk1808", marks=pytest.mark.long)])
def test_the_agent_reads_what_the_state_is_made_of(board: Boards, chip: str) -> None:
    made = board(chip)
    way = AdbTransport.open(made.address)
    with BoardRuntime(way, chip=chip) as runtime:
        lasting = runtime.read(once_paths(chip))
        state = None
        for looked in runtime._session.watch(watch_paths(chip), interval=0.05, count=2):
            state = parse({**lasting, **looked.values}, chip)
        alone = read_state(way, chip)
        assert state is not None
        assert state.memory is not None
        assert replace(state, missing=()) == replace(alone, missing=())
        assert {name for name, _ in state.missing} == {name for name, _ in alone.missing}
