"""A program of a board that is asked, in each way to a board, and how such a talk ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import DeviceError, DeviceLostError
from engine.base.peers.near import PeerEndedError
from engine.devices.transport import Conversation
from tests.devices.waiting import ended, open_files, until
from tests.devices.ways import WAYS, Way, ask, hanging, pid_of
from tests.safety import PATIENCE, ends

pytestmark = pytest.mark.parametrize(
    "way", [WAYS[kind] for kind in ("adb", "sftp", "local")], indirect=True
)

Talk = Callable[[], Conversation]


@pytest.fixture
def talk(way: Way, tmp_path: Path) -> Iterator[Talk]:
    """Starts the toy on the board."""
    started: list[Conversation] = []

    def start() -> Conversation:
        started.append(way.talk(tmp_path))
        return started[-1]

    with ends():
        yield start
        for conversation in started:
            conversation.end()


def test_it_is_asked_and_let_go(talk: Talk) -> None:
    conversation = talk()
    text = "ü\n\x1b$(id)" * 50_000  # just below the limit of a line
    assert ask(conversation, "echo", text=text) == {"text": text}
    steps: list[Any] = []
    call = conversation.peer.request("count", {"to": 500}, steps.append)
    assert conversation.peer.wait(call)["result"] == {"counted": 500}
    assert [message["step"] for message in steps] == list(range(500))
    assert conversation.peer.greeting["protocol"] == 1
    pid = pid_of(conversation)
    conversation.end()
    conversation.end()
    until(partial(ended, pid), "it is gone")


def test_much_goes_both_ways_at_once(talk: Talk) -> None:
    """More than the kernel holds back: who only wrote or only read would wait for ever."""
    peer = talk().peer
    texts = [str(number) * 1_000_000 for number in range(4)]
    calls = [peer.request("echo", {"text": text}) for text in texts]
    for call, text in zip(calls, texts, strict=True):
        assert peer.wait(call)["result"] == {"text": text}


def test_it_is_asked_in_a_loop(talk: Talk) -> None:
    peer = talk().peer

    async def converse() -> list[Any]:
        over = asyncio.Event()
        answers: list[asyncio.Future[Any]] = []
        peer.listen(asyncio.get_running_loop(), over.set)
        for number in range(3):
            answers.append(asyncio.get_running_loop().create_future())
            text = str(number) * 500_000
            peer.request("echo", {"text": text}).then(answers[-1].set_result)
        told = await asyncio.wait_for(asyncio.gather(*answers), PATIENCE)
        peer.request("half", {})
        await asyncio.wait_for(over.wait(), PATIENCE)
        return list(told)

    told = asyncio.run(converse())
    assert [len(answer["result"]["text"]) for answer in told] == [500_000] * 3
    assert not peer.open


def test_two_talks_and_a_program_at_once(talk: Talk, way: Way) -> None:
    one, two = talk(), talk()
    call = one.peer.request("echo", {"n": 1})
    assert ask(two, "echo", n=2) == {"n": 2}
    assert way.run("echo", "3").out == b"3\n"
    assert one.peer.wait(call)["result"] == {"n": 1}


@pytest.mark.parametrize(
    ("method", "params", "what", "cause"),
    [
        ("leave", {}, "exit code 3", ""),
        ("half", {"say": "it gave up\x1b[31m"}, "SIGABRT", "It said last: it gave up[31m"),
        ("garbage", {"line": "{"}, "", "not JSON"),
    ],
)
def test_how_it_ends_is_told(
    talk: Talk, method: str, params: dict[str, Any], what: str, cause: str
) -> None:
    conversation = talk()
    with pytest.raises(PeerEndedError):
        ask(conversation, method, **params)
    error = conversation.lost()
    assert what in error.what
    assert cause in error.what + error.cause
    assert "\x1b" not in str(error)
    if what:  # the board is there
        assert type(error) is DeviceError


def test_what_it_says_beside_the_answers_is_bounded(talk: Talk) -> None:
    conversation = talk()
    assert ask(conversation, "flood", lines=1000) == {}
    assert ask(conversation, "echo", a=1) == {"a": 1}
    conversation.end()
    assert len(conversation.lost().cause) < 1000


def test_what_it_says_before_it_is_read_is_bounded(talk: Talk) -> None:
    conversation = talk()
    pid = pid_of(conversation)
    conversation.peer.request("endless", {})
    conversation.peer.pump(0)
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
    until(partial(ended, pid), "it is gone")


def test_a_program_that_cannot_be_started_is_told(way: Way) -> None:
    (way.here / "text").write_text("no program")

    def converse(program: str) -> None:
        conversation = way.transport.converse([program, "agent.pyz"])
        with pytest.raises(PeerEndedError):
            ask(conversation, "echo")
        conversation.end()
        raise conversation.lost()

    for program in ("/no/such/python3", f"{way.remote}/text"):
        with ends(), pytest.raises(DeviceError, match=r"not found|could not be started"):
            converse(program)


def test_a_call_is_stopped(talk: Talk) -> None:
    conversation = talk()
    assert ask(conversation, "echo", n=0) == {"n": 0}
    call = conversation.peer.request("spin", {})
    assert conversation.stop(call)
    assert call.answer is not None
    assert call.answer["error"]["kind"] == "cancelled"
    assert ask(conversation, "echo", n=1) == {"n": 1}


def test_a_call_that_does_not_stop_ends_the_program(talk: Talk) -> None:
    conversation = talk()
    pid, call = pid_of(conversation), hanging(conversation)
    assert not conversation.stop(call)
    until(partial(ended, pid), "it is gone")
    with pytest.raises(PeerEndedError):
        conversation.peer.wait(call)
    told = conversation.lost().what
    assert "killed by SIGKILL" in told or "ended from here" in told
    conversation.end()


@pytest.mark.long
def test_the_end_leaves_nothing(talk: Talk, way: Way) -> None:
    talk().end()
    way.run("true")
    before = open_files()
    for method in ("echo", "hang", "deaf"):
        conversation = talk()
        pid = pid_of(conversation)
        conversation.peer.request(method, {})
        conversation.end()
        until(partial(ended, pid), "it is gone")
        conversation.end()
        assert isinstance(conversation.lost(), DeviceError)
        with pytest.raises(DeviceError):
            way.transport.push(Path(__file__), f"{way.remote}/toy_far.py/x")
    assert open_files() == before


def test_closing_the_transport_ends_its_talks(talk: Talk, way: Way) -> None:
    one, two = talk(), talk()
    pids = [pid_of(conversation) for conversation in (one, two)]
    hanging(two)
    way.transport.close()
    for conversation, pid in zip((one, two), pids, strict=True):
        until(partial(ended, pid), "it is gone")
        with pytest.raises(PeerEndedError):
            ask(conversation, "echo")
        assert isinstance(conversation.lost(), DeviceError)


def test_a_cable_that_is_pulled_ends_the_talk_and_the_program(talk: Talk, way: Way) -> None:
    if way.kind == "local":
        pytest.skip("it has no cable")
    conversation = talk()
    pid = pid_of(conversation)
    call = conversation.peer.request("hang", {})
    way.cut()
    with pytest.raises(PeerEndedError):
        conversation.peer.wait(call)
    error = conversation.lost()
    assert type(error) is DeviceLostError
    assert error.what
    assert error.cause
    assert error.remedy
    until(partial(ended, pid), "it has ended with its input")
    way.mend()
    assert ask(talk(), "echo", n=1) == {"n": 1}
