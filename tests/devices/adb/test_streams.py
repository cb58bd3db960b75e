"""The streams of a conversation and of files, byte by byte: what a quick loopback never shows."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import DeviceError, DeviceStorageError
from engine.devices.transports.adb.conversation import AdbConversation
from engine.devices.transports.adb.link import Link
from engine.devices.transports.adb.shell import (
    CLOSE_INPUT,
    EXIT,
    INPUT,
    STDERR,
    STDOUT,
    Packets,
    packet,
)
from engine.devices.transports.adb.transport import AdbTransport
from tests.devices.adb.stand_in import StandIn, okay
from tests.devices.adb.test_shell import pair
from tests.safety import ends


class Drip(socket.socket):
    """Takes three bytes at a time, so that heads and data of packets are cut everywhere."""

    def send(self, data: Any, flags: int = 0, /) -> int:
        return super().send(bytes(data[:3]), flags)


def sorted_out(data: bytes) -> dict[int, bytes]:
    """What each stream carried; a packet without data counts as an empty piece."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        stream, size = struct.unpack_from("<BI", data, at)
        found[stream] = found.get(stream, b"") + data[at + 5 : at + 5 + size]
        at += 5 + size
    return found


def test_packets_are_whole_where_the_connection_takes_them_in_parts() -> None:
    near, far = pair()
    link = Link(Drip(fileno=near.detach()))
    conversation = AdbConversation("b", link, lambda: DeviceError("gone"))
    text = "abcdefghij" * 8_000
    conversation.peer.request("echo", {"text": text})
    got = b""
    with far, ends():
        far.setblocking(False)
        while not got.endswith(b"}\n"):
            conversation.peer.pump(0)
            with contextlib.suppress(BlockingIOError):
                got += far.recv(1 << 16)
    streams = sorted_out(got)
    assert set(streams) == {INPUT}
    assert json.loads(streams[INPUT])["params"] == {"text": text}
    conversation.peer.close()


def test_the_end_of_the_input_is_told() -> None:
    near, far = pair()
    conversation = AdbConversation("b", Link(near), lambda: DeviceError("gone"))
    with far, ends():
        conversation.peer.hang_up()
        assert far.recv(5, socket.MSG_WAITALL) == packet(CLOSE_INPUT)
    conversation.peer.close()


def test_half_a_packet_is_not_followed_by_another() -> None:
    """The far end would take the next packet for the rest of its data."""
    near, far = pair()
    conversation = AdbConversation("b", Link(near), lambda: DeviceError("gone"))
    conversation.peer.request("echo", {"text": "a" * 30_000_000})
    conversation.peer.hang_up()
    got = b""
    with far, ends():
        while data := far.recv(1 << 16):
            got += data
    conversation.peer.close()
    found: dict[int, int] = {}
    for stream, piece in Packets().feed(got):
        found[stream] = found.get(stream, 0) + len(piece)
    assert set(found) == {INPUT}
    assert packet(CLOSE_INPUT) not in got


def test_what_it_says_is_sorted_byte_by_byte() -> None:
    near, far = pair()
    conversation = AdbConversation("b", Link(near), lambda: DeviceError("gone"))
    call = conversation.peer.request("x", {})
    answer = b'{"id":1,"result":{"a":1}}\n'
    wire = packet(STDERR, b"warn\n") + packet(STDOUT, answer[:9]) + packet(STDERR, b"more\n")
    wire += packet(STDOUT) + packet(STDOUT, answer[9:])
    with far, ends():
        for byte in wire:
            assert call.answer is None
            far.sendall(bytes([byte]))
            conversation.peer.pump(0.001)
        assert conversation.peer.wait(call)["result"] == {"a": 1}
        far.sendall(packet(STDERR, b"last \x1b words") + packet(EXIT, b"\x8b"))
        # the board leaves the stream open: its exit code is the end all the same
        while conversation.peer.open:
            conversation.peer.pump(0.1)
    error = conversation.lost()
    assert "SIGSEGV" in error.what
    assert "last  words" in error.cause
    conversation.end()


def sync(size: int, pieces: Iterable[bytes]) -> Any:
    """A board that says ``size`` of every file and sends ``pieces``."""

    def serve(handle: socket.socket) -> None:
        handle.sendall(b"OKAY")
        while len(head := handle.recv(8, socket.MSG_WAITALL)) == 8:
            letters, length = struct.unpack("<4sI", head)
            handle.recv(length, socket.MSG_WAITALL)
            if letters == b"STAT":
                handle.sendall(b"STAT" + struct.pack("<III", 0o100644, size, 0))
            else:
                for piece in pieces:  # until nobody takes them
                    handle.sendall(piece)

    return serve


def data(content: bytes) -> bytes:
    """A packet of a file."""
    return b"DATA" + struct.pack("<I", len(content)) + content


@pytest.mark.parametrize(
    ("pieces", "kind", "told"),
    [
        (itertools.repeat(data(b"x" * 60_000)), DeviceStorageError, "larger than"),
        ([b"DATA" + struct.pack("<I", 1 << 31)], DeviceError, "ended"),
        ([b"WHAT" + bytes(4)], DeviceError, "ended"),
        ([b"FAIL" + struct.pack("<I", 4) + b"\x1bbad"], DeviceStorageError, "bad"),
    ],
)
def test_a_board_that_sends_something_else_leaves_no_file(
    tmp_path: Path, pieces: Iterable[bytes], kind: type[DeviceError], told: str
) -> None:
    answers = {
        "host:devices-l": okay("abc device transport_id:1\n"),
        "host-serial:abc:features": okay(""),
        "host:transport:abc": b"OKAY",
        "sync:": sync(0, pieces),  # as of a file of /proc
    }
    with StandIn(answers) as stand_in:
        board = AdbTransport.open("abc", stand_in.server)
        with ends(), pytest.raises(kind, match=told) as caught:
            board.pull("/proc/x", tmp_path / "x", limit=100_000)
    assert "\x1b" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
