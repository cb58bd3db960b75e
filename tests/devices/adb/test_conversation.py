"""A program on an emulated board that is asked through a real adb server."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.base.errors import DeviceError
from engine.base.peers.near import Peer, PeerEndedError
from engine.devices.transport import Conversation
from tests.devices.adb.conftest import FOLDER, Opened, Talks
from tests.devices.conftest import Boards
from tests.safety import PATIENCE, ends

pytestmark = pytest.mark.adb


def ask(peer: Peer, method: str, **params: Any) -> Any:
    """The result of a request."""
    return peer.wait(peer.request(method, params))["result"]


def hanging(conversation: Conversation) -> Any:
    """A call that is under way and does not end."""
    begun: list[object] = []
    call = conversation.peer.request("deaf", {}, begun.append)
    with ends():
        while not begun:
            conversation.peer.pump(0.1)
    return call


def test_it_is_asked_and_let_go(board: Boards, opened: Opened, talks: Talks) -> None:
    made = board()
    conversation: Conversation = talks(opened(made))
    steps: list[Any] = []
    assert ask(conversation.peer, "echo", text="ü\n" * 10) == {"text": "ü\n" * 10}
    assert ask(conversation.peer, "variable", name="RKNNTUI_TEST") == {"value": "a-b"}
    call = conversation.peer.request("count", {"to": 3}, steps.append)
    assert conversation.peer.wait(call)["result"] == {"counted": 3}
    assert [message["step"] for message in steps] == [0, 1, 2]
    assert conversation.peer.greeting["protocol"] == 1
    conversation.end()
    conversation.end()
    with ends():
        while made.alive_orphans():
            time.sleep(0.05)


def test_much_goes_both_ways_at_once(board: Boards, opened: Opened, talks: Talks) -> None:
    """More than the kernel holds back: who only wrote or only read would wait for ever."""
    peer = talks(opened(board())).peer
    texts = [str(number) * 1_000_000 for number in range(4)]
    calls = [peer.request("echo", {"text": text}) for text in texts]
    with ends():
        for call, text in zip(calls, texts, strict=True):
            assert peer.wait(call)["result"] == {"text": text}


def test_it_is_asked_in_a_loop(board: Boards, opened: Opened, talks: Talks) -> None:
    peer = talks(opened(board())).peer

    async def talk() -> list[Any]:
        ended = asyncio.Event()
        answers: list[asyncio.Future[Any]] = []
        peer.listen(asyncio.get_running_loop(), ended.set)
        for number in range(3):
            answers.append(asyncio.get_running_loop().create_future())
            text = str(number) * 500_000
            peer.request("echo", {"text": text}).then(answers[-1].set_result)
        found = await asyncio.wait_for(asyncio.gather(*answers), PATIENCE)
        peer.request("half", {})
        await asyncio.wait_for(ended.wait(), PATIENCE)
        return list(found)

    found = asyncio.run(talk())
    assert [len(answer["result"]["text"]) for answer in found] == [500_000] * 3
    assert not peer.open


def test_a_crash_is_told_with_the_last_words(board: Boards, opened: Opened, talks: Talks) -> None:
    conversation = talks(opened(board()))
    with pytest.raises(PeerEndedError):
        ask(conversation.peer, "half", say="the library gave up\x1b[31m")
    error = conversation.lost()
    assert type(error) is DeviceError  # the board is there
    assert "SIGABRT" in error.what
    assert "the library gave up" in error.cause
    assert "\x1b" not in str(error)


def test_what_it_says_beside_the_answers_is_bounded(
    board: Boards, opened: Opened, talks: Talks
) -> None:
    conversation = talks(opened(board()))
    assert ask(conversation.peer, "flood", lines=1000) == {}
    assert ask(conversation.peer, "echo", a=1) == {"a": 1}
    conversation.end()
    assert len(conversation.lost().cause) < 1000


def test_a_program_that_breaks_the_protocol_is_told(
    board: Boards, opened: Opened, talks: Talks
) -> None:
    conversation = talks(opened(board()))
    with pytest.raises(PeerEndedError):
        ask(conversation.peer, "garbage", line="hello")
    assert "protocol" in conversation.lost().what


@pytest.mark.parametrize("program", ["no-such-program", "/proc/version"])
def test_a_program_that_cannot_be_started_is_told(
    board: Boards, opened: Opened, program: str
) -> None:
    conversation = opened(board()).converse([program])
    with pytest.raises(PeerEndedError):
        ask(conversation.peer, "echo")
    error = conversation.lost()
    assert "not found" in error.what or "could not be started" in error.what


def test_what_hangs_is_stopped_and_does_not_stay(
    board: Boards, opened: Opened, talks: Talks
) -> None:
    made = board()
    conversation = talks(opened(made))
    assert not conversation.stop(hanging(conversation))
    assert "ended from here" in conversation.lost().what
    conversation.end()
    with ends():
        while made.alive_orphans():
            time.sleep(0.05)


def test_closing_the_transport_ends_its_conversations(
    board: Boards, opened: Opened, talks: Talks
) -> None:
    made = board()
    transport = opened(made)
    first, second = talks(transport), talks(transport)
    assert ask(first.peer, "echo", a=1)
    hanging(second)
    transport.close()
    assert not first.peer.open
    assert not second.peer.open
    with ends():
        while made.alive_orphans():
            time.sleep(0.05)


@pytest.mark.long
def test_no_descriptor_stays_open(board: Boards, opened: Opened, talks: Talks) -> None:
    transport = opened(board())
    talks(transport).end()
    before = psutil.Process().num_fds()
    for _ in range(5):
        conversation = talks(transport)
        assert ask(conversation.peer, "echo", a=1)
        conversation.end()
        with pytest.raises(DeviceError):
            transport.push(Path(__file__), f"{FOLDER}/toy_far.py/x")
    assert psutil.Process().num_fds() <= before + 2
