"""What adb alone has: an adbd that does not converse, a live list; the rest: test_transports.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import (
    DeviceError,
)
from engine.devices.listing import poll
from engine.devices.transports.adb.transport import AdbTransport
from tests.devices.adb.conftest import Opened
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards

pytestmark = pytest.mark.adb


def test_an_old_board_does_not_converse(board: Boards, opened: Opened) -> None:
    transport = opened(board("rk1808"))
    with pytest.raises(DeviceError, match="cannot be asked") as caught:
        transport.converse(["python3", "/userdata/x"])
    assert "shell_v2" in caught.value.cause


def test_the_live_list_of_a_real_server(
    adb_server: AdbServer, board: Boards, tmp_path: Path
) -> None:
    ready, asks = board("rk3588"), board("rk3566", auth=True, connect=False)
    adb_server.adb("connect", asks.address)
    adb_server.wait(asks.address, "unauthorized")
    hostile = board("rk3562", model="\x1b[2J\u202e $(id)\n", product="a" * 300)
    devices = {d.serial: d for d in poll(usb=tmp_path, device_tree=tmp_path).devices}
    assert devices[ready.address].state == "ready"
    assert devices[ready.address].model == "rk3588_emulated"
    assert "emulated" in devices[ready.address].warnings[0]
    numbered = AdbTransport.open(f"{ready.address}#{devices[ready.address].transport_id}")
    assert numbered.run(["true"]).code == 0
    assert devices[asks.address].state == "unauthorized"
    assert all(
        text.isprintable()
        for text in (devices[hostile.address].model, devices[hostile.address].product)
    )
    with pytest.raises(DeviceError, match="does not accept this machine"):
        AdbTransport.open(asks.address)
