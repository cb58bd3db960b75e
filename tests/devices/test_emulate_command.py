"""``rknntui devices emulate``: a board that the user's own adb finds, until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.devices.emulator.runtime.build import compiler
from tests.devices.adb_server import AdbServer
from tests.safety import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def emulating(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The command, and what it says of the board."""
    words = [sys.executable, "-P", "-m", "rknntui", "devices", "emulate", *arguments, "--json"]
    process = subprocess.Popen(
        words,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, f"it ended with {process.wait(PATIENCE)}"
            said += line
        yield process, json.loads(said)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.adb
def test_adb_finds_the_board_until_ctrl_c(adb_server: AdbServer) -> None:
    with emulating("rk1808") as (process, facts):
        assert facts["emulated"] is True
        adb_server.connect(facts["address"])
        found = adb_server.adb("-s", facts["address"], "shell", "cat /proc/device-tree/model")
        assert b"RK1808" in found.stdout
        assert b"emulated" in found.stdout.lower()
        library = Path(facts["root"]) / "usr" / "lib" / "librknn_runtime.so"
        assert library.is_file() == (compiler() is not None)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert not Path(facts["root"]).exists()


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = [sys.executable, "-P", "-m", "rknntui", "devices", "emulate", "rk3588"]
        done = subprocess.run(
            [*words, "--port", port],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 13
    assert f"port {port}" in done.stderr
    assert "Choose another port" in done.stderr
