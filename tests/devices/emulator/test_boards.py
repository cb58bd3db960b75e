"""What an emulated board has and says, seen through a real adb program."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.devices.doctor.diagnose import diagnose
from engine.devices.transports.adb.transport import AdbTransport
from engine.facts import chips
from rknntui_emulator.boards import BOARDS
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards
from tests.devices.faulty_board import FaultyBoard
from tests.safety import PATIENCE

HOSTILE = "\x1b[31m[bold]$(id)'\"; rm -rf \u202e\n%s"


def shell(server: AdbServer, made: FaultyBoard, command: str) -> str:
    return server.adb("-s", made.address, "shell", command).stdout.decode()


def test_every_board_has_a_chip_that_the_program_knows() -> None:
    known = {chip.name: chip for chip in chips()}
    for name, board in BOARDS.items():
        assert known[name].generation == board.generation
        assert known[name].npu_cores == board.cores


def test_a_board_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        FaultyBoard("rk9999")


def test_the_load_is_what_was_given_or_follows_the_runs(emulated: Boards) -> None:
    made = emulated("rk3588")
    for load, shown in (([63, 65, 64], "63%"), (None, " 7%")):
        made.set_load(load)
        made.image.follow_load([7, 8, 9])
        assert f"Core0: {shown}" in (made.root / "proc/rknpu/load").read_text()
    with pytest.raises(UsageError, match="3 cores"):
        made.set_load([1])


@pytest.mark.adb
def test_clocks_follow_their_governors(adb_server: AdbServer, board: Boards) -> None:
    made = board("rk3588")
    npu, cpu = "/sys/class/devfreq/fdab0000.npu", "/sys/devices/system/cpu/cpufreq/policy4"

    def runs_at(path: str, value: str) -> None:
        end = time.monotonic() + PATIENCE
        while (now := (made.root / path[1:]).read_text().strip()) != value:
            assert time.monotonic() < end, now
            time.sleep(0.01)

    shell(adb_server, made, f"echo userspace > {npu}/governor")
    shell(adb_server, made, f"echo 500000000 > {npu}/userspace/set_freq")
    runs_at(f"{npu}/cur_freq", "500000000")
    runs_at("/proc/rknpu/freq", "500000000")
    shell(adb_server, made, f"echo 5000000000 > {npu}/userspace/set_freq")
    runs_at(f"{npu}/cur_freq", "1000000000")
    shell(adb_server, made, f"echo powersave > {npu}/governor")
    runs_at(f"{npu}/cur_freq", "250000000")
    shell(adb_server, made, f"echo userspace > {cpu}/scaling_governor")
    shell(adb_server, made, f"echo 1200000 > {cpu}/scaling_setspeed")
    runs_at(f"{cpu}/scaling_cur_freq", "1200000")


@pytest.mark.adb
@pytest.mark.parametrize(("chip", "mebibytes"), [("rv1103", 64), ("rv1106", 128)])
def test_a_small_board_is_as_small_as_a_real_one(
    adb_server: AdbServer, board: Boards, tmp_path: Path, chip: str, mebibytes: int
) -> None:
    made = board(chip)
    said = shell(adb_server, made, "cat /proc/meminfo; df -Pk /userdata")
    values = dict(re.findall("([A-Za-z]+): +([0-9]+) kB", said))
    total = int(values["MemTotal"])
    assert 0.9 * mebibytes * 1024 < total < mebibytes * 1024
    assert int(values["MemFree"]) < int(values["MemAvailable"]) < total
    assert int(values["CmaTotal"]) <= total // 4
    assert "131072" in said.splitlines()[-1].split()[1]
    words = f"grep -a -o -m1 'rknn_server version: [ -~]*' {made.image.server}"
    said = shell(adb_server, made, words)
    assert said.strip().endswith("emulated)")
    checks = {each.name: each for each in diagnose(AdbTransport.open(made.address), proc=tmp_path)}
    assert checks["room"].state == checks["memory"].state == "ok"
    assert checks["server"].found.startswith("rknn_server 2.3.2 (emulated) runs")


@pytest.mark.adb
def test_hostile_names_are_sent_as_they_are(adb_server: AdbServer, board: Boards) -> None:
    made = board("rk3588", model=HOSTILE, serial=HOSTILE, product=HOSTILE)
    tree = "/proc/device-tree"
    said = adb_server.adb(
        "-s", made.address, "exec-out", f"cat {tree}/model {tree}/serial-number"
    ).stdout
    assert said == f"{HOSTILE} (emulated)\0{HOSTILE}\0".encode()
