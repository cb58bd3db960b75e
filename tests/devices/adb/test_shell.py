"""The packets of adb's shell protocol, and the words that may be a part of a command."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.devices.transports.adb.link import Deadline, Link
from engine.devices.transports.adb.shell import (
    EXIT,
    STDERR,
    STDOUT,
    Packets,
    command_of,
    packet,
    run_mixed,
)
from tests.safety import PATIENCE


@given(
    st.lists(st.tuples(st.sampled_from([STDOUT, STDERR, EXIT]), st.binary(max_size=50))),
    st.integers(1, 60),
)
def test_packets_come_whole_however_they_are_cut(sent: list[tuple[int, bytes]], size: int) -> None:
    wire = b"".join(packet(stream, data) for stream, data in sent)
    packets = Packets()
    got: dict[int, bytes] = {}
    for at in range(0, len(wire), size):
        for stream, piece in packets.feed(wire[at : at + size]):
            got[stream] = got.get(stream, b"") + piece
    for stream in (STDOUT, STDERR, EXIT):
        assert got.get(stream, b"") == b"".join(data for s, data in sent if s == stream)


def test_words_of_our_own_are_a_command() -> None:
    assert command_of(["df", "-Pk", "/userdata/x"]) == "df -Pk /userdata/x"
    assert command_of(["env", "A=b", "python3", "-u", "/tmp/a-3f.py"])


@pytest.mark.parametrize(
    "word",
    ["", "a b", "a;b", "$(id)", "`id`", "a'b", 'a"b', "a|b", "a&b", "*", "~", "a\nb", "é", "#"],
)
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(UsageError):
        command_of(["ls", word])
    with pytest.raises(UsageError):
        command_of([word])


def test_a_command_that_is_too_long_for_an_old_adbd_is_refused() -> None:
    with pytest.raises(UsageError):
        command_of(["rm", *["/data/local/tmp/x"] * 300])


@pytest.mark.parametrize(
    ("said", "code", "out"),
    [
        ("a\r\nb\r\n{word}:0\r\n", 0, b"a\nb\n"),
        ("no line end{word}:7\r\n", 7, b"no line end"),
        ("a\nb\n{word}:255\n", 255, b"a\nb\n"),
        ("exit-0:3\r\n{word}:1\r\n", 1, b"exit-0:3\n"),
        ("{word}:0\n", 0, b""),
        ("cut", None, b""),
        ("{word}:", None, b""),
    ],
)
def test_the_exit_code_of_an_old_board_is_read_from_its_output(
    said: str, code: int | None, out: bytes
) -> None:
    near, far = pair()

    def board() -> None:
        with far:
            size = int(far.recv(4), 16)
            asked = far.recv(size, socket.MSG_WAITALL).decode()
            assert "; ls /x </dev/null & wait $!; echo exit-" in asked
            word = asked.rpartition("echo ")[2].partition(":")[0]
            far.sendall(b"OKAY" + said.format(word=word).encode())

    thread = threading.Thread(target=board)
    thread.start()
    with Link(near) as link:
        done = run_mixed(link, "ls /x", Deadline(PATIENCE), 1 << 20)
    thread.join()
    assert (None if done is None else (done.code, done.out)) == (
        None if code is None else (code, out)
    )


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        return near, server.accept()[0]
