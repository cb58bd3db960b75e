"""The board that the program runs on, and a folder that stands for one."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from engine.base.errors import (
    DeviceError,
    DeviceStorageError,
    DeviceTimeoutError,
    OutputError,
    SourceModelError,
    UsageError,
)
from engine.base.peers import far
from engine.base.peers.near import Call, PeerEndedError
from engine.base.plain import JsonValue
from engine.devices.transport import Transport
from engine.devices.transports.local import LocalConversation, LocalTransport
from tests.devices.waiting import ended, open_files, until
from tests.safety import PATIENCE, ends

TOY = Path(__file__).parents[1] / "base" / "peers" / "toy_far.py"
CONTENT = os.urandom((1 << 20) + 12345)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What stands for ``/``."""
    for name in ("tmp", "proc"):
        (tmp_path / "root" / name).mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def board(root: Path) -> Iterator[LocalTransport]:
    transport = LocalTransport(root)
    yield transport
    transport.close()


@pytest.fixture
def agent(root: Path) -> list[str]:
    """The toy as a program of the board."""
    (root / "python3").symlink_to(Path(sys.executable).resolve())
    for file in (TOY, Path(far.__file__)):
        (root / file.name).write_bytes(file.read_bytes())
    return ["/python3", "-I", "-S", "/toy_far.py", "/far.py"]


@pytest.fixture
def talk(board: LocalTransport, agent: list[str]) -> Iterator[Callable[[], LocalConversation]]:
    """Start the toy."""
    with ends():
        yield lambda: board.converse(agent)
        board.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ask(conversation: LocalConversation, method: str, **params: JsonValue) -> far.Message:
    return conversation.peer.wait(conversation.peer.request(method, params))


def lost_call(conversation: LocalConversation, call: Call) -> DeviceError:
    with pytest.raises(PeerEndedError):
        conversation.peer.wait(call)
    return conversation.lost()


def test_it_is_a_transport(board: LocalTransport) -> None:
    one: Transport = board
    assert (one.kind, one.name, one.converses) == ("local", "local", True)


def test_programs(board: LocalTransport, root: Path) -> None:
    (root / "tmp" / "a").touch()
    done = board.run(["ls", "/tmp"], seconds=PATIENCE)
    assert (done.code, done.text, done.err) == (0, "a\n", b"")
    assert b"No such file" in board.run(["ls", "/none"], seconds=PATIENCE).err
    assert board.run(["no-such-program"]).code == 127
    assert board.run(["/tmp"]).code == 126
    assert board.run(["cat"], seconds=PATIENCE).out == b""
    assert board.run(["seq", "1000000"], seconds=PATIENCE, limit=10).out == b"1\n2\n3\n4\n5\n"
    assert LocalTransport().read("/proc/version") == Path("/proc/version").read_bytes()


@pytest.mark.parametrize("word", ["", "a b", "$(touch x)", "a\nb", "a\0b", "*", "ü"])
def test_words_that_are_not_ours_are_refused(board: LocalTransport, word: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: board.run(["echo", word]),
        lambda: board.read(word),
        lambda: board.push(TOY, word),
        lambda: board.pull(word, Path("x"), limit=1),
        lambda: board.remove([word]),
        lambda: board.converse(["echo", word]),
        lambda: board.converse(["echo"], environment={"A": word or " "}),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="is no word"):
            call()


def test_a_program_that_does_not_end_is_killed_with_its_children(
    board: LocalTransport, root: Path
) -> None:
    script = root / "script"
    script.write_text(f"#!/bin/sh\nsleep {4 * PATIENCE} &\necho $! $$ > {root}/pids\nwait\n")
    script.chmod(0o755)
    with pytest.raises(DeviceTimeoutError, match="did not end within"):
        board.run(["/script"], seconds=3.0)
    pids = root / "pids"  # missing where this machine was too slow to start it
    for pid in map(int, pids.read_text().split() if pids.exists() else ()):
        until(partial(ended, pid), "it is gone")


def test_files_there_and_back(board: LocalTransport, root: Path, tmp_path: Path) -> None:
    source = tmp_path / "it's a $(touch x) `id` ü\n\udcff model.rknn"
    source.write_bytes(CONTENT)
    seen: list[tuple[int, int]] = []
    board.push(source, "/tmp/agent", executable=True, moved=lambda *at: seen.append(at))
    assert (root / "tmp" / "agent").read_bytes() == CONTENT
    assert (root / "tmp" / "agent").stat().st_mode & 0o777 == 0o755
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    board.push(source, "/tmp/agent")
    assert (root / "tmp" / "agent").stat().st_mode & 0o777 == 0o644
    board.pull("/tmp/agent", tmp_path / "back", limit=len(CONTENT))
    assert (tmp_path / "back").read_bytes() == CONTENT
    assert board.read("/tmp/agent", limit=1000) == CONTENT[:1000]
    board.remove(["/tmp/agent", "/tmp/none"])
    assert names(root / "tmp") == []
    board.remove([])


def test_a_transfer_can_be_cancelled(board: LocalTransport, root: Path, tmp_path: Path) -> None:
    class CancelledError(Exception):
        pass

    def cancel(done: int, _size: int) -> None:
        if done > 200_000:
            raise CancelledError

    (tmp_path / "source").write_bytes(CONTENT)
    with pytest.raises(CancelledError):
        board.push(tmp_path / "source", "/tmp/model", moved=cancel)
    assert names(root / "tmp") == []
    (root / "tmp" / "model").write_bytes(CONTENT)
    with pytest.raises(CancelledError):
        board.pull("/tmp/model", tmp_path / "back", limit=1 << 30, moved=cancel)
    assert not (tmp_path / "back").exists()


def test_what_cannot_be_read_or_written(board: LocalTransport, root: Path, tmp_path: Path) -> None:
    (root / "tmp" / "large").write_bytes(b"x" * 1001)
    (tmp_path / "source").write_bytes(b"x")
    assert board.read("/none") is None
    assert board.read("/tmp/large/below") is None
    calls: list[Callable[[], object]] = [
        lambda: board.read("/tmp"),
        lambda: board.push(tmp_path / "source", "/none/model"),
        lambda: board.push(tmp_path / "source", "/tmp"),
        lambda: board.pull("/tmp/large", tmp_path / "back", limit=1000),
        lambda: board.pull("/none", tmp_path / "back", limit=1000),
        lambda: board.remove(["/tmp"]),
    ]
    for call in calls:
        with pytest.raises(DeviceStorageError):
            call()
    with pytest.raises(SourceModelError):
        board.push(tmp_path / "none", "/tmp/model")
    with pytest.raises(OutputError):
        board.pull("/tmp/large", tmp_path / "none" / "back", limit=2000)
    assert names(root / "tmp") == ["large"]


def test_a_full_disk_leaves_nothing(board: LocalTransport, root: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(CONTENT)
    (root / "tmp" / "model").write_bytes(b"the old one")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))
    try:
        with pytest.raises(DeviceStorageError):
            board.push(tmp_path / "source", "/tmp/model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert (root / "tmp" / "model").read_bytes() == b"the old one"
    assert names(root / "tmp") == ["model"]


def test_questions_and_answers(talk: Callable[[], LocalConversation]) -> None:
    one, two = talk(), talk()
    assert ask(one, "echo", text="ü" * 100_000)["result"] == {"text": "ü" * 100_000}
    call = one.peer.request("spin", {})
    assert ask(two, "echo", n=2)["result"] == {"n": 2}
    assert one.stop(call)
    assert ask(one, "echo", n=1)["result"] == {"n": 1}
    one.end()
    one.end()
    assert not one.alive


def test_how_a_program_ends_is_told(talk: Callable[[], LocalConversation]) -> None:
    conversation = talk()
    assert "exit code 3" in lost_call(conversation, conversation.peer.request("leave", {})).what
    conversation = talk()
    error = lost_call(conversation, conversation.peer.request("half", {}))
    assert "SIGABRT" in error.what
    assert "the library gave up" in error.cause
    conversation = talk()
    error = lost_call(conversation, conversation.peer.request("garbage", {"line": "{"}))
    assert "not JSON" in error.cause
    conversation.end()
    assert not conversation.alive


def test_a_program_that_is_not_there(board: LocalTransport) -> None:
    with pytest.raises(DeviceError, match="could not be started"):
        board.converse(["/none", "agent.pyz"])


def test_closing_ends_the_talks(
    board: LocalTransport, talk: Callable[[], LocalConversation]
) -> None:
    before = open_files()
    conversation = talk()
    assert ask(conversation, "echo", n=1)["result"] == {"n": 1}
    board.close()
    assert not conversation.alive
    assert open_files() == before
