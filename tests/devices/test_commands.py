"""``rknntui devices`` and ``rknntui doctor --device``, as processes of their own."""

from __future__ import annotations

import signal
import socket
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.base.leftovers import clear_leftovers
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.transports.adb.transport import AdbTransport
from rknntui_emulator.runtime.build import compiler
from tests.devices.adb.stand_in import StandIn, okay
from tests.devices.adb_server import AdbServer
from tests.devices.demo_container import LAYER, demo_container, digits, simulated
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
@pytest.mark.adb
@pytest.mark.cc
def test_the_emulated_board_answers_as_it_was_told(adb_server: AdbServer, tmp_path: Path) -> None:
    container = demo_container(tmp_path / "demo.rknn", "rk3588")
    ready = ["--model", str(container)]
    told = [*ready, "--bend", f"{LAYER}:9", "--load", "1,2,3", "--celsius", "60", "--slow", "50"]
    image = digits(1)[0]
    exact = simulated(container, image)["logits"]
    with emulating("rk3588", *told) as (_, facts):
        root = Path(facts["root"])
        assert "Core0:  1%, Core1:  2%, Core2:  3%" in (root / "proc/rknpu/load").read_text()
        adb_server.connect(facts["address"])
        with closing(AdbTransport.open(facts["address"])) as way, BoardRuntime(way) as runtime:
            runtime.open(container)
            bent = runtime.run([BoardInput(image)]).outputs[0].array
            assert not np.array_equal(bent, exact)
            (root / "usr/lib/emulated.conf").write_text("")
            found = runtime.run([BoardInput(image)]).outputs[0].array
            np.testing.assert_array_equal(found, exact)
    wrong = run("devices", "emulate", "rk3588", *ready, "--bend", "Gem")
    assert wrong.returncode != 0
    assert "no layer 'Gem'" in wrong.stderr
    for option, value in (("--load", "1,2"), ("--load", "x"), ("--model", str(tmp_path))):
        wrong = run("devices", "emulate", "rk3588", option, value)
        assert wrong.returncode != 0
        assert "Traceback" not in wrong.stderr


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
