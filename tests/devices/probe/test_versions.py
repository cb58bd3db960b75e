"""Versions: of texts, of files, of a board."""

from __future__ import annotations

import pytest

from engine.base.errors import DeviceTimeoutError
from engine.devices.probe.versions import Version, libraries_of, read_versions, running
from tests.devices.probe.boards import RUNTIME_2, SERVER_2, Board, android, rk1808, rk3588


def parsed(text: str) -> Version:
    found = Version.parse(text)
    assert found is not None, text
    return found


def test_versions_compare_as_the_vendor_numbers_them() -> None:
    rising = ["0.9.4", "0.9.8", "1.5.3b13", "1.5.3", "2.0.0a1", "2.0.0b0", "2.0.0b2", "2.0.0rc1"]
    rising += ["2.0.0", "2.3.2", "2.10.0", "6.3.3.2", "6.4.0", "6.4.0.227915", "6.4.6.5.351518"]
    assert sorted(map(parsed, reversed(rising))) == [parsed(text) for text in rising]
    assert parsed("2.0") == parsed("2.0.0")


@pytest.mark.parametrize(
    ("text", "release", "pre"),
    [
        ("1.6.2-source_code", (1, 6, 2), None),
        ("v0.9.8", (0, 9, 8), None),
        ("2.0.0b0+9bab5682", (2, 0, 0), ("b", 0)),
        ("2.0.0-alpha", (2, 0, 0), ("a", 0)),
        ("2.0.0-beta999999", (2, 0, 0), ("b", 999_999)),
        ("1.4.0-b22dcfef", (1, 4, 0), None),
        ("RKNPU driver: v0.9.8", (0, 9, 8), None),
    ],
)
def test_a_version_is_found_in_a_text(
    text: str, release: tuple[int, ...], pre: tuple[str, int] | None
) -> None:
    found = parsed(text)
    assert (found.release, found.pre) == (release, pre)
    assert str(found) in text


def test_no_version_is_none() -> None:
    for text in ("", "unknown", "7", "x.y.z"):
        assert Version.parse(text) is None


def test_all_of_a_generation_2_board() -> None:
    found = read_versions(rk3588(), "rk3588", 2)
    assert found.server is not None
    assert str(found.server) == "rknn_server 2.3.2"
    assert found.server.build == "1842325 build@2025-03-30T09:54:34"
    assert found.server_pids == (321,)
    assert found.runtime is not None
    assert (found.runtime.path, str(found.runtime)) == ("/usr/lib/librknnrt.so", "librknnrt 2.3.2")
    assert found.runtime.build == "429f97ae6b@2025-04-09T09:09:27"
    assert str(found.driver) == "rknpu 0.9.8"
    assert not found.mainline


def test_all_of_a_generation_1_board() -> None:
    found = read_versions(rk1808(), "rk1808", 1)
    assert str(found.server) == "rknn_server 1.7.5"
    assert found.server is not None
    assert found.server.build.startswith("8b94b4f build: 2023-06-26")
    assert str(found.runtime) == "librknn_runtime 1.7.5"
    assert str(found.driver) == "galcore 6.4.6.5.351518"
    assert found.server_pids == (187,)


def test_all_of_an_android_board() -> None:
    found = read_versions(android(), "rk3588", 2)
    assert found.server is not None
    assert found.runtime is not None
    assert found.server.path == "/vendor/bin/rknn_server"
    assert found.runtime.path == "/vendor/lib64/librknnrt.so"
    assert found.server_pids == (412,)
    assert found.driver is None


def test_without_grep_the_files_are_read_here() -> None:
    board = rk3588(has_grep=False)
    found = read_versions(board, "rk3588", 2)
    assert str(found.runtime) == "librknnrt 2.3.2"
    assert str(found.server) == "rknn_server 2.3.2"


def test_a_version_far_behind_is_found_where_grep_gives_too_long_a_line() -> None:
    huge = b"librknnrt version " + b"x" * (3 << 20) + b" " + RUNTIME_2
    found = read_versions(rk3588(files={"/usr/lib/librknnrt.so": huge}), "rk3588", 2)
    assert str(found.runtime) == "librknnrt 2.3.2"


def test_a_file_too_large_for_the_way_to_it_has_no_version() -> None:
    class Slow(Board):
        def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
            if limit > 1 << 20:
                raise DeviceTimeoutError("too slow")
            return super().read(path, limit=limit)

    found = read_versions(Slow(rk3588().files, rk3588().programs, has_grep=False), "rk3588", 2)
    assert found.runtime is not None
    assert found.runtime.version is None
    assert found.server_pids == (321,)


def test_a_file_without_a_version_is_there_all_the_same() -> None:
    files = {"/usr/lib/librknnrt.so": b"\x7fELF", "/usr/bin/rknn_server": b"?"}
    found = read_versions(rk3588(files=files), "rk3588", 2)
    assert found.runtime is not None
    assert found.runtime.version is None
    assert found.server is not None
    assert found.server.version is None
    assert "unknown version" in str(found.server)


def test_only_what_is_there_is_searched() -> None:
    board = rk3588()
    read_versions(board, "rk3588", 2)
    searched = [asked[-1] for asked in board.asked if asked[0] == "grep"]
    assert searched == ["/usr/lib/librknnrt.so", "/usr/bin/rknn_server"]


def test_the_copy_that_hides_another_is_told() -> None:
    old = b"librknnmrt version: 1.6.0 (9a7b5d24c@2023-12-13T17:33:10)\0"
    new = b"librknnmrt version: 2.3.2 (429f97ae6b@2025-04-09T09:09:27)\0"
    files = {"/usr/lib/librknnmrt.so": old, "/oem/usr/lib/librknnmrt.so": new}
    found = read_versions(Board(files), "rv1106", 2)
    assert str(found.runtime) == "librknnmrt 1.6.0"
    assert [copy.path for copy in found.hidden] == ["/oem/usr/lib/librknnmrt.so"]
    same = dict.fromkeys(files, new)
    assert read_versions(Board(same), "rv1106", 2).hidden == ()


@pytest.mark.parametrize(
    ("log", "driver"),
    [
        (b"[    3.1] [drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1", "0.9.8"),
        (b"[    3.1] RKNPU fde40000.npu: RKNPU: rknpu iommu is enabled\n", None),
        (b"galcore: Galcore version 6.4.3.5.293908", "6.4.3.5.293908"),
    ],
)
def test_the_driver_may_be_in_the_log_alone(log: bytes, driver: str | None) -> None:
    found = read_versions(Board(programs={"dmesg": log}))
    assert (str(found.driver.version) if found.driver else None) == driver


def test_the_driver_of_generation_1_in_debugfs() -> None:
    files = {"/sys/kernel/debug/gc/version": b"6.4.6.5.351518 built at builder\n"}
    assert str(read_versions(Board(files), "rv1126", 1).driver) == "galcore 6.4.6.5.351518"


def test_the_mainline_driver_is_recognised() -> None:
    files = {"/sys/class/accel/accel0/device/uevent": b"DRIVER=rocket\nOF_NAME=npu\n"}
    assert read_versions(Board(files), "rk3588", 2).mainline


@pytest.mark.parametrize(
    ("listing", "pids"),
    [
        ("UID        PID  PPID C\nroot       321     1 0 ? 00:00 /usr/bin/rknn_server\n", (321,)),
        ("  PID USER       VSZ STAT COMMAND\n  187 root     11232 S    rknn_server\n", (187,)),
        ("USER PID PPID VSIZE NAME\nroot 99 1 7 S /vendor/bin/rknn_server\n", (99,)),
        ("  PID CMD\n  1 grep rknn_server\n  2 start_rknn_server.sh\n", ()),
        ("  PID CMD\n  5 rknn_server\n  6 rknn_server -d\n", (5, 6)),
        ("  PID CMD\n  x rknn_server\n", ()),
        ("", ()),
    ],
)
def test_who_runs_is_read_of_every_ps(listing: str, pids: tuple[int, ...]) -> None:
    assert running(listing, "rknn_server") == pids


def test_processes_that_cannot_be_listed_are_unknown_and_not_none() -> None:
    assert read_versions(Board(), "rk3588", 2).server_pids is None


def test_nothing_is_started_and_no_text_of_the_board_becomes_a_word() -> None:
    board = rk3588(files={"/usr/lib/librknnrt.so": b"librknnrt version: 2.3.2 ($(reboot))"})
    read_versions(board, "rk3588", 2)
    words = {word for asked in board.asked for word in asked}
    programs = {asked[0] for asked in board.asked} - {"read"}
    assert programs <= {"grep", "ps", "dmesg"}
    assert not any("reboot" in word for word in words)
    safe = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-")
    assert all(set(word) <= safe for word in words), words


@pytest.mark.parametrize(
    ("chip", "generation", "main"),
    [
        ("rk3588", 2, "librknnrt"),
        ("rv1106b", 2, "librknnmrt"),
        ("rv1126b", 2, "librknnrt"),
        ("rv1126", 1, "librknn_runtime"),
        ("rk3399pro", 1, "librknn_api"),
        (None, None, "librknnrt"),
    ],
)
def test_which_library_a_chip_has(chip: str | None, generation: int | None, main: str) -> None:
    assert libraries_of(chip, generation)[0] == main


def test_the_first_server_wins() -> None:
    other = SERVER_2.replace(b"2.3.2", b"1.4.0")
    found = read_versions(
        Board({"/usr/bin/rknn_server": SERVER_2, "/oem/usr/bin/rknn_server": other})
    )
    assert str(found.server) == "rknn_server 2.3.2"
