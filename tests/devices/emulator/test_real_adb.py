"""The emulated board as the real adb program sees it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from engine.devices import emulated
from rknntui_emulator.boards import BOARDS
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards

pytestmark = pytest.mark.adb

HOSTILE = "a 'b\" $(touch x) `id`; ü.bin"
"""A file name that no shell may see."""


def test_a_program_has_its_streams_and_its_exit_code(adb_server: AdbServer, board: Boards) -> None:
    made = board("rk3588")
    done = adb_server.adb("-s", made.address, "shell", "cat; echo bad >&2; exit 7", into=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"in\n", b"bad\n")


def test_bytes_pass_unchanged_through_exec(adb_server: AdbServer, board: Boards) -> None:
    made = board("rk3566")
    data = bytes(range(256)) * 300
    (made.root / "userdata" / "all").write_bytes(data)
    assert adb_server.adb("-s", made.address, "exec-out", "cat /userdata/all").stdout == data


@pytest.mark.parametrize("chip", ["rk3588", "rk1808"])
def test_a_file_comes_back_as_it_went(
    adb_server: AdbServer, board: Boards, tmp_path: Path, chip: str
) -> None:
    made = board(chip)
    source, back = tmp_path / HOSTILE, tmp_path / "back"
    source.write_bytes(os.urandom(300_001))
    remote = f"/userdata/new folder/{HOSTILE}"
    assert adb_server.adb("-s", made.address, "push", str(source), remote).returncode == 0
    assert (made.root / remote[1:]).read_bytes() == source.read_bytes()
    assert adb_server.adb("-s", made.address, "pull", remote, str(back)).returncode == 0
    assert back.read_bytes() == source.read_bytes()
    assert not list(made.root.rglob("x"))


def test_an_old_board_has_a_terminal_and_no_exit_code(adb_server: AdbServer, board: Boards) -> None:
    made = board("rk1808")
    done = adb_server.adb("-s", made.address, "shell", "tty; echo one; echo two >&2; exit 7")
    assert done.returncode == 0
    assert re.fullmatch(rb"/dev/pts/\d+\r\none\r\ntwo\r\n", done.stdout)
    assert adb_server.adb("-s", made.address, "exec-out", "true").returncode != 0


def test_every_board_says_what_it_is(adb_server: AdbServer, board: Boards) -> None:
    for chip, facts in BOARDS.items():
        made = board(chip)
        said = adb_server.adb(
            "-s",
            made.address,
            "shell",
            "cat /proc/device-tree/compatible | tr '\\0' ' '; cat /proc/device-tree/model;"
            " echo; uname -m; cat /etc/rknntui-emulated",
        ).stdout.decode()
        compatible, machine, label = said.splitlines()
        assert f"rockchip,{chip}" in compatible
        assert "emulated" in compatible
        assert machine == facts.machine
        assert label.startswith(f"{chip}: this board is emulated")


def test_a_board_that_ended_with_its_worker_is_listed_no_more(adb_server: AdbServer) -> None:
    address, _ = emulated.start("rk3566")
    adb_server.adb("connect", address)
    assert address in adb_server.adb("devices").stdout.decode()
    emulated.close()
    assert address not in adb_server.adb("devices").stdout.decode()
