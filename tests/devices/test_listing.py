"""The live list: every state with its remedy, whoever lists the board."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from engine.api.platforms import list_devices
from engine.devices.listing import BOTH_MODES, Device, Listing, poll, usb_devices
from engine.devices.transports.adb.server import AdbServer
from tests.devices.adb.stand_in import StandIn, fail, okay
from tests.devices.adb.test_states import LIST
from tests.devices.verbs import ntb_proxy, program
from tests.safety import PATIENCE

NOBODY = AdbServer("127.0.0.1", 1)


class Usb:
    """A tree like that of sysfs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def plug(
        self,
        port: str,
        product: str,
        serial: str = "",
        *,
        vendor: str = "2207",
        interfaces: tuple[str, ...] = (),
        adb: bool = False,
    ) -> None:
        folder = self.root / port
        folder.mkdir()
        for name, text in (("idVendor", vendor), ("idProduct", product), ("serial", serial)):
            (folder / name).write_text(text + "\n")
        for number, name in enumerate(interfaces):
            part = self.root / f"{port}:1.{number}"
            part.mkdir()
            (part / "interface").write_text(name + "\n")
        if adb:
            part = self.root / f"{port}:1.9"
            part.mkdir()
            for name, text in (("Class", "ff"), ("SubClass", "42"), ("Protocol", "01")):
                (part / f"bInterface{name}").write_text(text + "\n")


@pytest.fixture
def usb(tmp_path: Path) -> Usb:
    return Usb(tmp_path / "usb")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing but what a test puts there, and no adb server."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("ANDROID_ADB_SERVER_HOST", "127.0.0.1")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "1")
    return folder


def found(
    server: AdbServer, usb: Usb, ssh: tuple[str, ...] = (), tree: Path = Path("/nowhere")
) -> dict[str, Device]:
    listing = poll(seconds=PATIENCE, server=server, usb=usb.root, ssh=ssh, device_tree=tree)
    return {device.id: device for device in listing.devices}


def nobody(usb: Usb, **more: bool) -> Listing:
    """What is listed where no adb server answers."""
    return poll(server=NOBODY, usb=usb.root, device_tree=Path("/nowhere"), **more)


def test_every_state_of_adb_is_listed_with_its_remedy(usb: Usb, programs: Path) -> None:
    with StandIn({"host:devices-l": okay(LIST)}) as stand_in:
        devices = found(stand_in.server, usb)
    assert {name: device.state for name, device in devices.items()} == {
        "adb:usb:1-1.2": "ready",
        "adb:usb:1-1.3": "ready",
        "adb:c3d9b8674f4b94f6": "no permissions",
        "adb:192.168.1.7:5555": "offline",
        "adb:usb:1-5": "unauthorized",
        "adb:????????????": "unknown",
        "adb:rec0": "recovery",
        "adb:side": "sideload",
        "adb:new": "unknown",
    }
    assert all(d.remedy and d.cause for d in devices.values() if d.state != "ready")
    assert "udev" in devices["adb:c3d9b8674f4b94f6"].remedy
    board = devices["adb:usb:1-1.2"]
    assert (board.product, board.model, board.device) == ("rk3588_s", "rk3588_s", "rk3588_s")
    assert (board.transport_id, board.address, board.usable) == (3, "usb:1-1.2", True)
    assert board.serial == "0123456789ABCDEF"
    assert "serial number" in board.warnings[0]
    assert "authentication" in devices["adb:192.168.1.7:5555"].warnings[0]


def test_what_a_board_says_of_itself_is_printable(usb: Usb, programs: Path) -> None:
    odd = "\x1b]0;owned\x07\u202e"
    text = f"a{odd} device usb:1-9 product:b{odd} model:c{odd} device:d{odd} transport_id:3\n"
    with StandIn({"host:devices-l": okay(text)}) as stand_in:
        (board,) = found(stand_in.server, usb).values()
    assert (board.id, board.state) == ("adb:usb:1-9", "ready")
    for shown in (board.serial, board.product, board.model, board.device):
        assert "owned" in shown
        assert shown.isprintable()


def test_boards_with_one_serial_and_no_port_have_numbers(usb: Usb, programs: Path) -> None:
    text = "10.0.0.1:5555 device transport_id:3\n10.0.0.1:5555 offline transport_id:4\n"
    with StandIn({"host:devices-l": okay(text)}) as stand_in:
        devices = found(stand_in.server, usb)
    assert list(devices) == ["adb:10.0.0.1:5555#3", "adb:10.0.0.1:5555#4"]
    assert "#" in devices["adb:10.0.0.1:5555#3"].warnings[0]


def test_no_server_is_a_notice(usb: Usb, programs: Path) -> None:
    listing = nobody(usb)
    assert listing.devices == ()
    assert "no adb program on the PATH" in listing.notices[0].what
    program(programs / "adb", "exit 1")
    listing = nobody(usb)
    assert listing.notices[0].remedy == "Run `adb start-server`."
    listing = nobody(usb, start_server=True)
    assert "could not be started" in listing.notices[0].what


def test_a_server_that_hangs_or_refuses_is_a_notice(usb: Usb, programs: Path) -> None:
    with StandIn({"host:devices-l": lambda handle: handle.recv(1)}) as stand_in:
        listing = poll(seconds=0.2, server=stand_in.server, usb=usb.root)
    assert "does not answer" in listing.notices[0].what
    with StandIn({"host:devices-l": fail("no")}) as stand_in:
        listing = poll(seconds=PATIENCE, server=stand_in.server, usb=usb.root)
    assert listing.notices[0].remedy


def test_usb_shows_what_no_transport_lists(usb: Usb, programs: Path) -> None:
    usb.plug("1-1", "350b")
    usb.plug("1-2", "180a", "x")
    usb.plug("1-3.1", "1808", "TB-RK1808S0")
    usb.plug("1-4", "0019", "both", interfaces=("NTB Interface", "ADB Interface"), adb=True)
    usb.plug("1-5", "0018", "camera", interfaces=("UVC",))
    usb.plug("1-6", "0006", "515e9b401c060c0b", adb=True)
    usb.plug("1-7", "350b", vendor="1d6b")
    usb.plug("usb1", "0002")
    devices = found(NOBODY, usb)
    assert {name: device.state for name, device in devices.items()} == {
        "usb:1-1": "flash mode",
        "usb:1-2": "flash mode",
        "ntb:TB-RK1808S0": "needs the vendor's toolkit",
        "ntb:both": "needs the vendor's toolkit",
        "usb:1-4": "not listed",
        "usb:1-5": "no adb",
        "usb:1-6": "not listed",
    }
    assert "rk3588" in devices["usb:1-1"].what
    assert "not booted" in devices["usb:1-2"].what
    assert all(d.remedy and d.cause and not d.usable for d in devices.values())
    assert devices["ntb:TB-RK1808S0"].address == "usb:1-3.1"


def test_a_board_that_adb_lists_is_not_listed_again(usb: Usb, programs: Path) -> None:
    usb.plug("1-1.2", "0006", adb=True)
    usb.plug("1-9", "0006", "rec0", adb=True)
    with StandIn({"host:devices-l": okay(LIST)}) as stand_in:
        assert not any(name.startswith("usb:") for name in found(stand_in.server, usb))


def test_hostile_text_of_a_usb_device_is_made_safe(usb: Usb, programs: Path) -> None:
    usb.plug("1-1", "0018", "\x1b[2J\u202eevil\n" + "x" * 10_000)
    usb.plug("1-2", "0006")
    (usb.root / "1-2" / "serial").unlink()
    (usb.root / "1-2" / "serial").mkdir()
    first, second = usb_devices(usb.root)
    assert first.serial.isprintable()
    assert len(first.serial) <= 256
    assert second.serial == ""
    assert usb_devices(usb.root / "nothing") == ()


def test_ntb_boards_come_from_the_proxy_too(usb: Usb, programs: Path) -> None:
    usb.plug("1-3", "1808", "TB-RK1808S0")
    ntb_proxy(programs, "TB-RK1808S0 2bed0cc1 USB_DEVICE", "0123456789ABCDEF cfbc0c55 PCIE")
    with StandIn({"host:devices-l": okay("abc device transport_id:1\n")}) as stand_in:
        listing = poll(
            seconds=PATIENCE, server=stand_in.server, usb=usb.root, device_tree=Path("/nowhere")
        )
    assert listing.names("ntb") == ["0123456789ABCDEF", "TB-RK1808S0"]
    assert [notice.what for notice in listing.notices] == [BOTH_MODES]
    assert listing.devices[1].address == "PCIE"


def test_a_proxy_that_fails_is_a_notice(usb: Usb, programs: Path) -> None:
    program(programs / "npu_transfer_proxy", "echo 'zombie'; exit 1")
    listing = nobody(usb)
    assert [notice.code for notice in listing.notices] == ["adb-server", "ntb-proxy"]
    assert "zombie" in listing.notices[1].what


def test_this_machine_and_ssh_addresses_are_listed(
    usb: Usb, programs: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "compatible").write_bytes(b"radxa,rock-5b\0rockchip,rk3588\0")
    (tree / "model").write_bytes(b"Radxa ROCK 5B\0")
    devices = found(NOBODY, usb, ssh=("ssh:pi@board:2222", "ssh:pi@board:2222"), tree=tree)
    assert list(devices) == ["local", "ssh:pi@board:2222"]
    assert devices["local"].model == "Radxa ROCK 5B"
    assert (devices["local"].product, devices["local"].device) == (
        "radxa,rock-5b",
        "rockchip,rk3588",
    )
    assert all(device.usable for device in devices.values())
    (tree / "compatible").write_bytes(b"raspberrypi,5\0brcm,bcm2712\0")
    assert list(found(NOBODY, usb, tree=tree)) == []


def test_the_manuals_form(
    usb: Usb, programs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[RKNN-T1 1.3.2, 3.6.15; RKNN-T2 2.3.0, 2.14]."""
    ntb_proxy(programs, "TB-RK1808S0 2bed0cc1 USB_DEVICE")
    log = logging.getLogger("test list_devices")
    text = "VD46C3KM6N device transport_id:1\nXGOR2N4EZR device transport_id:2\nx offline\n"
    with StandIn({"host:devices-l": okay(text)}) as stand_in:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(stand_in.server.port))
        assert list_devices(log) == (["VD46C3KM6N", "XGOR2N4EZR"], ["TB-RK1808S0"])
    told = [record.getMessage() for record in caplog.records]
    assert any(BOTH_MODES in line for line in told)
    assert any("The board x is offline." in line for line in told)
    assert told[-1] == os.linesep.join(
        [
            "*" * 25,
            "all device(s) with adb mode:",
            "VD46C3KM6N,XGOR2N4EZR",
            "all device(s) with ntb mode:",
            "TB-RK1808S0",
            "*" * 25,
        ]
    )
