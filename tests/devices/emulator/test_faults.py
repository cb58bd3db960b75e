"""What happens to an emulated board arrives at a real adb program as it would from a board."""

from __future__ import annotations

import subprocess

import pytest

from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards
from tests.devices.waiting import processes, until

pytestmark = pytest.mark.adb


def test_a_reboot_ends_programs_and_empties_tmp(
    adb_server: AdbServer, board: Boards, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = board("rk3588")
    started = "touch /tmp/gone /userdata/stays; setsid sleep 1000 </dev/null >/dev/null 2>&1 &"
    adb_server.adb("-s", made.address, "shell", started)
    assert made.alive_orphans()
    made.set_load([1, 2, 3])
    after = len(made.events)
    monkeypatch.setattr("rknntui_emulator.emulator._REBOOT_SECONDS", 0.1)
    adb_server.adb("-s", made.address, "reboot")
    until(lambda: "rebooting" in made.events, "it comes")
    assert not made.alive_orphans()
    # the server may come back by itself, and be the last that is heard of
    until(lambda: any(event.startswith("listening") for event in made.events[after:]), "it comes")
    adb_server.reconnect(made.address)
    said = adb_server.adb("-s", made.address, "shell", "ls /tmp /userdata; cat /proc/rknpu/load")
    assert b"stays" in said.stdout
    assert b"gone" not in said.stdout
    assert b"Core1:  0%" in said.stdout


@pytest.mark.parametrize("chip", ["rk3588", "rk1808"])
def test_a_program_whose_host_is_killed(adb_server: AdbServer, board: Boards, chip: str) -> None:
    """It is an orphan, but where the terminal of an old board ends it."""
    made = board(chip)
    client = subprocess.Popen(
        [adb_server.program, "-s", made.address, "shell", "sh -c 'sleep 1000; true'; true"],
        stdin=subprocess.DEVNULL,
    )

    def sleeping() -> list[int]:
        return processes(f"BOARD_ROOT={made.root}", "sleep\0001000")

    until(sleeping, "it comes")
    assert not made.alive_orphans(), "somebody listens"
    client.kill()
    client.wait()
    if chip == "rk1808":
        until(lambda: not sleeping(), "it has ended")
        return
    until(made.alive_orphans, "it comes")
    made.stop()
    assert not made.alive_orphans()
