"""NTB: what the vendor's proxy lists, and what is said where it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import DeviceError, DeviceTimeoutError
from engine.devices.address import Address
from engine.devices.transports import reach
from engine.devices.transports.ntb import (
    NtbDevice,
    ask_proxy,
    proxy_devices,
    proxy_runs,
)
from tests.devices.verbs import program
from tests.safety import PATIENCE

LIST = """I NPUTransfer: Transfer version 2.1.0
List of ntb devices attached
515e9b401c060c0b             2bed0cc1        USB_DEVICE
0123456789ABCDEF             cfbc0c55        PCIE

"""


def proxy(folder: Path, script: str) -> str:
    """A program in the proxy's place."""
    return str(program(folder / "npu_transfer_proxy", script))


def test_the_table_of_the_proxy_is_read() -> None:
    assert proxy_devices(LIST) == (
        NtbDevice("515e9b401c060c0b", "USB_DEVICE"),
        NtbDevice("0123456789ABCDEF", "PCIE"),
    )
    assert proxy_devices("List of ntb devices attached\n") == ()
    assert proxy_devices("515e9b401c060c0b   2bed0cc1   USB_DEVICE") == ()


@given(st.text(max_size=2000))
def test_hostile_text_gives_short_plain_names(text: str) -> None:
    for device in proxy_devices("List of ntb devices attached\n" + text):
        assert len(device.serial) <= 64
        assert device.serial.isascii()
        assert device.serial.isprintable()


def test_a_long_table_is_bounded() -> None:
    rows = "".join(f"id{n}  {n:08x}  USB_DEVICE\n" for n in range(10_000))
    assert len(proxy_devices("List of ntb devices attached\n" + rows)) == 64


def test_the_proxy_is_asked(tmp_path: Path) -> None:
    program = proxy(tmp_path, f"[ \"$1\" = devices ] && cat <<'EOF'\n{LIST}EOF")
    assert [d.serial for d in ask_proxy(program, PATIENCE)] == [
        "515e9b401c060c0b",
        "0123456789ABCDEF",
    ]


def test_a_proxy_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    program = proxy(tmp_path, "printf 'E NPUTransfer: \\033[31mrefused\\n' >&2; exit 1")
    with pytest.raises(DeviceError, match="refused") as caught:
        ask_proxy(program, PATIENCE)
    assert "\x1b" not in str(caught.value)
    with pytest.raises(DeviceError):
        ask_proxy(str(tmp_path / "nothing"), PATIENCE)


def test_a_proxy_that_hangs_is_ended(tmp_path: Path) -> None:
    program = proxy(tmp_path, f"echo $$ >{tmp_path}/pid; exec sleep 1000")
    with pytest.raises(DeviceTimeoutError):
        ask_proxy(program, 0.5)
    written = (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""
    assert not written or not Path(f"/proc/{written.strip()}").exists()


def test_a_proxy_that_never_stops_talking_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(DeviceError):
        ask_proxy(proxy(tmp_path, "exec yes List of ntb devices attached"), PATIENCE)


def test_a_proxy_that_serves_is_seen(tmp_path: Path) -> None:
    sockets = tmp_path / "unix"
    sockets.write_text("Num RefCount\n0000: 2 0 10000 0001 01 1234 @transfer_proxy\n")
    assert proxy_runs(sockets)
    sockets.write_text("Num RefCount\n0000: 2 0 10000 0001 01 1234 @transfer_proxy_other\n")
    assert not proxy_runs(sockets)
    assert not proxy_runs(tmp_path / "nothing")


def test_who_opens_such_a_board_is_told_what_is_missing() -> None:
    with pytest.raises(DeviceError, match="TB-RK1808S0") as caught:
        reach(Address.parse("ntb:TB-RK1808S0"))
    assert "rknn-toolkit" in caught.value.cause
    assert "adb" in caught.value.remedy
