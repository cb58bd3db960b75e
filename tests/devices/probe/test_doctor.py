"""The board's doctor: order, findings and fixes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import (
    DeviceLostError,
    DeviceTimeoutError,
    JobCancelledError,
    RuntimeLibraryError,
)
from engine.devices.doctor.case import copy_command, shell_command
from engine.devices.doctor.diagnose import STEPS, diagnose
from engine.devices.doctor.resource_checks import parse_listing, parse_user
from engine.devices.probe.compatibility import ModelFacts
from engine.devices.probe.identify import EMULATED_MARK
from engine.devices.probe.state import read_state
from engine.devices.transport import Completed
from engine.wire.codec import encode, typed
from engine.wire.doctor import Check
from tests.devices.probe.boards import DF, ELF_ARM, RUNTIME_2, Board, android, rk1808, rk3588


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """``/proc`` of a machine without a proxy of the vendor's."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "unix").write_text("Num RefCount Protocol Flags Type St Inode Path\n")
    return tmp_path


ADB = "adb -s 515e9b401c060c0b"
TCP = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:13AD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
"""
USER = b"uid=1000(pi) gid=1000(pi) groups=1000(pi),44(video)\n"
LIBRARY, SERVER = "/usr/lib/librknnrt.so", "/usr/bin/rknn_server"
DRIVER = "/sys/kernel/debug/rknpu/version"
MINE = ModelFacts("net", 2, ("rk3588",), "2.3.2", container=6)
NEWER = ModelFacts("net", 2, ("rk3588",), "2.9.0")
OLDER = ModelFacts(toolkit="2.3.0")
LARGE = ModelFacts(size=9 << 30)


TREE = "/proc/device-tree/compatible"
RK3399PRO = b"rockchip,rk3399pro-evb\0rockchip,rk3399pro\0"
RV1106 = {
    TREE: b"rockchip,rv1106g-evb1-v11\0rockchip,rv1106\0",
    "/proc/meminfo": b"MemTotal: 60000 kB\nMemFree: 3000 kB\nCached: 1000 kB\n",
}
DEAF = {"/proc/net/tcp": TCP.replace(b"13AD", b"0016"), "/proc/net/tcp6": b"  sl\n"}
NODES = {
    "/sys/class/drm/renderD128/device/uevent": b"DRIVER=RKNPU\n",
    "/sys/class/drm/renderD129/device/uevent": b"DRIVER=mali\n",
}
NONE = {"ls -l /dev/dri /dev/rknpu": Completed(2, b"ls: /dev/rknpu: No such file\n")}


def case(name: str, states: str, board: Board, *words: str, model: Any = None) -> Any:
    """States of a check's findings, and what they say; commands stand between ``$`` and a stop."""
    return pytest.param(name, states, board, words, model, id=f"{name}: {states}")


def has(path: str, content: bytes | None) -> Board:
    return rk3588({path: content})


def says(program: str, answer: bytes | Completed) -> Board:
    return rk3588(programs={program: answer})


def runtime(release: bytes) -> Board:
    return has(LIBRARY, RUNTIME_2.replace(b"2.3.2", release))


FOUND = [
    case("chip", "bad", Board({TREE: b"acme,x\0allwinner,sun50i\0"}), "acme,x, allwinner,sun50i"),
    case("chip", "bad", Board({TREE: b"acme,x\0"}), "rk3588"),
    case("runtime", "bad", has(LIBRARY, ELF_ARM + RUNTIME_2), "is built for ARM (32 bits), and"),
    case("runtime", "bad", has(LIBRARY, None), f"$ {ADB} push librknnrt.so {LIBRARY}."),
    case("versions", "note", rk3588(), "librknnrt 2.3.2 is older than toolkit 2.9.0", model=NEWER),
    case("versions", "note", rk3588(), "Try it", model=NEWER),
    case("versions", "ok", rk3588(), "they fit the model, built by toolkit 2.3.0 ", model=OLDER),
    case("versions", "bad ok", runtime(b"1.4.0"), "does not load models", "$ adb", model=MINE),
    case("versions", "ok", runtime(b"1.6.0"), "$ .", model=MINE),
    case("versions", "note note", has(DRIVER, b"RKNPU driver: v0.8.2\n"), model=NEWER),
    case("server", "note", says("ps -ef", b"PID CMD\n1 init\n"), f"$ {ADB} shell start_rknn.sh."),
    case("server", "note", has(SERVER, None), f"push rknn_server {SERVER}.", "PC toolkit"),
    # an adbd that the vendor's server does not reach
    case("server", "note", rk3588(DEAF), "port 5037 of the board"),
    case("server", "ok", has("/proc/net/tcp", TCP)),
    case("server", "note", has("/proc/net/tcp", TCP.replace(b" 0A ", b" 06 "))),
    case(
        "driver", "bad", has("/sys/class/accel/accel0/device/uevent", b"DRIVER=rocket\n"), "rocket"
    ),
    case("driver", "note", android()),
    case("device files", "bad", says("id", USER), "not usable as pi"),
    case("device files", "bad", says("id", USER), f"$ {ADB} shell sudo usermod -aG render pi."),
    case("device files", "ok", says("id", USER.replace(b"44(video)", b"105(render)"))),
    case("device files", "ok", rk3588(NODES), "renderD128 "),
    case("device files", "note", rk3588(programs=NONE)),
    case("device files", "skipped", has(EMULATED_MARK, b"")),
    case("transport", "ok", has(EMULATED_MARK, b""), "(emulated)"),
    case("transport", "note", rk3588(name="192.168.1.20:5555"), "no password"),
    # RK3399Pro needs the proxy on the board
    case("server", "skipped", rk3588({TREE: RK3399PRO, SERVER: None})),
    case("ntb and adb", "bad", has(TREE, RK3399PRO), f"$ {ADB} shell sudo npu_transfer_proxy"),
    case(
        "ntb and adb",
        "ok",
        rk3588({TREE: RK3399PRO}, {"ps -ef": b"PID CMD\n77 npu_transfer_proxy\n"}),
    ),
    # without an agent no model runs here
    case("agent", "ok", rk3588(), "agent-aarch64, for ARM64 (64 bits)"),
    case("agent", "bad", has("/lib/ld-linux-aarch64.so.1", None), "of the NDK on Android"),
    case("agent", "bad", android(), "of the NDK on Android"),
    case("room", "note", says("df", DF.replace(b"8000000", b"1000"))),
    case("room", "note", says("df", Completed(1, b"df: not found"))),
    case("room", "bad", rk3588(), model=LARGE),
    case("memory", "bad", rk3588(), model=LARGE),
    case("memory", "note", rk3588(RV1106), f"$ {ADB} shell RkLunch-stop.sh."),
]


@pytest.mark.parametrize(("name", "states", "board", "words", "model"), FOUND)
def test_what_is_found_of_a_board(
    name: str, states: str, board: Board, words: tuple[str, ...], model: Any, proc: Path
) -> None:
    checks = [check for check in diagnose(board, model=model, proc=proc) if check.name == name]
    assert " ".join(check.state for check in checks) == states
    told = "".join(f"{c.found} {c.remedy} $ {'; '.join(c.commands)}." for c in checks)
    assert all(word in told for word in words), told


@pytest.fixture
def examined(proc: Path) -> Callable[..., dict[str, Check]]:
    """The checks of a board, by their names."""

    def examine(board: Board, **more: Any) -> dict[str, Check]:
        return {check.name: check for check in diagnose(board, proc=proc, **more)}

    return examine


Examined = Callable[..., dict[str, Check]]


def test_a_healthy_board_in_the_order_of_the_steps(examined: Examined) -> None:
    found = examined(rk3588(), test=lambda _: "10 numbers as expected")
    assert list(found) == list(STEPS)
    assert [name for name, check in found.items() if check.state != "ok"] == ["memory"]
    assert found["memory"].state == "note", "the NPU is busy"
    for name, words in (
        ("memory", "63%, 65%, 64%"),
        ("transport", "Debian"),
        ("server", "rknn_server 2.3.2 runs, process 321"),
        ("runtime", "librknnrt 2.3.2"),
        ("driver", "rknpu 0.9.8"),
        ("device files", "renderD129 (rw-rw----, root, render), usable as root"),
        ("room", "7.63 GiB free in /userdata"),
        ("test tensor", "10 numbers as expected"),
    ):
        assert words in found[name].found
    for check in found.values():
        assert typed(Check, encode(check)) == check


def test_a_board_that_is_lost_ends_at_the_transport(examined: Examined) -> None:
    lost = DeviceLostError("The board has gone.", cause="The cable.", remedy="Plug it in.")
    found = examined(Board(lost=lost))
    assert list(found) == list(STEPS)
    first, *rest = found.values()
    assert first == Check("transport", "bad", "The board has gone.", "The cable. Plug it in.")
    assert {check.state for check in rest} == {"skipped"}


def test_a_step_that_hangs_is_named_and_the_rest_is_skipped(examined: Examined) -> None:
    hung = DeviceTimeoutError("ps did not end within 10 s.")
    found = examined(rk3588(programs={"ps": hung, "ps -ef": hung}))
    states = [found[name].state for name in ("transport", "chip", "server", "memory")]
    assert states == ["ok", "ok", "bad", "skipped"]


def test_without_a_runtime_there_is_no_test(examined: Examined) -> None:
    def never(_transport: object) -> str:
        raise AssertionError("there is nothing to run it")

    found = examined(rk3588(files={LIBRARY: None}), test=never)
    assert found["versions"].state == "skipped"
    assert (found["test tensor"].state, found["test tensor"].found) == ("skipped", "runtime first")


def test_checks_are_told_one_by_one_and_a_cancellation_passes(proc: Path) -> None:
    def cancel(_transport: object) -> str:
        raise JobCancelledError("The user cancelled it.")

    told: list[Check] = []
    with pytest.raises(JobCancelledError):
        told.extend(diagnose(rk3588(), test=cancel, proc=proc))  # those before it stay
    assert [check.name for check in told] == list(STEPS[:-1])


def test_android_is_made_writable_first(examined: Examined) -> None:
    board = android()
    board.files = {p: c for p, c in board.files.items() if "librknnrt" not in p}
    assert examined(board)["runtime"].commands == (
        f"{ADB} root",
        f"{ADB} remount",
        f"{ADB} shell setenforce 0",
        f"{ADB} push librknnrt.so /vendor/lib64/librknnrt.so",
    )
    assert read_state(board, "rk3588").reason("npu_load") == "root only"


def test_listings_of_several_systems() -> None:
    texts = [
        "crw-rw---- 1 root render 226, 129 Jan  1 00:00 renderD129",
        "crw-rw-rw- 1 0 0 10, 58 Jan 1 1970 /dev/rknpu",
        "crw-rw---- root     graphics 226, 129 2020-01-01 00:00 renderD129",
        "crw-rw----+ 1 root render 226, 129 Jan  1 00:00 renderD129",
    ]
    for text in texts:
        (file,) = parse_listing(text + "\r\n".strip("\r"))
        assert file.mode.startswith("rw-rw-")
        assert file.name in ("renderD129", "rknpu")
    assert parse_listing("drwxr-xr-x 2 root root 80 Jan 1 dri\n") == ()
    user = parse_user("uid=0(root) gid=0(root) groups=0(root) context=u:r:su:s0")
    assert user is not None
    assert user.root
    assert parse_user("id: not found") is None


def test_a_proxy_on_this_machine_disturbs_the_vendors_adb(proc: Path, examined: Examined) -> None:
    (proc / "4711").mkdir()
    text = "ffff: 00000002 00000000 00010000 0001 01 5555 @transfer_proxy\n"
    (proc / "net" / "unix").write_text(text)
    for name, commands in (("npu_transfer_pr", ("kill 4711",)), ("bash", ())):
        (proc / "4711" / "comm").write_text(f"{name}\n")
        check = examined(rk3588())["ntb and adb"]
        assert (check.state, check.commands) == ("note", commands)
        assert "@transfer_proxy" in check.found or commands


def test_a_test_that_fails_is_told_with_its_fix(examined: Examined) -> None:
    def refused(_transport: object) -> str:
        raise RuntimeLibraryError("rknn_init failed.", cause="Too old.", remedy="Update it.")

    check = examined(rk3588(), test=refused)["test tensor"]
    assert check == Check("test tensor", "bad", "rknn_init failed.", "Too old. Update it.")


def test_an_old_board_is_examined_as_well(examined: Examined) -> None:
    found = examined(rk1808())
    names = ("server", "runtime", "driver", "versions")
    assert {found[name].state for name in names} == {"ok"}
    assert "galcore 6.4.6.5.351518" in found["driver"].found


def test_nothing_that_changes_a_board_is_run(proc: Path) -> None:
    reading = {"read", "grep", "ps", "dmesg", "uname", "getprop", "ls", "id", "df"}
    for board in (rk3588(), rk1808(), android(), Board()):
        tuple(diagnose(board, model=ModelFacts(size=1 << 20), proc=proc))
        assert {asked[0] for asked in board.asked} <= reading


@pytest.mark.parametrize(
    ("kind", "name", "shell", "copy"),
    [
        ("adb", "TM01 8", "adb -s 'TM01 8' shell id", "adb -s 'TM01 8' push a.so /b"),
        ("adb", "0123456789ABCDEF#7", "adb -t 7 shell id", "adb -t 7 push a.so /b"),
        ("ssh", "pi@board", "ssh pi@board id", "scp a.so pi@board:/b"),
        ("ssh", "board:2222", "ssh -p 2222 board id", "scp -P 2222 a.so board:/b"),
        ("ssh", "fe80::1", "ssh fe80::1 id", "scp a.so fe80::1:/b"),
        ("ssh", "[fe80::1]:22", "ssh -p 22 '[fe80::1]' id", "scp -P 22 a.so '[fe80::1]:/b'"),
        ("local", "", "id", "sudo cp a.so /b"),
        ("adb", "$(reboot)", "adb -s '$(reboot)' shell id", "adb -s '$(reboot)' push a.so /b"),
    ],
)
def test_commands_are_safe_to_copy(kind: str, name: str, shell: str, copy: str) -> None:
    board = dataclasses.replace(Board(), kind=kind, name=name)  # type: ignore[arg-type]
    assert shell_command(board, ["id"]) == shell
    assert copy_command(board, "a.so", "/b") == copy
