"""Whose a socket of loopback is: both ways to ask the kernel, with real sockets."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack

import pytest

from engine.devices import loopback


@pytest.fixture(params=["netlink", "/proc"])
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is asked by the one or the other."""

    def missing(*_: object, **__: object) -> None:
        raise AssertionError("the other way was taken")

    def refused(*_: object, **__: object) -> None:
        raise OSError("built without")

    if request.param == "/proc":
        monkeypatch.setattr(loopback, "_asked", refused)
    else:
        monkeypatch.setattr(loopback, "_tables", missing)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0"),  # noqa: S104 - what adb does with -a
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::"),
        (socket.AF_INET6, "::ffff:127.0.0.1"),
    ],
)
def test_who_listens_is_told(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server:
        server.bind((address, 0))
        port = server.getsockname()[1]
        assert loopback.listeners("localhost", port) == frozenset()
        server.listen()
        (found,) = loopback.listeners("localhost", port)
        assert (found.owner, found.address[1]) == (os.getuid(), port)
        assert found.inode == os.fstat(server.fileno()).st_ino
    assert loopback.listeners("localhost", port) == frozenset()


@pytest.mark.usefixtures("asked")
def test_another_address_does_not_listen_there() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        assert loopback.listeners("127.0.0.1", server.getsockname()[1]) == frozenset()
        assert len(loopback.listeners("127.0.0.2", server.getsockname()[1])) == 1


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("mapped", [False, True])
def test_the_owner_of_a_connection_is_told_until_it_is_closed(mapped: bool) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        family, prefix = (socket.AF_INET6, "::ffff:") if mapped else (socket.AF_INET, "")
        client = stack.enter_context(socket.socket(family))
        client.connect((f"{prefix}127.0.0.1", port))
        stack.enter_context(server.accept()[0])
        own = client.getsockname()[1]
        found = loopback.opened(own, port)
        assert found is not None
        assert (found.owner, found.inode) == (os.getuid(), os.fstat(client.fileno()).st_ino)
        assert loopback.opened(port, port) is None
        client.close()
        assert loopback.opened(own, port) is None
