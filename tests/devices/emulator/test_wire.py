"""The packets of adb against a small host of this test's own, and whom the board lets in."""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base.errors import DeviceError, UsageError
from engine.devices import emulated
from engine.devices.emulated import emulate
from engine.wire.emulated import EmulatedBoard
from rknntui_emulator import emulator
from tests.devices.conftest import Boards
from tests.devices.faulty_board import FaultyBoard
from tests.safety import PATIENCE, ends


class Host:
    """The host's end of one connection, packet by packet."""

    def __init__(self, port: int) -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)

    def send(
        self, name: bytes, first: int = 0, second: int = 0, data: bytes = b"", total: int = -1
    ) -> None:
        """One packet; ``total`` is its sum, the right one by default."""
        command = int.from_bytes(name, "little")
        total = sum(data) if total < 0 else total
        magic = command ^ 0xFFFFFFFF
        self.link.sendall(
            struct.pack("<6I", command, first, second, len(data), total, magic) + data
        )

    def take(self) -> tuple[bytes, int, int, bytes]:
        """The next packet; its sum is right."""
        command, first, second, size, total, magic = struct.unpack("<6I", self._exactly(24))
        assert magic == command ^ 0xFFFFFFFF
        data = self._exactly(size)
        assert total == sum(data) & 0xFFFFFFFF
        return command.to_bytes(4, "little"), first, second, data

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.link.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def greet(self) -> bytes:
        """Make the board's acquaintance; its banner."""
        self.send(b"CNXN", 0x01000001, 1 << 20, b"host::features=shell_v2")
        name, _, _, banner = self.take()
        assert name == b"CNXN"
        return banner


@pytest.fixture
def host(emulated: Boards) -> Iterator[Callable[..., Host]]:
    made: list[Host] = []

    def connect(chip: str = "rk3588", **options: object) -> Host:
        made.append(Host(emulated(chip, **options).port))
        return made[-1]

    yield connect
    for one in made:
        one.link.close()


def test_a_stream_has_one_packet_at_a_time(host: Callable[..., Host]) -> None:
    link = host("rk1808")
    assert b"features" not in link.greet()
    link.send(b"OPEN", 7, 0, b"shell:stty -opost; head -c 10000 /dev/zero\0")
    name, local, remote, _ = link.take()
    assert (name, remote) == (b"OKAY", 7)
    sizes = []
    while True:
        name, first, _, data = link.take()
        if name == b"CLSE":
            break
        assert (name, first) == (b"WRTE", local)
        assert len(data) <= 4096, "an old board sends no more"
        sizes.append(len(data))
        link.link.settimeout(0.05)
        with pytest.raises(TimeoutError):
            link.link.recv(1)
        link.link.settimeout(PATIENCE)
        link.send(b"OKAY", 7, local)
    assert sum(sizes) == 10000


def test_an_old_board_checks_the_sum(host: Callable[..., Host]) -> None:
    link = host("rv1126")
    link.greet()
    link.send(b"OPEN", 7, 0, b"shell:true\0", total=1)
    with pytest.raises((EOFError, ConnectionError)):
        link.take()


@pytest.mark.parametrize(
    "service", [b"shell,v2,raw:true", b"exec:true", b"reverse:forward:tcp:1;tcp:2", b"nothing:"]
)
def test_an_old_board_refuses_what_it_does_not_know(
    host: Callable[..., Host], service: bytes
) -> None:
    link = host("rk1808")
    link.greet()
    link.send(b"OPEN", 9, 0, service + b"\0")
    assert link.take()[:3] == (b"CLSE", 0, 9)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n" * 9, b"\0" * 24, b"\xff" * 99])
def test_what_is_not_adb_is_cut(host: Callable[..., Host], garbage: bytes) -> None:
    link = host()
    link.link.sendall(garbage)
    with pytest.raises((EOFError, ConnectionError)):
        link.take()


def test_nothing_is_served_before_the_greeting(host: Callable[..., Host]) -> None:
    link = host()
    link.send(b"OPEN", 7, 0, b"shell:true\0")
    assert link.greet().startswith(b"device::"), "no answer to the first packet"


def test_a_path_does_not_lead_out_of_the_board(host: Callable[..., Host]) -> None:
    link = host()
    link.greet()
    link.send(b"OPEN", 7, 0, b"sync:\0")
    _, local, _, _ = link.take()
    path = b"/../../../../../../etc/passwd"
    link.send(b"WRTE", 7, local, b"STAT" + struct.pack("<I", len(path)) + path)
    answers = [link.take(), link.take()]
    data = next(data for name, _, _, data in answers if name == b"WRTE")
    assert data == b"STAT" + bytes(12), "the board has no such file"


def test_a_program_of_another_user_is_refused(
    emulated: Boards, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = emulated("rk3588")
    with socket.create_connection(("127.0.0.1", made.port)) as peer:
        assert emulator.same_user(peer.getsockname(), made.port)
    assert not emulator.same_user(("127.0.0.1", 1), made.port), "nobody is there"
    # what its program closed is listed as of user 0, and would pass for root's
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        peer = socket.create_connection(("127.0.0.1", port))
        name = peer.getsockname()
        connected, _ = server.accept()
        with connected:
            assert emulator.same_user(name, port)
            peer.close()
            with monkeypatch.context() as as_root:
                as_root.setattr(emulator.os, "getuid", lambda: 0)
                assert not emulator.same_user(name, port)
    monkeypatch.setattr(emulator, "same_user", lambda *_: False)
    link = Host(made.port)
    with pytest.raises((EOFError, ConnectionError)):
        link.greet()
    link.link.close()
    assert "refused a program of another user" in made.events


def test_the_port_stays_while_the_board_is_away(emulated: Boards) -> None:
    made = emulated("rk3588")
    port = made.port
    made.unplug()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("127.0.0.1", port))
    made.replug()
    Host(made.port).link.close()


def test_a_port_that_is_taken_leaves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        made = FaultyBoard("rk3588", port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            made.start()
    assert not made.root.exists()


def test_it_listens_on_loopback_only(emulated: Boards) -> None:
    made = emulated("rk3588")
    assert made.address == f"127.0.0.1:{made.port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", made.port), timeout=PATIENCE)


def test_it_is_emulated_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, warned = threading.Event(), list[DeviceError]()
    roots: list[str] = []

    def no_compiler(*_: object) -> Path:
        raise DeviceError("There is no C compiler here.")

    def started(address: str, root: str) -> None:
        roots.append(root)
        link = Host(int(address.rpartition(":")[2]))
        assert link.greet().startswith(b"device::ro.product.name=rk3576;")
        link.link.close()
        load = (Path(root) / "proc/rknpu/load").read_text()
        assert load == "NPU load:  Core0: 12%, Core1: 34%,\n"
        assert (Path(root) / "sys/class/thermal/thermal_zone0/temp").read_text() == "60000\n"
        stop.set()

    monkeypatch.setattr(emulator, "build", no_compiler)
    heard: list[str] = []
    with ends():
        emulate(
            "rk3576",
            EmulatedBoard(load=(12, 34), celsius=60, slow=1e3),
            stop=stop,
            started=started,
            warn=warned.append,
            heard=heard.append,
        )
    assert not Path(roots[0]).exists()
    assert [error.what for error in warned] == ["There is no C compiler here."]
    assert heard[0].startswith("listening at 127.0.0.1:")


@pytest.mark.parametrize("load", [(1,), (1, 2, 3), (1, 101), (-1, 1)])
def test_a_load_that_does_not_fit_the_board_is_refused(load: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="each of its 2 cores"):
        emulate(
            "rk3576",
            EmulatedBoard(load=load),
            stop=threading.Event(),
            started=lambda *_: None,
            warn=lambda _: None,
        )


def test_who_waits_for_a_board_hears_that_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(emulator, "BoardEmulator", full)
    with ends(), pytest.raises(OSError, match="No space left"):
        emulated.start("rk3588")
