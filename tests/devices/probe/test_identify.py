"""Which chip a board has, and what else it tells of itself."""

from __future__ import annotations

import pytest

from engine.base.errors import DeviceLostError
from engine.devices.probe.identify import EMULATED_MARK, OTHER_NAMES, chip_of, identify, system_name
from engine.devices.probe.reading import Elf
from engine.facts import chips
from tests.devices.probe.boards import ELF_ARM, ELF_ARM64, Board, android, rk1808, rk3588

ARM64 = Elf("ARM64", 64)


@pytest.mark.parametrize(
    ("entries", "soc", "chip"),
    [
        (["rockchip,rk3588-evb1-lp4-v10", "rockchip,rk3588"], "rk3588", "rk3588"),
        (["radxa,rock-5b", "rockchip,rk3588"], "rk3588", "rk3588"),
        (["orangepi,5", "rockchip,rk3588s"], "rk3588s", "rk3588"),
        (["rockchip,rk3566-evb2-lp4x-v10", "rockchip,rk3566"], "rk3566", "rk3566"),
        (["rockchip,rk3568-evb1-ddr4-v10", "rockchip,rk3568"], "rk3568", "rk3568"),
        (["rockchip,rk3562-evb1-lp4x-v10", "rockchip,rk3562"], "rk3562", "rk3562"),
        (["rockchip,rk3576-evb1-v10", "rockchip,rk3576"], "rk3576", "rk3576"),
        (["rockchip,rv1126b-evb1-v10", "rockchip,rv1126b"], "rv1126b", "rv1126b"),
        (["rockchip,rv1126-evb-ddr3-v13", "rockchip,rv1126"], "rv1126", "rv1126"),
        (["rockchip,rv1109-evb", "rockchip,rv1109"], "rv1109", "rv1109"),
        (["rockchip,rv1103g-38x38-ipc-v10", "rockchip,rv1106"], "rv1103", "rv1103"),
        (["rockchip,rv1103g-38x38-ipc-v10", "rockchip,rv1106g3"], "rv1103", "rv1103"),
        (["rockchip,rv1106g-evb1-v11", "rockchip,rv1106"], "rv1106", "rv1106"),
        (["rockchip,rv1106b-evb", "rockchip,rv1106"], "rv1106b", "rv1106b"),
        (["rockchip,rv1103b-evb"], "rv1103b", "rv1103b"),
        (["rockchip,tb-rk1808m0", "rockchip,rk1808"], "rk1808", "rk1808"),
        (["rockchip,tb-rk1808s0"], "rk1808", "rk1808"),
        (["rockchip,rk1806-evb"], "rk1806", "rk1808"),
        (["rockchip,rk3582-evb"], "rk3582", "rk3588"),
        (["rockchip,rk3399pro-evb-v11", "rockchip,rk3399pro"], "rk3399pro", "rk3399pro"),
        (["rockchip,rk3399-board", "rockchip,rk3399pro"], "rk3399pro", "rk3399pro"),
        (["Rockchip,RK3588"], "rk3588", "rk3588"),
    ],
)
def test_a_chip_is_the_first_entry_with_the_longest_name(
    entries: list[str], soc: str, chip: str
) -> None:
    found = chip_of(entries)
    assert (found.soc, found.chip, found.note) == (soc, chip, "")


def test_every_chip_of_the_table_is_recognised_by_its_own_name() -> None:
    for facts in chips():
        for name in (facts.name, *facts.aliases):
            assert chip_of([f"rockchip,{name}"]).chip == facts.name
    assert set(OTHER_NAMES.values()) <= {facts.name for facts in chips()}


@pytest.mark.parametrize(
    ("entries", "note"),
    [
        (["rockchip,rk3399-evb", "rockchip,rk3399"], "without Pro"),
        (["rk356x"], "several chips"),
        (["raspberrypi,4-model-b", "brcm,bcm2711"], "No known"),
        ([], "No known"),
        (["xrk3588"], "No known"),
    ],
)
def test_no_chip_comes_with_the_reason(entries: list[str], note: str) -> None:
    found = chip_of(entries)
    assert found.chip is None
    assert note in found.note


def test_a_debian_board_tells_everything() -> None:
    found = identify(rk3588())
    assert (found.chip, found.generation) == ("rk3588", 2)
    assert found.compatible == ("rockchip,rk3588-evb1-lp4-v10", "rockchip,rk3588")
    assert found.model == "Rockchip RK3588 EVB1 LP4 V10 Board"
    assert found.serial == "515e9b401c060c0b"
    assert found.system == "Debian GNU/Linux 11 (bullseye)"
    assert (found.kernel, found.machine, found.userland) == ("5.10.160", "aarch64", ARM64)
    assert not found.emulated
    assert not found.thirty_two_on_64
    assert found.android is None


def test_programs_of_32_bits_on_a_kernel_of_64() -> None:
    found = identify(rk3588(files={"/bin/sh": ELF_ARM}))
    assert found.userland == Elf("ARM", 32)
    assert found.thirty_two_on_64


def test_an_old_board_speaks_with_carriage_returns() -> None:
    found = identify(rk1808())
    assert (found.chip, found.generation, found.machine) == ("rk1808", 1, "aarch64")
    assert found.system == "Buildroot 2018.02-rc3"
    assert found.kernel == "4.4.194"
    assert found.userland is None


def test_android_is_known_by_its_properties_where_the_device_tree_is_closed() -> None:
    found = identify(android())
    assert (found.chip, found.android, found.system) == ("rk3588", 31, "Android 12")
    assert (found.model, found.serial) == ("rk3588_s", "c3d9b8674f4b94f6")
    assert found.userland == ARM64
    assert "rk3588" in found.compatible


def test_an_emulated_board_says_so_and_its_programs_are_not_the_boards() -> None:
    found = identify(rk3588(files={EMULATED_MARK: b"", "/bin/sh": ELF_ARM64}))
    assert found.emulated
    assert found.userland is None


def test_an_unknown_board_keeps_its_raw_names() -> None:
    files = {"/sys/firmware/devicetree/base/compatible": b"acme,box\0allwinner,sun50i\0"}
    found = identify(Board(files))
    assert found.chip is None
    assert found.generation is None
    assert found.compatible == ("acme,box", "allwinner,sun50i")
    assert identify(Board()).compatible == ()


def test_the_serial_number_may_be_in_cpuinfo() -> None:
    assert identify(Board({"/proc/cpuinfo": b"x: 1\nSerial\t\t: 0f3e\n"})).serial == "0f3e"


def test_a_lost_board_is_an_error_and_a_closed_file_is_none() -> None:
    with pytest.raises(DeviceLostError):
        identify(Board(lost=DeviceLostError("gone")))
    closed = rk3588(denied=frozenset({"/proc/device-tree/model", "/etc/os-release"}))
    assert identify(closed).model == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('PRETTY_NAME="Ubuntu 22.04.5 LTS"', "Ubuntu 22.04.5 LTS"),
        ("NAME=Buildroot\nVERSION_ID=2021.11\n", "Buildroot 2021.11"),
        ("ID=openwrt", "openwrt"),
        ("", ""),
        ("\x1b[2JNAME", ""),
    ],
)
def test_the_name_of_a_system(text: str, name: str) -> None:
    assert system_name(text) == name
