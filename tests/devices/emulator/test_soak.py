"""The emulated board over hundreds of programs, broken off clients and pulled cables."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards
from tests.devices.faulty_board import FaultyBoard
from tests.devices.waiting import open_files, until

pytestmark = [pytest.mark.adb, pytest.mark.long]


def held(made: FaultyBoard) -> tuple[int, int, list[str]]:
    """Open files and threads of this process, and the files of the board."""
    files = sorted(str(path) for path in made.root.rglob("*"))
    return open_files(), threading.active_count(), files


@pytest.mark.parametrize("chip", ["rk3588", "rk1808"])
def test_nothing_is_left_behind(
    adb_server: AdbServer, board: Boards, tmp_path: Path, chip: str
) -> None:
    made = board(chip)
    source = tmp_path / "source"
    source.write_bytes(os.urandom(100_000))

    def once() -> None:
        assert b"8" in adb_server.adb("-s", made.address, "shell", "expr 3 + 5").stdout
        adb_server.adb("-s", made.address, "push", str(source), "/userdata/pushed")

    once()
    before = held(made)
    for _ in range(150):
        once()
    until(lambda: held(made) == before, "no more is held than before")
    for _ in range(15):
        client = subprocess.Popen(
            [adb_server.program, "-s", made.address, "shell", "exec sleep 1000"],
            stdin=subprocess.DEVNULL,
        )
        opened = len(made.events)
        while not any("sleep 1000" in event for event in made.events[opened - 1 :]):
            time.sleep(0.01)
        client.kill()
        client.wait()
    for _ in range(15):
        made.drop()
        adb_server.reconnect(made.address)
    once()
    until(lambda: held(made) == before, "no more is held than before")
    until(lambda: not made.alive_orphans(), "programs whose host is gone have ended")
