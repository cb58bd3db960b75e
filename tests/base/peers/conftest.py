from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.peers import far
from engine.base.peers.child import Child
from engine.base.peers.near import Peer

TOY = Path(__file__).with_name("toy_far.py")


def toy_child(python: str = sys.executable, **options: Any) -> Child:
    return Child([python, "-I", str(TOY), far.__file__], dict(os.environ), "The toy", **options)


@pytest.fixture
def toy() -> Iterator[Child]:
    child = toy_child()
    yield child
    child.end(kill=True)


def pipes() -> tuple[Any, Any, int, int, Callable[[], None]]:
    """Streams of the near end, descriptors of the far end, and what ends the far end."""
    near_reads, far_writes = os.pipe()
    far_reads, near_writes = os.pipe()
    streams = os.fdopen(near_reads, "rb", buffering=0), os.fdopen(near_writes, "wb", buffering=0)

    def end() -> None:
        for handle in (far_reads, far_writes):
            os.close(handle)

    return *streams, far_reads, far_writes, end


def sockets() -> tuple[Any, Any, int, int, Callable[[], None]]:
    ours, theirs = socket.socketpair()
    streams = ours.makefile("rb", buffering=0), ours.makefile("wb", buffering=0)
    ours.close()  # the two files keep it open
    return *streams, theirs.fileno(), theirs.fileno(), theirs.close


@pytest.fixture(params=[pipes, sockets], ids=["pipes", "socketpair"])
def wires(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Streams of the near end and descriptors of the far end."""
    *made, end = request.param()
    yield made
    end()


@pytest.fixture
def served(wires: Any) -> Iterator[Peer]:
    """A peer whose far end is a thread of this process."""
    reads, writes, far_reads, far_writes = wires
    gone = threading.Event()
    server = far.FarEnd(far_reads, far_writes, ended=gone.set)

    def count(request: far.Request) -> far.Message:
        for step in range(request.params["to"]):
            request.progress({"step": step})
        return {"counted": request.params["to"]}

    methods = {"echo": lambda request: request.params, "count": count}
    thread = threading.Thread(target=server.serve, args=(methods,), daemon=True)
    thread.start()
    peer = Peer(reads, writes)
    yield peer
    peer.close()
    assert gone.wait(5), "the far end did not see that the near one has gone"
    thread.join(5)
