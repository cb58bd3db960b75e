"""Programs that are asked over an exec channel of a real sshd, and how such a talk ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from engine.base.errors import DeviceError, DeviceLostError
from engine.base.peers import far
from engine.base.peers.near import Call, PeerEndedError
from engine.base.plain import JsonValue
from engine.devices.transports.ssh import SshTransport
from engine.devices.transports.ssh.conversation import SshConversation
from tests.devices.ssh.server import Sshd
from tests.devices.waiting import alive, ended, open_files, until
from tests.safety import PATIENCE, ends

pytestmark = pytest.mark.sshd

TOY = Path(__file__).parents[2] / "base" / "peers" / "toy_far.py"
AGENT = [sys.executable, "-I", str(TOY), far.__file__]

Talk = Callable[[], SshConversation]


@pytest.fixture
def talk(board: SshTransport) -> Iterator[Talk]:
    """Start the toy on the board."""
    started: list[SshConversation] = []

    def start() -> SshConversation:
        started.append(board.converse(AGENT))
        return started[-1]

    with ends():
        yield start
        for conversation in started:
            conversation.end()


def ask(conversation: SshConversation, method: str, **params: JsonValue) -> far.Message:
    peer = conversation.peer
    return peer.wait(peer.request(method, params))


def heard(conversation: SshConversation, true: Callable[[], object]) -> None:
    """Take what comes until something holds."""
    while not true():
        assert conversation.peer.open
        conversation.peer.pump(0.05)


def pid_of(conversation: SshConversation) -> int:
    heard(conversation, lambda: conversation.peer.greeting)
    return int(conversation.peer.greeting["pid"])


def lost_call(conversation: SshConversation, call: Call) -> DeviceError:
    with pytest.raises(PeerEndedError):
        conversation.peer.wait(call)
    return conversation.lost()


def test_questions_and_answers(talk: Talk) -> None:
    conversation = talk()
    text = "ü\n\x1b$(id)" * 50_000  # just below the limit of a line
    assert ask(conversation, "echo", text=text)["result"] == {"text": text}
    seen: list[far.Message] = []
    call = conversation.peer.request("count", {"to": 500}, progress=seen.append)
    assert conversation.peer.wait(call)["result"] == {"counted": 500}
    assert [message["step"] for message in seen] == list(range(500))


def test_two_talks_and_a_program_at_once(talk: Talk, board: SshTransport) -> None:
    one, two = talk(), talk()
    call = one.peer.request("echo", {"n": 1})
    assert ask(two, "echo", n=2)["result"] == {"n": 2}
    assert board.run(["echo", "3"], seconds=PATIENCE).out == b"3\n"
    assert one.peer.wait(call)["result"] == {"n": 1}


def test_what_it_says_before_it_is_read_is_bounded(talk: Talk) -> None:
    conversation = talk()
    pid = pid_of(conversation)
    conversation.peer.request("endless", {})
    io = Path(f"/proc/{pid}/io")

    def written() -> int:
        return int(io.read_text().split("wchar:")[1].split()[0])

    until(lambda: written() > 1 << 16, "it writes")
    # nobody reads: it has to stop by itself, and is asked until it has
    last = [0]

    def stands() -> bool:
        before, last[0] = last[0], written()
        time.sleep(0.3)
        return before == last[0] > 0

    until(stands, "it waits for a reader")
    assert last[0] < 32 << 20
    conversation.end()
    until(lambda: not alive(pid), "it is gone")


def test_the_end_leaves_nothing(talk: Talk, board: SshTransport) -> None:
    board.run(["true"], seconds=PATIENCE)
    before = open_files()
    for method in ("echo", "hang", "deaf"):
        conversation = talk()
        pid = pid_of(conversation)
        conversation.peer.request(method, {})
        conversation.end()
        until(partial(ended, pid), "it is gone")
        conversation.end()
        assert isinstance(conversation.lost(), DeviceError)
    assert open_files() == before


def test_a_program_that_hears_no_end_is_killed(
    board: SshTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.conversation._GOODBYE_SECONDS", 0.3)
    conversation = board.converse(["sleep", str(4 * PATIENCE)])
    pid = conversation._program.pid
    assert alive(pid)
    conversation.end()
    until(lambda: not alive(pid), "it is gone")


def test_a_call_is_stopped(talk: Talk) -> None:
    conversation = talk()
    call = conversation.peer.request("spin", {})
    assert conversation.stop(call)
    assert call.answer is not None
    assert call.answer["error"]["kind"] == "cancelled"
    assert ask(conversation, "echo", n=1)["result"] == {"n": 1}


def test_a_call_that_does_not_stop_ends_the_program(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.conversation.STOP_SECONDS", 0.5)
    conversation = talk()
    pid = pid_of(conversation)
    deaf: list[far.Message] = []
    call = conversation.peer.request("deaf", {}, progress=deaf.append)
    heard(conversation, lambda: deaf)
    assert not conversation.stop(call)
    until(lambda: not alive(pid), "it is gone")
    assert "killed by SIGKILL" in lost_call(conversation, call).what


def test_a_program_that_dies_tells_why(talk: Talk) -> None:
    conversation = talk()
    call = conversation.peer.request("leave", {})
    assert "exit code 3" in lost_call(conversation, call).what
    conversation = talk()
    error = lost_call(conversation, conversation.peer.request("half", {}))
    assert "SIGABRT" in error.what
    assert "It said last: the library gave up" in error.cause
    assert not isinstance(error, DeviceLostError)


def test_a_program_that_is_not_there(board: SshTransport) -> None:
    with ends():
        conversation = board.converse(["/no/such/python3", "agent.pyz"])
        error = lost_call(conversation, conversation.peer.request("echo", {}))
        conversation.end()
    assert "was not found" in error.what
    assert "no program of that name" in error.cause


def test_a_program_that_breaks_the_protocol(talk: Talk) -> None:
    conversation = talk()
    error = lost_call(conversation, conversation.peer.request("garbage", {"line": "{"}))
    assert "not JSON" in error.cause


@pytest.mark.long
def test_variables_reach_the_program(board: SshTransport, tmp_path: Path) -> None:
    script = tmp_path / "variables.sh"
    script.write_text('echo "$A" "$B" > "$1"\n')
    conversation = board.converse(
        ["sh", str(script), str(tmp_path / "out")], environment={"A": "1,2", "B": ""}
    )
    until(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text(), "it writes")
    conversation.end()
    assert (tmp_path / "out").read_text() == "1,2 \n"


def test_a_cable_that_is_pulled_ends_the_talk_and_the_agent(talk: Talk, sshd: Sshd) -> None:
    conversation = talk()
    pid = pid_of(conversation)
    call = conversation.peer.request("hang", {})
    sshd.cut()
    error = lost_call(conversation, call)
    assert isinstance(error, DeviceLostError)
    assert "The connection to 127.0.0.1" in error.what
    until(lambda: not alive(pid), "the agent has ended with its input")
    assert ask(talk(), "echo", n=1)["result"] == {"n": 1}


@pytest.mark.long
def test_a_silent_link_ends_the_talk(
    talk: Talk, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.login.KEEPALIVE_SECONDS", 0.5)
    conversation = talk()
    pid_of(conversation)
    call = conversation.peer.request("hang", {})
    sshd.freeze()
    assert isinstance(lost_call(conversation, call), DeviceLostError)


@pytest.mark.long
def test_the_transport_ends_its_talks(talk: Talk, board: SshTransport) -> None:
    conversation = talk()
    pid = pid_of(conversation)
    board.close()
    until(lambda: not alive(pid), "it is gone")
    assert isinstance(lost_call(conversation, conversation.peer.request("echo", {})), DeviceError)
