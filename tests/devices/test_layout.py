"""The folder on a board, its names, its room, and what is looked for there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.base.errors import DeviceError, DeviceStorageError, RuntimeLibraryError
from engine.devices.board.claims import claimed, put_record, require_alone
from engine.devices.board.layout import (
    BoardFolder,
    agent_name,
    find_folder,
    model_name,
    new_run_name,
)
from engine.devices.probe.reading import Elf, read_elf
from engine.devices.probe.versions import usable_libraries
from engine.devices.transport import Completed
from tests.devices.fake_board import ELF, ELF_ARM, FakeBoard

DONE = Completed(0, b"")
NO = Completed(1, b"", b"mkdir: Read-only file system\n")
MOUNTS = b"/dev/root / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/block /userdata ext4 rw 0 0\n"


@pytest.fixture
def board(tmp_path: Path) -> FakeBoard:
    return FakeBoard(tmp_path)


@pytest.fixture
def folder(board: FakeBoard) -> BoardFolder:
    return find_folder(board)


def remote(tmp_path: Path, writable: Sequence[str], android: bool = False) -> FakeBoard:
    """A board behind a cable on which these folders can be written."""
    board = FakeBoard(tmp_path, kind="adb")
    board.programs = {
        "getprop": lambda _: Completed(0, b"12\r\n") if android else Completed(127, b""),
        "mkdir": lambda words: DONE if words[-1] in writable else NO,
        "touch": lambda words: DONE if words[-1].rpartition("/")[0] in writable else NO,
        "test": lambda words: DONE if words[1] == "-O" else Completed(1, b""),
    }
    board.files["/proc/mounts"] = MOUNTS
    return board


def old(path: Path, hours: float = 2) -> None:
    then = time.time() - 3600 * hours
    os.utime(path, (then, then))


def test_linux_has_its_folder_where_the_data_are(tmp_path: Path) -> None:
    found = find_folder(remote(tmp_path, ["/userdata/rknntui", "/tmp/rknntui"]))
    assert (found.path, found.in_memory, found.note) == ("/userdata/rknntui", False, "")


def test_a_folder_in_memory_is_the_last_and_says_so(tmp_path: Path) -> None:
    found = find_folder(remote(tmp_path, ["/tmp/rknntui"]))
    assert found.path == "/tmp/rknntui"
    assert found.in_memory
    assert "in its memory" in found.note


def test_android_has_one_place(tmp_path: Path) -> None:
    board = remote(tmp_path, ["/data/local/tmp/rknntui", "/userdata/rknntui"], android=True)
    assert find_folder(board).path == "/data/local/tmp/rknntui"


def test_someone_elses_folder_is_not_ours(tmp_path: Path) -> None:
    board = remote(tmp_path, ["/tmp/rknntui"])
    board.programs["test"] = lambda words: Completed(1, b"")
    with pytest.raises(DeviceStorageError, match="No folder") as caught:
        find_folder(board)
    assert "somebody else" in caught.value.cause


def test_a_link_in_its_place_is_not_ours(tmp_path: Path) -> None:
    board = remote(tmp_path, ["/tmp/rknntui"])
    board.programs["test"] = lambda words: DONE
    with pytest.raises(DeviceStorageError, match="No folder"):
        find_folder(board)


def test_a_board_that_is_read_only_names_every_folder_and_reason(tmp_path: Path) -> None:
    with pytest.raises(DeviceStorageError) as caught:
        find_folder(remote(tmp_path, []))
    assert "/userdata/rknntui: mkdir: Read-only file system" in caught.value.cause
    assert "/tmp/rknntui" in caught.value.cause


def test_a_folder_of_the_system_is_not_made(tmp_path: Path) -> None:
    board = remote(tmp_path, ["/tmp/rknntui"])
    find_folder(board)
    made = [words for words in board.ran if words[0] == "mkdir"]
    assert ["mkdir", "/userdata/rknntui"] in made
    assert not [words for words in made if "-p" in words]


def test_a_home_with_other_characters_is_no_place(tmp_path: Path) -> None:
    board = remote(tmp_path, ["/home/me/.cache/rknntui", "/tmp/rknntui"])
    board.kind = "ssh"
    board.programs["pwd"] = lambda _: Completed(0, b"/home/me\n")
    assert find_folder(board).path == "/home/me/.cache/rknntui"
    board.programs["pwd"] = lambda _: Completed(0, b"/home/$(reboot)\n")
    assert find_folder(board).path == "/tmp/rknntui"
    assert not any("$" in word for words in board.ran for word in words)


def test_a_home_here_with_a_blank_is_no_place(
    board: FakeBoard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    for program in ("mkdir", "test", "touch"):
        board.programs[program] = lambda words: NO if words[1] == "-h" else DONE
    assert find_folder(board).path == "/tmp/rknntui"


def test_names_are_made_of_hashes_only() -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    assert agent_name(digest) == f"agent-{digest[:16]}.bin"
    assert model_name(digest) == f"model-{digest[:16]}.rknn"
    assert new_run_name() != new_run_name()
    with pytest.raises(ValueError, match="SHA-256"):
        model_name("../../etc/passwd")


def test_only_what_we_made_is_seen_and_removed(folder: BoardFolder) -> None:
    place = Path(folder.path)
    run = new_run_name()
    (place / run).mkdir()
    (place / run / "in0.bin").write_bytes(b"x")
    (place / "mine.txt").write_text("x")
    (place / "run-zz").mkdir()
    assert folder.names() == (run,)
    folder.remove([run])
    assert {path.name for path in place.iterdir()} == {"mine.txt", "run-zz"}
    for name in ("mine.txt", "../x.part", "run-zz", "."):
        with pytest.raises(ValueError, match="not a name of ours"):
            folder.remove([name])


def test_a_painted_list_is_read_as_any_other(board: FakeBoard, folder: BoardFolder) -> None:
    run = new_run_name()
    board.programs["ls"] = lambda _: Completed(0, f"\x1b[1;34m{run}\x1b[m\r\n".encode())
    assert folder.runs() == (run,)


def test_pieces_older_than_an_hour_are_removed(folder: BoardFolder) -> None:
    place = Path(folder.path)
    for name in ("model-1.part", "model-2.part"):
        (place / name).write_bytes(b"half")
    old(place / "model-1.part")
    folder.remove_parts()
    assert [path.name for path in place.iterdir()] == ["model-2.part"]


def test_where_ages_are_not_told_nothing_is_removed(board: FakeBoard, folder: BoardFolder) -> None:
    piece = Path(folder.path) / "model-1.part"
    piece.write_bytes(b"half")
    old(piece)
    board.programs["find"] = lambda _: Completed(1, b"", b"find: unrecognized: -mmin")
    folder.remove_parts()
    assert piece.exists()


def test_other_agents_go(folder: BoardFolder) -> None:
    names = [agent_name(hashlib.sha256(text).hexdigest()) for text in (b"1", b"2")]
    for name in [*names, f"agent-{'0' * 16}.pyz"]:  # an earlier version's was in Python
        (Path(folder.path) / name).write_bytes(b"x")
    folder.remove_other_agents(names[1])
    assert folder.names() == (names[1],)


def df(free: int) -> Callable[[Sequence[str]], Completed]:
    line = f"/dev/block/by-name/userdata 1000 1 {free} 1% /userdata\n"
    head = "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
    return lambda _: Completed(0, (head + line).encode())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a model; $(touch x) 'q'.rknn"
    path.write_bytes(b"RKNN" + bytes(100_000))
    return path


def put(folder: BoardFolder, model: Path) -> bool:
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    return folder.put(model, model_name(digest), digest, model.name)


def test_a_file_that_is_there_is_not_pushed_again(folder: BoardFolder, model: Path) -> None:
    assert put(folder, model)
    assert not put(folder, model)
    (there,) = (Path(folder.path) / name for name in folder.names())
    there.write_bytes(b"damaged")
    assert put(folder, model)
    assert there.read_bytes() == model.read_bytes()


def test_without_a_digest_it_is_pushed_again(
    board: FakeBoard, folder: BoardFolder, model: Path
) -> None:
    board.programs["sha256sum"] = lambda _: Completed(127, b"", b"not found")
    assert put(folder, model)
    assert put(folder, model)


def test_a_full_board_is_refused_before_the_push(
    board: FakeBoard, folder: BoardFolder, model: Path
) -> None:
    board.programs["df"] = df(100)
    with pytest.raises(DeviceStorageError, match=r"needs 107\.43 KiB.*has 100\.00 KiB free"):
        put(folder, model)
    assert board.pushed == []


def test_models_of_ours_make_room(board: FakeBoard, folder: BoardFolder, model: Path) -> None:
    earlier = Path(folder.path) / model_name(hashlib.sha256(b"earlier").hexdigest())
    earlier.write_bytes(b"x")

    def told(words: Sequence[str]) -> Completed:
        return df(100 if earlier.exists() else 1000)(words)

    board.programs["df"] = told
    assert put(folder, model)
    assert not earlier.exists()


def test_a_board_that_does_not_tell_its_room_is_tried(
    board: FakeBoard, folder: BoardFolder, model: Path
) -> None:
    board.programs["df"] = lambda _: Completed(0, b"df: strange\n")
    assert put(folder, model)


def test_a_folder_in_memory_needs_twice_the_room(
    board: FakeBoard, folder: BoardFolder, model: Path
) -> None:
    within = BoardFolder(board, folder.path, in_memory=True)
    board.files["/proc/meminfo"] = b"MemTotal: 2 kB\nMemAvailable:     150 kB\n"
    with pytest.raises(DeviceStorageError, match="of memory"):
        put(within, model)
    board.files["/proc/meminfo"] = b"MemAvailable:     1500 kB\n"
    assert put(within, model)


# -- runtime libraries


def test_the_processor_is_read_of_a_library() -> None:
    assert read_elf(ELF) == Elf("x86-64", 64)
    assert read_elf(ELF_ARM) == Elf("ARM", 32)
    assert str(read_elf(ELF_ARM)) == "ARM (32 bits)"
    assert read_elf(ELF[:19]) is None
    assert read_elf(b"MZ" + ELF) is None


def nothing_but(board: FakeBoard, found: dict[str, bytes]) -> FakeBoard:
    from engine.devices.probe.versions import LIBRARIES

    board.files.update(dict.fromkeys(LIBRARIES[1] + LIBRARIES[2]))
    board.files.update(found)
    return board


def test_libraries_are_tried_in_order(board: FakeBoard) -> None:
    there = {"/usr/lib/librknnrt.so": ELF_ARM, "/vendor/lib64/librknnrt.so": ELF}
    wanted = Elf("x86-64", 64)
    assert usable_libraries(nothing_but(board, there), 2, wanted) == ("/vendor/lib64/librknnrt.so",)


def test_a_library_for_another_processor_is_told(board: FakeBoard) -> None:
    nothing_but(board, {"/usr/lib/librknnrt.so": ELF_ARM})
    with pytest.raises(RuntimeLibraryError, match="fits its agent") as caught:
        usable_libraries(board, 2, Elf("ARM64", 64))
    assert "is for ARM (32 bits)" in caught.value.cause
    assert "The agent there is for ARM64 (64 bits)" in caught.value.cause


def test_a_board_without_a_library_is_told(board: FakeBoard) -> None:
    with pytest.raises(RuntimeLibraryError, match="no runtime library") as caught:
        usable_libraries(nothing_but(board, {}), 2, None)
    assert "/usr/lib/librknnrt.so" in caught.value.cause


def test_a_library_of_the_other_generation_is_told(board: FakeBoard) -> None:
    nothing_but(board, {"/usr/lib64/librknn_runtime.so": ELF})
    with pytest.raises(RuntimeLibraryError, match="generation 2") as caught:
        usable_libraries(board, 2, None)
    assert "/usr/lib64/librknn_runtime.so" in caught.value.cause
    assert usable_libraries(board, 1, None) == ("/usr/lib64/librknn_runtime.so",)
    assert usable_libraries(board, None, None) == ("/usr/lib64/librknn_runtime.so",)


def test_the_users_library_is_the_only_one(board: FakeBoard) -> None:
    board.files["/opt/mine.so"] = ELF
    assert usable_libraries(board, 2, None, "/opt/mine.so") == ("/opt/mine.so",)
    # a path that no command may hold is for the agent to look at
    assert usable_libraries(board, 2, None, "/opt/it's.so") == ("/opt/it's.so",)
    board.files["/opt/text.so"] = b"hello, world, this is text"
    with pytest.raises(RuntimeLibraryError) as caught:
        usable_libraries(board, 2, None, "/opt/text.so")
    assert "is no library" in caught.value.cause


# -- one user at a time


def test_a_board_is_held_by_one_program_of_this_machine(board: FakeBoard) -> None:
    with (
        claimed(board),
        pytest.raises(DeviceError, match="in use by another window"),
        claimed(board),
    ):
        pass
    with claimed(board):
        pass
    other = FakeBoard(board.root)
    other.name = "other-board"
    with claimed(board), claimed(other):
        pass


def record(folder: BoardFolder, **changes: object) -> str:
    """A session of another machine, with its changes."""
    run = new_run_name()
    folder.make(run)
    put_record(folder, run, Path(folder.path), os.getpid(), alone=True)
    path = Path(folder.at(run, "session.json"))
    content = json.loads(path.read_text())
    content["asked_by"]["boot"] = content["lock"] = "another machine"
    path.write_text(json.dumps({**content, "user": "eve\x1b[31m@host", **changes}))
    return run


def test_a_session_of_another_machine_is_named(folder: BoardFolder) -> None:
    run = record(folder)
    with pytest.raises(DeviceError, match=r"in use by eve\[31m@host"):
        require_alone(folder)
    assert folder.runs() == (run,)


def test_one_of_this_machine_that_lost_the_board_is_dead(folder: BoardFolder) -> None:
    run = new_run_name()
    folder.make(run)
    put_record(folder, run, Path(folder.path), os.getpid(), alone=True)
    require_alone(folder)
    assert folder.runs() == ()


def test_one_of_this_machine_that_came_another_way_lives(folder: BoardFolder) -> None:
    run = new_run_name()
    folder.make(run)
    put_record(folder, run, Path(folder.path), None, alone=True)
    path = Path(folder.at(run, "session.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "lock": "by another cable"}))
    with pytest.raises(DeviceError, match="in use"):
        require_alone(folder)


@pytest.mark.parametrize(
    "changes",
    [{"agent": 4_000_000}, {"boot": "before the restart"}, {"boot": "", "agent": None}],
)
def test_a_dead_session_is_removed(folder: BoardFolder, changes: dict[str, object]) -> None:
    record(folder, **changes)
    require_alone(folder)
    assert folder.runs() == ()


def test_one_of_one_shot_mode_lives_while_it_is_young(folder: BoardFolder) -> None:
    run = record(folder, agent=None)
    with pytest.raises(DeviceError, match="in use"):
        require_alone(folder)
    old(Path(folder.at(run)))
    require_alone(folder)
    assert folder.runs() == ()


def test_of_two_that_come_together_one_stays(folder: BoardFolder) -> None:
    first, second = sorted([record(folder), record(folder)])
    require_alone(folder, first)
    with pytest.raises(DeviceError, match="in use"):
        require_alone(folder, second)


def test_one_that_only_reads_keeps_nobody_away(folder: BoardFolder) -> None:
    run = record(folder, alone=False)
    require_alone(folder)
    assert folder.runs() == (run,)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"agent": "x", "asked_by": 3}'])
def test_a_record_that_cannot_be_read_stays_until_it_is_old(
    folder: BoardFolder, content: str
) -> None:
    run = new_run_name()
    folder.make(run)
    Path(folder.at(run, "session.json")).write_text(content)
    if content in ("", "[]", "{"):
        require_alone(folder)
        assert folder.runs() == (run,)
    old(Path(folder.at(run)))
    require_alone(folder)
    assert folder.runs() == ()
