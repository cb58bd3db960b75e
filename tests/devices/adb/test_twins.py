"""What a real adb server cannot be brought to: two boards with one serial number, and no permission
on USB. From the list to a program that runs, against a stand-in of the server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.base.errors import DeviceError, UsageError
from engine.devices.connected import choose
from engine.devices.transports import reach
from engine.devices.transports.adb.states import UDEV_RULE
from tests.devices.adb.stand_in import StandIn, fail, okay
from tests.safety import ends

TWINS = (
    "0123456789ABCDEF device usb:1-1.2 product:a model:left device:a transport_id:3\n"
    "0123456789ABCDEF device usb:1-1.3 product:a model:right device:a transport_id:4\n"
)
FORBIDDEN = (
    "c3d9b867 no permissions (user in plugdev group; are your udev rules wrong?); "
    "see [http://developer.android.com/tools/device.html] usb:1-4 transport_id:5\n"
)


def says(text: str) -> bytes:
    """What a program prints, in the packets of ``shell,v2``, and its exit code 0."""
    data = text.encode()
    return b"OKAY\x01" + len(data).to_bytes(4, "little") + data + b"\x03\x01\0\0\0\0"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The server that this process and its children ask."""
    with StandIn({}) as stand_in, ends():
        monkeypatch.setenv("ANDROID_ADB_SERVER_HOST", stand_in.server.host)
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(stand_in.server.port))
        monkeypatch.delenv("ANDROID_SERIAL", raising=False)
        yield stand_in


def test_twins_are_listed_chosen_and_reached_by_their_ports(server: StandIn) -> None:
    server.answers |= {
        "host:devices-l": okay(TWINS),
        "host-serial:0123456789ABCDEF:features": fail("more than one device/emulator"),
    }
    for port in ("usb:1-1.2", "usb:1-1.3"):
        server.answers |= {
            f"host-serial:{port}:features": okay("shell_v2,cmd"),
            f"host:transport:{port}": b"OKAY",
        }
    with pytest.raises(UsageError, match="There are 2 boards") as caught:
        choose(None)
    assert "adb:usb:1-1.2, adb:usb:1-1.3" in caught.value.remedy
    with pytest.raises(DeviceError, match="several boards") as ambiguous:
        reach(choose("adb:0123456789ABCDEF"))
    assert ambiguous.value.remedy
    for port, name in (("usb:1-1.2", "left"), ("usb:1-1.3", "right")):
        server.answers["shell,v2,raw:exec uname -n"] = says(f"{name}\n")
        server.asked.clear()
        board = reach(choose(f"adb:{port}"))
        assert board.run(["uname", "-n"]).text == f"{name}\n"
        asked = [one for one in server.asked if "transport" in one or "features" in one]
        assert asked
        assert all(port in one for one in asked), "another board was asked"
        board.close()


def test_no_permission_on_usb_has_its_rule(server: StandIn) -> None:
    server.answers["host:devices-l"] = okay(FORBIDDEN)
    with pytest.raises(DeviceError, match="no board that can be used") as caught:
        choose(None)
    assert UDEV_RULE in caught.value.remedy
