"""The board's doctor: order, findings and fixes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

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


def only(found: Iterable[Check], name: str) -> Check:
    (check,) = [check for check in found if check.name == name]
    return check


def test_a_healthy_board_in_the_order_of_the_steps(proc: Path) -> None:
    found = tuple(diagnose(rk3588(), test=lambda _: "10 numbers as expected", proc=proc))
    assert [check.name for check in found] == list(STEPS)
    assert {check.state for check in found} == {"ok", "note"}, found
    assert only(found, "memory").state == "note", "the NPU is busy"
    assert "63%, 65%, 64%" in only(found, "memory").found
    assert "Debian" in only(found, "transport").found
    assert only(found, "server").found == "rknn_server 2.3.2 runs, process 321"
    assert "librknnrt 2.3.2" in only(found, "runtime").found
    assert "rknpu 0.9.8" in only(found, "driver").found
    files = only(found, "device files").found
    assert files == "renderD129 (rw-rw----, root, render), usable as root"
    assert only(found, "room").found.startswith("7.63 GiB free in /userdata")
    assert only(found, "test tensor").found == "10 numbers as expected"


def test_the_checks_are_those_of_the_machines_doctor(proc: Path) -> None:
    for check in diagnose(rk3588(), proc=proc):
        assert typed(Check, encode(check)) == check


def test_a_board_that_is_lost_ends_at_the_transport(proc: Path) -> None:
    lost = DeviceLostError("The board has gone.", cause="The cable.", remedy="Plug it in.")
    found = tuple(diagnose(Board(lost=lost), proc=proc))
    assert [check.name for check in found] == list(STEPS)
    first, *rest = found
    assert (first.state, first.found, first.remedy) == (
        "bad",
        "The board has gone.",
        "The cable. Plug it in.",
    )
    assert {check.state for check in rest} == {"skipped"}


def test_a_step_that_hangs_is_named_and_the_rest_is_skipped(proc: Path) -> None:
    hung = DeviceTimeoutError("ps did not end within 10 s.")
    found = tuple(diagnose(rk3588(programs={"ps": hung, "ps -ef": hung}), proc=proc))
    states = {check.name: check.state for check in found}
    assert states["transport"] == states["chip"] == "ok"
    assert states["server"] == "bad"
    assert states["memory"] == "skipped"


def test_an_unknown_chip_shows_what_the_board_says(proc: Path) -> None:
    files = {"/proc/device-tree/compatible": b"acme,x\0allwinner,sun50i\0"}
    check = only(diagnose(Board(files), proc=proc), "chip")
    assert check.state == "bad"
    assert "acme,x, allwinner,sun50i" in check.found
    assert "rk3588" in check.remedy


def test_without_a_runtime_there_is_a_command_and_no_test(proc: Path) -> None:
    def never(_transport: object) -> str:
        raise AssertionError("there is nothing to run it")

    board = rk3588(files={"/usr/lib/librknnrt.so": None})
    found = tuple(diagnose(board, test=never, proc=proc))
    check = only(found, "runtime")
    assert check.state == "bad"
    assert check.commands == ("adb -s 515e9b401c060c0b push librknnrt.so /usr/lib/librknnrt.so",)
    assert only(found, "test tensor").state == "skipped"
    assert only(found, "test tensor").found == "runtime first"
    assert only(found, "versions").state == "skipped"


def test_a_library_of_the_wrong_architecture(proc: Path) -> None:
    board = rk3588(files={"/usr/lib/librknnrt.so": ELF_ARM + RUNTIME_2})
    check = only(diagnose(board, proc=proc), "runtime")
    assert check.state == "bad"
    assert "is built for ARM (32 bits), and programs here for ARM64 (64 bits)" in check.found


def test_a_runtime_older_than_the_models_toolkit(proc: Path) -> None:
    model = ModelFacts("net", 2, ("rk3588",), "2.9.0")
    check = only(diagnose(rk3588(), model=model, proc=proc), "versions")
    assert check.state == "note"
    assert "librknnrt 2.3.2 is older than toolkit 2.9.0" in check.found
    assert "Try it" in check.remedy
    fits = only(diagnose(rk3588(), model=ModelFacts(toolkit="2.3.0"), proc=proc), "versions")
    assert (fits.state, fits.found) == ("ok", "they fit the model, built by toolkit 2.3.0")


def test_a_runtime_that_does_not_load_the_models_container(proc: Path) -> None:
    model = ModelFacts("net", 2, ("rk3588",), "2.3.2", container=6)
    for release, state in (("1.4.0", "bad"), ("1.6.0", "ok")):
        library = RUNTIME_2.replace(b"2.3.2", release.encode())
        board = rk3588(files={"/usr/lib/librknnrt.so": library})
        checks = [c for c in diagnose(board, model=model, proc=proc) if c.name == "versions"]
        assert checks[0].state == state
        assert any("does not load models" in c.found for c in checks) == (state == "bad")
        assert any(c.commands for c in checks) == (state == "bad")


def test_several_findings_are_several_checks(proc: Path) -> None:
    model = ModelFacts("net", 2, ("rk3588",), "2.9.0")
    files = {"/sys/kernel/debug/rknpu/version": b"RKNPU driver: v0.8.2\n"}
    found = tuple(diagnose(rk3588(files=files), model=model, proc=proc))
    states = [check.state for check in found if check.name == "versions"]
    assert states == ["note", "note"]


def test_a_server_that_does_not_run_and_one_that_is_not_there(proc: Path) -> None:
    idle = only(
        tuple(diagnose(rk3588(programs={"ps -ef": b"PID CMD\n1 init\n"}), proc=proc)), "server"
    )
    assert idle.state == "note"
    assert idle.commands == ("adb -s 515e9b401c060c0b shell start_rknn.sh",)
    none = only(diagnose(rk3588(files={"/usr/bin/rknn_server": None}), proc=proc), "server")
    assert none.state == "note"
    assert none.commands[-1].endswith("push rknn_server /usr/bin/rknn_server")
    assert "PC toolkit" in none.remedy


TCP = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:13AD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
"""


def test_an_adbd_that_the_vendors_server_does_not_reach(proc: Path) -> None:
    deaf = {"/proc/net/tcp": TCP.replace(b"13AD", b"0016"), "/proc/net/tcp6": b"  sl\n"}
    check = only(diagnose(rk3588(files=deaf), proc=proc), "server")
    assert check.state == "note"
    assert "port 5037 of the board" in check.found
    assert only(diagnose(rk3588(files={"/proc/net/tcp": TCP}), proc=proc), "server").state == "ok"
    closing = {"/proc/net/tcp": TCP.replace(b" 0A ", b" 06 ")}
    assert only(diagnose(rk3588(files=closing), proc=proc), "server").state == "note"


def test_checks_are_told_one_by_one_and_a_cancellation_passes(proc: Path) -> None:
    def cancel(_transport: object) -> str:
        raise JobCancelledError("The user cancelled it.")

    told: list[Check] = []
    with pytest.raises(JobCancelledError):
        told.extend(diagnose(rk3588(), test=cancel, proc=proc))  # those before it stay
    assert [check.name for check in told] == list(STEPS[:-1])


def test_android_is_made_writable_first(proc: Path) -> None:
    board = android()
    board.files = {p: c for p, c in board.files.items() if "librknnrt" not in p}
    found = tuple(diagnose(board, proc=proc))
    assert only(found, "runtime").commands == (
        "adb -s 515e9b401c060c0b root",
        "adb -s 515e9b401c060c0b remount",
        "adb -s 515e9b401c060c0b shell setenforce 0",
        "adb -s 515e9b401c060c0b push librknnrt.so /vendor/lib64/librknnrt.so",
    )
    assert only(found, "driver").state == "note"
    assert read_state(board, "rk3588").reason("npu_load") == "root only"


def test_the_kernels_own_driver_cannot_be_used(proc: Path) -> None:
    files = {"/sys/class/accel/accel0/device/uevent": b"DRIVER=rocket\n"}
    check = only(diagnose(rk3588(files=files), proc=proc), "driver")
    assert check.state == "bad"
    assert "rocket" in check.found


USER = b"uid=1000(pi) gid=1000(pi) groups=1000(pi),44(video)\n"


def test_device_files_of_a_user_who_is_not_in_the_group(proc: Path) -> None:
    check = only(diagnose(rk3588(programs={"id": USER}), proc=proc), "device files")
    assert check.state == "bad"
    assert "not usable as pi" in check.found
    assert check.commands == ("adb -s 515e9b401c060c0b shell sudo usermod -aG render pi",)
    member = USER.replace(b"44(video)", b"105(render)")
    assert only(diagnose(rk3588(programs={"id": member}), proc=proc), "device files").state == "ok"


def test_the_render_node_is_that_of_the_npus_driver(proc: Path) -> None:
    files = {
        "/sys/class/drm/renderD128/device/uevent": b"DRIVER=RKNPU\n",
        "/sys/class/drm/renderD129/device/uevent": b"DRIVER=mali\n",
    }
    check = only(diagnose(rk3588(files=files), proc=proc), "device files")
    assert check.found.startswith("renderD128")


def test_no_device_file_and_an_emulated_board(proc: Path) -> None:
    none = {"ls -l /dev/dri /dev/rknpu": Completed(2, b"ls: /dev/rknpu: No such file\n")}
    assert only(diagnose(rk3588(programs=none), proc=proc), "device files").state == "note"
    board = rk3588(files={EMULATED_MARK: b""})
    found = tuple(diagnose(board, proc=proc))
    assert only(found, "device files").state == "skipped"
    assert "(emulated)" in only(found, "transport").found


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


def test_a_proxy_on_this_machine_disturbs_the_vendors_adb(proc: Path) -> None:
    (proc / "4711").mkdir()
    (proc / "4711" / "comm").write_text("npu_transfer_pr\n")
    text = "ffff: 00000002 00000000 00010000 0001 01 5555 @transfer_proxy\n"
    (proc / "net" / "unix").write_text(text)
    check = only(diagnose(rk3588(), proc=proc), "ntb and adb")
    assert check.state == "note"
    assert check.commands == ("kill 4711",)
    (proc / "4711" / "comm").write_text("bash\n")
    other = only(diagnose(rk3588(), proc=proc), "ntb and adb")
    assert other.state == "note"
    assert "@transfer_proxy" in other.found
    assert other.commands == ()


def test_rk3399pro_needs_the_proxy_on_the_board(proc: Path) -> None:
    tree = {"/proc/device-tree/compatible": b"rockchip,rk3399pro-evb\0rockchip,rk3399pro\0"}
    found = tuple(diagnose(rk3588(files={**tree, "/usr/bin/rknn_server": None}), proc=proc))
    assert only(found, "server").state == "skipped"
    check = only(found, "ntb and adb")
    assert check.state == "bad"
    assert check.commands[0].endswith("shell sudo npu_transfer_proxy")
    runs = {"ps -ef": b"PID CMD\n77 npu_transfer_proxy\n"}
    assert only(diagnose(rk3588(files=tree, programs=runs), proc=proc), "ntb and adb").state == "ok"


def test_without_an_agent_no_model_runs_here(proc: Path) -> None:
    check = only(diagnose(rk3588(), proc=proc), "agent")
    assert check.state == "ok"
    assert check.found.endswith("agent-aarch64, for ARM64 (64 bits)")
    for board in (rk3588(files={"/lib/ld-linux-aarch64.so.1": None}), android()):
        check = only(diagnose(board, proc=proc), "agent")
        assert check.state == "bad"
        assert "of the NDK on Android" in check.remedy


def test_room_and_memory_against_a_model(proc: Path) -> None:
    full = DF.replace(b"8000000", b"1000")
    note = only(diagnose(rk3588(programs={"df": full}), proc=proc), "room")
    assert note.state == "note"
    large = ModelFacts(size=9 << 30)
    found = tuple(diagnose(rk3588(), model=large, proc=proc))
    assert only(found, "room").state == "bad"
    assert only(found, "memory").state == "bad"
    unknown = Completed(1, b"df: not found")
    assert only(diagnose(rk3588(programs={"df": unknown}), proc=proc), "room").state == "note"


def test_a_small_board_is_told_what_takes_its_memory(proc: Path) -> None:
    files = {
        "/proc/device-tree/compatible": b"rockchip,rv1106g-evb1-v11\0rockchip,rv1106\0",
        "/proc/meminfo": b"MemTotal: 60000 kB\nMemFree: 3000 kB\nCached: 1000 kB\n",
    }
    check = only(diagnose(rk3588(files=files), proc=proc), "memory")
    assert check.state == "note"
    assert check.commands == ("adb -s 515e9b401c060c0b shell RkLunch-stop.sh",)


def test_a_test_that_fails_is_told_with_its_fix(proc: Path) -> None:
    def refused(_transport: object) -> str:
        raise RuntimeLibraryError("rknn_init failed.", cause="Too old.", remedy="Update it.")

    check = only(diagnose(rk3588(), test=refused, proc=proc), "test tensor")
    assert (check.state, check.found, check.remedy) == (
        "bad",
        "rknn_init failed.",
        "Too old. Update it.",
    )


def test_an_old_board_is_examined_as_well(proc: Path) -> None:
    found = tuple(diagnose(rk1808(), proc=proc))
    states = {check.name: check.state for check in found}
    assert states["server"] == states["runtime"] == states["driver"] == states["versions"] == "ok"
    assert "galcore 6.4.6.5.351518" in only(found, "driver").found


def test_adb_over_a_network_is_told(proc: Path) -> None:
    check = only(diagnose(rk3588(name="192.168.1.20:5555"), proc=proc), "transport")
    assert check.state == "note"
    assert "no password" in check.remedy


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
