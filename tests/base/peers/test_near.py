"""The near end asks over pipes, sockets and a child's streams, and survives what comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.base.errors import WorkerError
from engine.base.peers import child as children
from engine.base.peers import far
from engine.base.peers.child import Child
from engine.base.peers.near import Peer, PeerEndedError, ladder
from tests.base.peers.conftest import toy_child
from tests.safety import PATIENCE

LARGE = {"text": "x" * 3_000_000}


def within(seconds: float) -> Callable[[], None]:
    """What ends a wait that takes too long."""
    deadline = time.monotonic() + seconds

    def look() -> None:
        if time.monotonic() > deadline:
            raise TimeoutError

    return look


def test_requests_answers_and_progress(served: Peer) -> None:
    steps: list[far.Message] = []
    count = served.request("count", {"to": 3}, steps.append)
    echo = served.request("echo", LARGE)
    assert served.wait(echo)["result"] == LARGE  # more than a pipe holds, both ways
    assert count.answer == {"id": count.number, "result": {"counted": 3}}
    assert [message["step"] for message in steps] == [0, 1, 2]
    assert served.wait(served.request("ehco", {}))["error"]["what"].endswith("count, echo.")


async def test_the_same_in_a_loop(served: Peer) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    served.listen(loop, ended.set)
    answers: list[asyncio.Future[far.Message]] = []
    for number in range(20):
        future: asyncio.Future[far.Message] = loop.create_future()
        call = served.request("echo", {"n": number, **LARGE} if number % 9 == 0 else {"n": number})
        call.then(future.set_result)
        answers.append(future)
    found = await asyncio.wait_for(asyncio.gather(*answers), PATIENCE)
    assert [message["result"]["n"] for message in found] == list(range(20))
    served.close()
    assert not ended.is_set()


GARBAGE = [
    ("no json", "not JSON"),
    ("[1]", "not an object"),
    ('{"id": 1, "result": 7}', "another result"),
    ('{"id": 1, "error": "x"}', "another error"),
    ('{"ready": true, "protocol": 99}', "another protocol"),
]
HARMLESS = ['{"id": [1], "result": {}}', '{"id": 77, "result": {}}', '{"id": null}', '{"x": 1}']


def greeted(wires: Any, **options: Any) -> Peer:
    reads, writes, _, far_writes = wires
    os.write(far_writes, far.encode({"ready": True, "protocol": far.PROTOCOL}))
    return Peer(reads, writes, **options)


Talk = tuple[far.FarEnd, Peer, list[far.Message]]


@pytest.fixture
def talk(wires: Any) -> Iterator[Talk]:
    """Both ends, and what belongs to no request; the far end is not started."""
    reads, writes, far_reads, far_writes = wires
    server = far.FarEnd(far_reads, far_writes, ended=lambda: None, limit=1000)
    noticed: list[far.Message] = []
    peer = Peer(reads, writes, notice=noticed.append)
    yield server, peer, noticed
    peer.close()
    server.close(PATIENCE)  # its thread must not write to a descriptor that is somebody else's next


@pytest.mark.parametrize(("line", "says"), GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_ends_it(wires: Any, line: str, says: str) -> None:
    peer = greeted(wires)
    call = peer.request("any", {})
    os.write(wires[3], line.encode() + b"\n")
    with pytest.raises(PeerEndedError, match=says):
        peer.wait(call, within(5))
    assert not peer.open
    peer.close()


def test_what_belongs_to_no_request_does_no_harm(wires: Any) -> None:
    noticed: list[far.Message] = []
    peer = greeted(wires, notice=noticed.append)
    call = peer.request("any", {})
    for line in (*HARMLESS, '{"id": 1, "result": {"n": 1}}'):
        os.write(wires[3], line.encode() + b"\n")
    assert peer.wait(call, within(5))["result"] == {"n": 1}
    assert noticed == [{"id": None}, {"x": 1}]
    peer.close()


def test_the_far_end_goes_on_after_garbage(wires: Any, talk: Talk) -> None:
    server, peer, noticed = talk
    server.start()
    wires[1].write(b"garbage\n[]\n" + b"x" * 5000 + b'\n{"id": []}\n{"cancel": []}\n')
    call = peer.request("hello", {"a": 1})
    odd, asked = server.next(5), server.next(5)
    assert odd is not None
    odd.answer({"result": {}})
    assert asked is not None
    assert (asked.method, asked.params) == ("hello", {"a": 1})
    asked.answer({"result": {}})
    assert peer.wait(call, within(5))["result"] == {}
    said = [
        message["error"]["what"].partition(": ")[2] for message in noticed if "error" in message
    ]
    assert said == ["a line is not JSON.", "a line is not an object.", "a line is too long."]
    peer.close()
    assert server.next(5) is None


def test_a_notice_that_still_waits_is_not_sent_twice(talk: Talk) -> None:
    server, peer, noticed = talk
    for _ in range(100):  # nothing is written before it starts
        server.send({"job": "a"}, once="a")
    server.start()
    while not peer.greeting:
        peer.pump(1)
    peer.pump(0.1)
    assert noticed == [{"job": "a"}]


def test_what_is_flushed_is_written(wires: Any, talk: Talk) -> None:
    server, _, _ = talk
    server.start()
    server.send({"n": 1})
    server.flush(PATIENCE)
    assert wires[0].read(1 << 16).endswith(b'{"n":1}\n')
    server.send(LARGE)  # more than fits without a reader
    begun = time.monotonic()
    server.flush(0.2)
    assert time.monotonic() - begun < 5


def test_a_near_end_that_has_gone_stops_no_answer(talk: Talk) -> None:
    server, peer, _ = talk
    server.start()
    call = peer.request("work", {})
    asked = server.next(5)
    assert asked is not None
    peer.close()
    assert server.next(5) is None
    asked.answer({"result": LARGE})
    server.close(5)
    assert server._writer.join(0)
    assert call.answer is None


def test_a_far_end_that_does_not_read_stops_nobody(wires: Any) -> None:
    peer = greeted(wires)
    calls = [peer.request("any", LARGE) for _ in range(3)]
    with pytest.raises(TimeoutError):
        peer.wait(calls[0], within(0.3))
    peer.fail(WorkerError("given up"))
    assert all(call.answer and call.answer["error"]["what"] == "given up" for call in calls)
    later = peer.request("any", {})
    assert later.answer == calls[0].answer
    peer.close()


def test_errors_of_a_child(toy: Child) -> None:
    peer = toy.peer
    error = peer.wait(peer.request("refuse", {}))["error"]
    assert (error["kind"], error["cause"]) == ("unsupported operator", "nobody knows it")
    assert "ZeroDivisionError" in peer.wait(peer.request("mistake", {}))["error"]["what"]
    assert "TypeError" in peer.wait(peer.request("no_json", {}))["error"]["what"]
    assert peer.wait(peer.request("prints", {}))["result"] == {}  # and what it printed is no answer
    assert "ZeroDivisionError: " in peer._tail.decode()


def test_a_child_that_dies_in_the_middle_of_a_line(toy: Child) -> None:
    call = toy.peer.request("half", {})
    with pytest.raises(PeerEndedError):
        toy.peer.wait(call, within(PATIENCE))
    lost = toy.lost("The toy", toy.returncode(), "Try again.")
    assert lost.what == "The toy was killed by SIGABRT."
    assert lost.cause.endswith("It said last: the library gave up")


def test_a_child_that_floods_its_stderr_is_heard_to_the_end(toy: Child) -> None:
    call = toy.peer.request("flood", {"lines": 3000})  # 3 MB; a pipe holds 64 KiB
    assert toy.peer.wait(call, within(PATIENCE))["result"] == {}
    toy.peer.pump(0.1)
    assert toy.peer.last_words == "last words"
    assert len(toy.peer._tail) <= 1 << 16


def test_a_line_without_end_is_cut_off() -> None:
    child = toy_child(limit=1 << 20)
    call = child.peer.request("endless", {})
    with pytest.raises(PeerEndedError, match="too long"):
        child.peer.wait(call, within(PATIENCE))
    child.end(kill=True)


def test_a_child_that_ended_is_told_with_its_code(toy: Child) -> None:
    call = toy.peer.request("leave", {})
    with pytest.raises(PeerEndedError):
        toy.peer.wait(call, within(PATIENCE))
    assert "exit code 3" in toy.lost("The toy", toy.returncode(), "").what
    assert not toy.alive


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(WorkerError, match="The toy could not be started: No such file"):
        Child(["/no/such/program"], {}, "The toy")


@pytest.mark.parametrize(
    ("method", "signals", "stays"),
    [("spin", [], True), ("hang", ["SIGTERM"], False), ("deaf", ["SIGTERM", "SIGKILL"], False)],
)
def test_what_is_stopped_ends_by_the_mildest_means(
    toy: Child, monkeypatch: pytest.MonkeyPatch, method: str, signals: list[str], stays: bool
) -> None:
    monkeypatch.setattr(children, "LADDER_SECONDS", 1.0)
    sent: list[str] = []
    send = type(toy.id).send

    def noted(process: Any, number: signal.Signals) -> bool:
        sent.append(number.name)
        return send(process, number)

    monkeypatch.setattr(type(toy.id), "send", noted)
    heard: list[far.Message] = []
    call = toy.peer.request(method, {}, heard.append)
    if method == "deaf":
        while not heard:
            toy.peer.pump(0.1)
    assert toy.stop(call) is stays
    assert sent == signals
    if stays:
        assert toy.peer.wait(toy.peer.request("echo", {"n": 1}))["result"] == {"n": 1}


def test_closing_ends_a_child_that_hangs(toy: Child) -> None:
    """Its reader sees that the input was closed, whatever the method does."""
    toy.peer.request("hang", {})
    toy.peer.pump(0.2)
    toy.peer.hang_up()
    assert toy.process.wait(5) == 0


def test_the_ladder_stops_where_it_is_over() -> None:
    taken: list[str] = []
    waits = list(
        ladder(lambda: bool(taken), [lambda: taken.append("a"), lambda: taken.append("b")], 0.3)
    )
    assert taken == ["a"]
    assert waits == [0.1, 0.1]


def test_all_that_a_child_prints_is_heard_and_it_keeps_descriptors() -> None:
    """More than a pipe holds comes whole, and a descriptor has the same number there."""
    heard = bytearray()
    reads, writes = os.pipe()
    script = (
        "import os, sys; os.write(int(sys.argv[1]), b'kept'); "
        "[os.write(2, b'%07d\\n' % n) for n in range(50000)]"
    )
    child = Child(
        [sys.executable, "-I", "-c", script, str(writes)],
        dict(os.environ),
        "It",
        keep=(writes,),
        heard=heard.extend,
    )
    os.close(writes)
    deadline = time.monotonic() + PATIENCE
    while len(heard) < 400_000 and time.monotonic() < deadline:
        child.peer.hear(1 << 16)
        time.sleep(0.001)
    child.peer.hear()
    assert os.read(reads, 10) == b"kept"
    assert bytes(heard) == b"".join(b"%07d\n" % n for n in range(50_000))
    assert child.peer.last_words == "0049999"
    child.end(kill=True)
    os.close(reads)
