"""What the adb server says, and what the user is told."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from engine.base.errors import (
    DeviceAccessError,
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
)
from engine.devices.transport import Transport
from engine.devices.transports.adb.link import Deadline
from engine.devices.transports.adb.server import AdbServer
from engine.devices.transports.adb.states import UDEV_RULE, attached
from engine.devices.transports.adb.transport import AdbTransport
from tests.devices.adb.stand_in import StandIn, fail, okay

# as adb 29 and adb 36 print it
LIST = (
    "0123456789ABCDEF       device usb:1-1.2 product:rk3588_s model:rk3588_s device:rk3588_s "
    "transport_id:3\n"
    "0123456789ABCDEF       device usb:1-1.3 product:rk3566 model:rk3566 device:rk3566 "
    "transport_id:4\n"
    "c3d9b8674f4b94f6       no permissions (user in plugdev group; are your udev rules wrong?); "
    "see [http://developer.android.com/tools/device.html] usb:1-4 transport_id:5\n"
    "192.168.1.7:5555       offline transport_id:6\n"
    "(no serial number)     unauthorized usb:1-5 transport_id:7\n"
    "????????????           no permissions\n"
    "rec0                   recovery product:a model:b device:c transport_id:8\n"
    "side                   sideload transport_id:9\n"
    "new                    teleporting transport_id:10\n"
)


@pytest.mark.parametrize("text", ["<html>\n", "hello\nworld\n", "\x1b[2J"])
def test_a_list_that_is_none_is_no_empty_one(text: str) -> None:
    with pytest.raises(DeviceError, match="is no adb server"):
        attached(text)
    assert attached("\n") == ()


def test_a_hostile_list_is_bounded() -> None:
    line = "a" * 200 + " device transport_id:99999999999999999999\n"
    found = attached(line * 1000 + "\x1b[2J device\n")
    assert len(found) == 64
    assert {a.transport_id for a in found} == {None}


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("device 'abc' not found", DeviceLostError, "is not there"),
        ("no devices/emulators found", DeviceLostError, "is not there"),
        ("device offline", DeviceLostError, "is offline"),
        ("device still authorizing", DeviceLostError, "is being connected"),
        ("more than one device/emulator", DeviceError, "several boards"),
        (
            "device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set",
            DeviceAccessError,
            "does not accept this machine",
        ),
        (
            "insufficient permissions for device: user in plugdev group",
            DeviceAccessError,
            UDEV_RULE,
        ),
        ("\x1b]0;owned\x07", DeviceError, "refused a request"),
    ],
)
def test_a_refusal_has_its_remedy(text: str, kind: type[DeviceError], told: str) -> None:
    with (
        StandIn({"host-serial:abc:features": fail(text)}) as stand_in,
        pytest.raises(DeviceError) as caught,
    ):
        AdbTransport.open("abc", stand_in.server)
    assert type(caught.value) is kind
    assert told in str(caught.value)
    assert caught.value.remedy
    assert "\x1b" not in str(caught.value)


def test_boards_with_one_serial_are_told_apart_by_number() -> None:
    answers = {
        "host:devices-l": okay(LIST),
        "host-serial:0123456789ABCDEF:features": fail("more than one device/emulator"),
        "host-transport-id:4:get-serialno": okay("0123456789ABCDEF"),
        "host-transport-id:5:get-serialno": okay("c3d9b8674f4b94f6"),
        "host-transport-id:4:features": okay("shell_v2,cmd"),
        "host:transport-id:4": b"OKAY",
        "shell,v2,raw:exec true": lambda handle: handle.sendall(b"OKAY\x03\x01\x00\x00\x00\x00"),
    }
    with StandIn(answers) as stand_in:
        with pytest.raises(DeviceError, match="several boards"):
            AdbTransport.open("0123456789ABCDEF", stand_in.server)
        board: Transport = AdbTransport.open("0123456789ABCDEF#4", stand_in.server)
        assert (board.kind, board.name, board.converses) == ("adb", "0123456789ABCDEF#4", True)
        assert board.run(["true"]).code == 0
        # after a restart of the server the number may be another board's
        with pytest.raises(DeviceLostError, match="is not there"):
            AdbTransport.open("0123456789ABCDEF#5", stand_in.server)


def test_a_server_that_says_nothing_is_given_up() -> None:
    with (
        StandIn({"host:devices-l": lambda handle: handle.recv(1)}) as stand_in,
        pytest.raises(DeviceTimeoutError, match="does not answer"),
    ):
        stand_in.server.boards(Deadline(0.2))


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"OKAYzzzz", b"OK", b""])
def test_what_is_no_adb_server_is_an_error(answer: bytes) -> None:
    with StandIn({"host:devices-l": answer}) as stand_in, pytest.raises(DeviceLostError):
        stand_in.server.boards(Deadline(10))


def test_the_server_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANDROID_ADB_SERVER_HOST", raising=False)
    for text, port in (("5197", 5197), ("", 5037), ("x", 5037), ("99999", 5037)):
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", text)
        assert AdbServer.of_environment() == AdbServer("127.0.0.1", port)


LISTENER = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as another user")
# each is 127.0.0.1 to who connects
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "0.0.0.0", "::ffff:127.0.0.1"],  # noqa: S104
)
def test_a_server_of_another_user_is_refused_by_name(host: str) -> None:
    words = [sys.executable, "-I", "-S", "-c", LISTENER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, text=True, **pipes) as stranger:  # type: ignore[call-overload]
        port = int(stranger.stdout.readline())
        with pytest.raises(DeviceError, match=r"is not yours: it is of .*user 65534"):
            AdbServer(host, port).connect(Deadline(5.0))
        stranger.stdin.close()


def test_the_users_own_server_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        AdbServer(port=own.getsockname()[1]).connect(Deadline(5.0)).close()
