"""What a transport does, in each way to a board: programs and files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from engine.base.errors import (
    DeviceLostError,
    DeviceStorageError,
    DeviceTimeoutError,
    OutputError,
    SourceModelError,
    UsageError,
)
from engine.devices.transports.shared import write_pieces
from tests.devices.verbs import program
from tests.devices.waiting import ended, until
from tests.devices.ways import WAYS, Way
from tests.safety import PATIENCE, ends

CONTENT = os.urandom((1 << 20) + 12345)
HOSTILE = 'it\'s a "$(touch x)" `id`; *? ü\n\udcff.rknn'
"""A file name of this machine that no shell may see."""
WORDS = ["", "a b", "$(touch x)", "`id`", "a;id", "a'b", 'a"b', "a\nb", "a\0b", "*", "~", "\\"]
WORDS += ["ü", "&"]


CABLES = pytest.mark.parametrize(
    "way", [way for kind, way in WAYS.items() if kind != "local"], indirect=True
)


class CancelledError(Exception):
    """What a caller raises to end a transfer."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of this machine that needs many packets."""
    folder = tmp_path / "from"
    folder.mkdir()
    path = folder / HOSTILE
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def back(tmp_path: Path) -> Path:
    """Where a file comes back to: alone in its folder."""
    folder = tmp_path / "back"
    folder.mkdir()
    return folder / "back $(id) '\n.rknn"


def test_programs_run_with_their_exit_code(way: Way) -> None:
    assert way.transport.converses == (way.kind != "old adb")
    (way.here / "lines").write_bytes(b"a\nb\n\nc")
    done = way.run("cat", f"{way.remote}/lines")
    assert (done.code, done.out, done.err) == (0, b"a\nb\n\nc", b"")
    done = way.run("ls", f"{way.remote}/none")
    assert done.code == 2
    said = done.out + done.err if way.kind == "old adb" else done.err
    assert b"none" in said
    assert b"No such file" in said
    assert way.run("no-such-program").code == 127
    assert way.run(way.remote).code == 126
    assert way.run("true").out == b""
    assert way.run("cat").out == b""  # there is no input to wait for


def test_output_is_cut_at_its_limit_and_the_code_is_kept(way: Way) -> None:
    (way.here / "much").write_bytes(b"x" * 300_000)
    done = way.run("cat", f"{way.remote}/much", f"{way.remote}/none", limit=1000)
    assert done.code == 1
    assert done.out[:900] == b"x" * 900
    assert len(done.out) <= 1000


def test_words_that_are_not_ours_are_refused(way: Way, source: Path, back: Path) -> None:
    board = way.transport
    for word in WORDS:
        calls: list[Callable[[], object]] = [
            lambda word=word: board.run(["echo", word]),
            lambda word=word: board.run([word]),
            lambda word=word: board.read(f"/{word}" if word else ""),
            lambda word=word: board.push(source, f"/tmp/x{word}" if word else " "),
            lambda word=word: board.pull(f"/{word}" if word else "", back, limit=1),
            lambda word=word: board.remove([f"/{word}" if word else ""]),
            lambda word=word: board.converse(["echo", word]),
        ]
        # an old adbd does not converse
        for call in calls[: 6 if way.kind == "old adb" else None]:
            with pytest.raises(UsageError, match=r"is no|may not be a part of a command"):
                call()
    if "adb" in way.kind:
        with pytest.raises(UsageError, match="is no absolute path"):
            board.read("relative")
    assert not way.asked()


def test_files_arrive_whole_and_come_back(way: Way, source: Path, back: Path) -> None:
    seen: list[tuple[int, int]] = []
    moved = lambda done, size: seen.append((done, size))  # noqa: E731
    way.transport.push(source, f"{way.remote}/m.rknn", moved=moved)
    assert (way.here / "m.rknn").read_bytes() == CONTENT
    assert (way.here / "m.rknn").stat().st_mode & 0o777 == 0o644
    assert way.names() == ["m.rknn"]
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    seen.clear()
    way.transport.pull(f"{way.remote}/m.rknn", back, limit=len(CONTENT), moved=moved)
    assert back.read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert not list(way.here.parent.rglob("x"))


def test_a_file_is_replaced_and_may_be_run(way: Way, source: Path, back: Path) -> None:
    (way.here / "agent").write_bytes(CONTENT)
    source.write_text("#!/bin/sh\necho it runs\n")
    way.transport.push(source, f"{way.remote}/agent", executable=True)
    way.transport.push(source, f"{way.remote}/text")
    assert way.run(f"{way.remote}/agent").text == "it runs\n"
    assert way.run(f"{way.remote}/text").code == 126
    source.write_bytes(b"")
    way.transport.push(source, f"{way.remote}/text")
    way.transport.pull(f"{way.remote}/text", back, limit=0)
    assert (way.here / "text").read_bytes() == back.read_bytes() == b""
    assert way.names() == ["agent", "text"]


def test_a_transfer_can_be_cancelled(way: Way, source: Path, back: Path) -> None:
    def cancel(done: int, _size: int) -> None:
        if done > 200_000:
            raise CancelledError

    source.write_bytes(CONTENT * 4)
    with pytest.raises(CancelledError):
        way.transport.push(source, f"{way.remote}/m", moved=cancel)
    assert "m" not in way.names()
    (way.here / "m").write_bytes(CONTENT)
    with pytest.raises(CancelledError):
        way.transport.pull(f"{way.remote}/m", back, limit=1 << 30, moved=cancel)
    assert list(back.parent.iterdir()) == []
    assert way.run("true").code == 0


@pytest.mark.parametrize("way", [WAYS["adb"], WAYS["old adb"]], indirect=True)
def test_an_error_of_the_callback_is_not_the_boards(way: Way, source: Path) -> None:
    def fail(_done: int, _all: int) -> None:
        raise OSError(errno.EIO, "mine")

    with pytest.raises(OSError, match="mine"):
        way.transport.push(source, f"{way.remote}/m", moved=fail)


def test_what_cannot_be_pulled_leaves_nothing(way: Way, back: Path) -> None:
    (way.here / "large").write_bytes(b"x" * 1001)
    for name in ("large", "none", "."):
        with pytest.raises(DeviceStorageError) as caught:
            way.transport.pull(f"{way.remote}/{name}", back, limit=1000)
        assert caught.value.cause or name == "."
    with pytest.raises(OutputError):
        way.transport.pull(f"{way.remote}/large", back.parent / "no" / "folder", limit=1 << 20)
    assert list(back.parent.iterdir()) == []


def test_small_files_are_read(way: Way) -> None:
    (way.here / "file").write_bytes(CONTENT)
    board = way.transport
    assert board.read(f"{way.remote}/file") == CONTENT[: 1 << 20]
    assert board.read(f"{way.remote}/file", limit=100_000) == CONTENT[:100_000]
    assert board.read(f"{way.remote}/none") is None
    if "adb" not in way.kind:  # which tells that a part of the path is a file
        assert board.read(f"{way.remote}/file/below") is None
    (way.here / "empty").touch()
    assert board.read(f"{way.remote}/empty") == b""


def test_what_is_no_file_is_told(way: Way, source: Path) -> None:
    board = way.transport
    calls: list[Callable[[], object]] = [
        lambda: board.read(way.remote),
        lambda: board.remove([way.remote]),
        lambda: board.push(source, f"{way.remote}/none/m"),
        lambda: board.push(source, way.remote),
    ]
    # a push over adb makes folders; onto a folder it is put into it, as by `mv` where SFTP is none
    for call in calls[: {"adb": 2, "old adb": 2, "cat": 3}.get(way.kind)]:
        with pytest.raises(DeviceStorageError) as caught:
            call()
        assert caught.value.cause
    assert way.names() == []
    # the size of such a file is 0
    version = board.read("/proc/version")
    assert way.kind == "local" or (version or b"").startswith(b"Linux")


def test_no_room_leaves_nothing(way: Way, source: Path) -> None:
    (way.here / "m").write_bytes(b"the old one")
    way.fill()
    with pytest.raises(DeviceStorageError) as caught:
        way.transport.push(source, f"{way.remote}/m")
    assert way.remote in caught.value.what
    assert caught.value.cause
    assert caught.value.remedy
    assert (way.here / "m").read_bytes() == b"the old one"
    assert way.names() == ["m"]


def test_a_program_that_does_not_end_is_killed_with_its_children(way: Way) -> None:
    pids = way.here / "pids"
    program(way.here / "script", f"sleep {4 * PATIENCE} &\necho $! $$ > {pids}\nwait")
    with pytest.raises(DeviceTimeoutError) as caught:
        way.transport.run([f"{way.remote}/script"], seconds=3.0)
    assert "script" in caught.value.what
    # missing where this machine was too slow to start it
    started = list(map(int, pids.read_text().split() if pids.exists() else ()))
    for pid in started[-1:] if way.kind == "adb" else started:  # where no terminal ends them all
        until(partial(ended, pid), "it is gone")
    with pytest.raises(DeviceTimeoutError):  # it writes all the time
        way.transport.run(["yes"], seconds=0.3)
    assert way.run("echo", "still", "there").text == "still there\n"


def test_many_files_are_removed(way: Way) -> None:
    names = [f"{n:04}-{'x' * 60}" for n in range(200)]
    for name in (*names, "stays"):
        (way.here / name).touch()
    way.transport.remove([])
    way.transport.remove([f"{way.remote}/{name}" for name in (*names, "none")])
    assert way.names() == ["stays"]


def test_a_source_that_cannot_be_read_is_the_users(way: Way, source: Path) -> None:
    for path in (source.parent / "none", source.parent):
        with pytest.raises((UsageError, SourceModelError), match="could not be read"):
            way.transport.push(path, f"{way.remote}/m")
    assert not way.asked()


@CABLES
def test_a_cable_pulled_while_pushing(way: Way, source: Path) -> None:
    def cut(done: int, _size: int) -> None:
        if done > 300_000:
            way.cut()

    (way.here / "m").write_bytes(b"before")
    source.write_bytes(CONTENT * 4)
    with ends(), pytest.raises(DeviceLostError) as caught:
        way.transport.push(source, f"{way.remote}/m", moved=cut)
    assert caught.value.what
    assert caught.value.cause
    assert caught.value.remedy
    assert (way.here / "m").read_bytes() == b"before"  # a piece may stay, under another name
    way.mend()
    way.transport.push(source, f"{way.remote}/m")
    assert (way.here / "m").read_bytes() == CONTENT * 4


@CABLES
def test_a_cable_pulled_while_pulling(way: Way, back: Path) -> None:
    (way.here / "m").write_bytes(CONTENT * 8)
    back.write_text("before")
    with ends(), pytest.raises(DeviceLostError):
        way.transport.pull(f"{way.remote}/m", back, limit=1 << 30, moved=lambda *_: way.cut())
    assert back.read_text() == "before"
    assert list(back.parent.iterdir()) == [back]


@pytest.mark.parametrize(
    ("limit", "size", "says"),
    [(10, 7, ""), (9, 7, "larger than"), (20, 12, "could not be read or written")],
)
def test_no_more_of_a_file_is_written_than_was_asked_for(limit: int, size: int, says: str) -> None:
    """And no less than the board has told."""
    stream, told = BytesIO(), list[tuple[int, int]]()
    moved = lambda done, size: told.append((done, size))  # noqa: E731
    pieces = [b"12345", b"67890"]
    with pytest.raises(DeviceStorageError, match=says) if says else nullcontext():
        write_pieces(pieces, stream, "/tmp/out", limit=limit, size=size, moved=moved)
    assert says or told == [(5, 7), (10, 10)]
    assert stream.getvalue() == (b"12345" if limit == 9 else b"1234567890")
