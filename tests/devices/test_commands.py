"""``rknntui devices`` and ``rknntui doctor --device``, as processes of their own."""

from __future__ import annotations

import signal
import socket
import tempfile
from pathlib import Path

import pytest

from engine.base.leftovers import clear_leftovers
from rknntui_emulator.runtime.build import compiler
from tests.devices.adb.stand_in import StandIn, okay
from tests.devices.adb_server import AdbServer
from tests.devices.demo_container import demo_container
from tests.devices.verbs import emulating, run
from tests.safety import PATIENCE


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


@pytest.mark.adb
def test_a_server_that_is_none_is_no_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with StandIn({"host:devices-l": okay("<html>\n")}) as stand_in:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(stand_in.server.port))
        done = run("devices", "list")
    assert done.returncode == 13
    assert "is no adb server" in done.stdout


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("devices", "emulate", "rk3588", "--port", port)
    assert done.returncode == 13
    assert f"port {port}" in done.stderr
    assert "Choose another port" in done.stderr


@pytest.mark.long
@pytest.mark.cc
def test_what_no_board_can_be_told_is_refused(tmp_path: Path) -> None:
    ready = ["--model", str(demo_container(tmp_path / "demo.rknn", "rk3588"))]
    for words, said in (
        ([*ready, "--bend", "Gem"], "no layer 'Gem'"),
        (["--load", "1,2"], "3 cores"),
        (["--load", "x"], ""),
        (["--model", str(tmp_path)], "could not be read"),
    ):
        wrong = run("devices", "emulate", "rk3588", *words)
        assert wrong.returncode != 0
        assert said in wrong.stderr


def test_the_folder_of_a_killed_emulator_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with emulating("rk1808") as (process, facts):
        folder = Path(facts["root"]).parent
        assert folder.parent == tmp_path
        clear_leftovers()
        assert (folder / "root").is_dir()
        process.kill()
        process.wait()
        clear_leftovers()
        assert not folder.exists()
