"""A board behind an adb server, as :class:`~engine.devices.transport.Transport`.

Nothing is kept open between calls but conversations: a board that was restarted, or an adb server
that was, is reached again by the next call.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceStorageError,
    DeviceTimeoutError,
    EngineError,
    UsageError,
)
from engine.base.text import sanitize
from engine.devices.transport import Check, Completed, Moved, TransportKind
from engine.devices.transports.adb import files, shell
from engine.devices.transports.adb.conversation import AdbConversation
from engine.devices.transports.adb.link import Deadline, Link, RefusedError
from engine.devices.transports.adb.server import AdbServer
from engine.devices.transports.adb.states import Attached, refusal, storage_error
from engine.devices.transports.shared import BaseTransport, Source

_OPEN_SECONDS = 10.0
_SMALL_SECONDS = 15.0
_ASK_SECONDS = 2.0
_SEND_BUFFER = 1 << 18  # what the kernel holds back is not at the board: progress would be ahead
_CLEAN_SECONDS = 5.0  # a board that has gone is not waited for again
_WORDS_LIMIT = 3000
_PATH_LIMIT = 1000

_NUMBERED = re.compile(r"(.+)#([0-9]{1,9})")


class AdbTransport(BaseTransport):
    """A board on an adb server.

    Args:
        server: on which server.
        serial: its serial number or network address.
        number: the server's number of its connection, where several boards share a serial number.

    Attributes:
        kind: ``adb``.
        name: serial number, with ``#NUMBER`` where it was given.
        converses: whether its adbd has ``shell_v2``; :meth:`open` asks.
    """

    def __init__(self, server: AdbServer, serial: str, number: int | None) -> None:
        self.kind: TransportKind = "adb"
        self.name = serial if number is None else f"{serial}#{number}"
        self.converses = False
        self._server = server
        self._serial = serial
        self._number = number
        self._conversations: list[AdbConversation] = []

    @classmethod
    def open(cls, name: str, server: AdbServer | None = None) -> AdbTransport:
        """The board of that name.

        Args:
            name: of an :class:`~engine.devices.address.Address`: serial number or network
                address. Where boards share a serial number:
                ``usb:PORT``, as adb itself takes it, or ``SERIAL#NUMBER`` with the server's
                number of the connection (``transport_id`` of ``adb devices -l``).
            server: that of the environment where there is none given.

        Raises:
            DeviceError: there is no server, no such board, or it cannot be used now.
        """
        numbered = _NUMBERED.fullmatch(name)
        serial = numbered[1] if numbered else name
        server = server or AdbServer.of_environment()
        board = cls(server, serial, int(numbered[2]) if numbered else None)
        board.converses = "shell_v2" in board._features()
        return board

    def _run(self, words: Sequence[str], seconds: float, limit: int, check: Check) -> Completed:
        command = shell.command_of(words)
        run = shell.run_packets if self.converses else shell.run_mixed
        deadline = Deadline(seconds, check)
        with self._reaching(f"end {words[0]} within {seconds:g} s"), self._open(deadline) as link:
            done = run(link, command, deadline, limit)
        if done is None:
            raise self._gone()
        return done

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """The content of a small file, cut at ``limit`` bytes; None where there is none.

        Raises:
            DeviceStorageError: it is there, and cannot be read.
            DeviceError: the board cannot be used.
        """
        checked = _checked(path)
        data = bytearray()
        deadline = Deadline(_SMALL_SECONDS)
        try:
            with self._reaching(f"give {checked}"), self._files(deadline) as link:
                for piece in files.received(link, checked, deadline):
                    data += piece
                    if len(data) >= limit:
                        break
        except files.FileRefusedError as error:
            if "no such file" in str(error).lower():
                return None
            raise storage_error(self.name, "read", checked, str(error)) from error
        return bytes(data[:limit])

    def _write(
        self, stream: Source, part: str, target: str, mode: int, moved: Moved | None
    ) -> None:
        """A link that moves nothing for 15 seconds ends."""
        _checked(part)
        pieces = iter(partial(stream.read, files.CHUNK), b"")
        try:
            with closing(self._sent(pieces, part, mode)) as sending:
                for done in sending:
                    if moved is not None:
                        moved(done, stream.size)
            self._publish(part, target, stream.size)
        except BaseException as error:
            with contextlib.suppress(EngineError):
                self._remove([part], _CLEAN_SECONDS)
            if isinstance(error, files.FileRefusedError):
                text = str(error)
                raise storage_error(self.name, "write", target, text, stream.size) from error
            raise

    def _sent(self, pieces: Iterable[bytes], part: str, mode: int) -> Generator[int, None, None]:
        with self._reaching(f"take {part}"), self._files(Deadline(_SMALL_SECONDS)) as link:
            link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            yield from files.sent(link, pieces, part, mode, partial(self._size, part))

    def _publish(self, part: str, target: str, total: int) -> None:
        with self._reaching(f"tell the size of {target}"):
            size = self._size(part)
        if size != total & 0xFFFFFFFF:
            raise DeviceStorageError(
                f"{target} did not arrive whole on the board {self.name}: {size} of {total} bytes.",
                cause="The board's disk is full, or the file changed here while it was sent.",
                remedy="Make room on the board and try again.",
            )
        done = self.run(["mv", "-f", part, target], seconds=_SMALL_SECONDS)
        if done.code:
            raise storage_error(self.name, "write", target, _said(done))

    def _size(self, path: str) -> int:
        deadline = Deadline(files.STALL_SECONDS)
        with self._files(deadline) as link:
            return files.file_size(link, path, deadline) or 0

    @contextmanager
    def _reading(self, source: str) -> Iterator[tuple[int, Iterator[bytes]]]:
        checked = _checked(source)
        with self._reaching(f"tell the size of {checked}"):
            size = self._size(checked)
        with closing(self._received(checked)) as pieces:
            yield size, pieces

    def _received(self, source: str) -> Generator[bytes, None, None]:
        try:
            with self._reaching(f"give {source}"), self._files(Deadline(_SMALL_SECONDS)) as link:
                yield from files.received(link, source)
        except files.FileRefusedError as error:
            raise storage_error(self.name, "read", source, str(error)) from error

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files of ours that may be there.

        Raises:
            DeviceStorageError: one of them is there and stays.
            DeviceError: the board cannot be used.
        """
        self._remove([_checked(path) for path in paths], _SMALL_SECONDS)

    def _remove(self, paths: Sequence[str], seconds: float) -> None:
        waiting: list[str] = []
        for path in [*paths, ""]:
            if waiting and (not path or sum(map(len, waiting)) + len(path) > _WORDS_LIMIT):
                done = self.run(["rm", "-f", *waiting], seconds=seconds)
                if done.code:
                    raise storage_error(self.name, "remove", waiting[0], _said(done))
                waiting = []
            waiting.append(path)

    def converse(self, words: Sequence[str]) -> AdbConversation:
        """Start a program that speaks the protocol of :mod:`engine.base.peers.far`, see
        :meth:`engine.devices.transport.Transport.converse`.

        Raises:
            UsageError: a word has characters that mean something to a shell.
            DeviceError: the board cannot be used, or has no ``shell_v2``.
        """
        if not self.converses:
            raise DeviceError(
                f"A program on the board {self.name} cannot be asked while it runs.",
                cause="Its adbd is old (no shell_v2): it has no clean way in for a program.",
                remedy="Use it for one request at a time, or reach the board by ssh.",
            )
        command = shell.command_of(words)
        deadline = Deadline(_OPEN_SECONDS)
        with self._reaching(f"start {words[0]}"), contextlib.ExitStack() as stack:
            link = stack.enter_context(self._open(deadline))
            link.request(f"shell,v2,raw:exec {command}", deadline)
            conversation = AdbConversation(self.name, link, self._gone)
            stack.pop_all()
        self._conversations = [c for c in self._conversations if c.peer.open]
        self._conversations.append(conversation)
        return conversation

    def close(self) -> None:
        """Let the board go; conversations end."""
        while self._conversations:
            self._conversations.pop().end()

    def _open(self, deadline: Deadline) -> Link:
        """A connection to the board's adbd."""
        link = self._server.connect(deadline)
        try:
            if self._number is None:
                link.request(f"host:transport:{self._serial}", deadline)
            else:
                self._check_number(deadline)
                link.request(f"host:transport-id:{self._number}", deadline)
        except BaseException:
            link.close()
            raise
        return link

    def _check_number(self, deadline: Deadline) -> None:
        """A server that was restarted counts anew: the number may be another board's."""
        serial = self._server.ask(f"host-transport-id:{self._number}:get-serialno", deadline)
        if serial != self._serial:
            raise RefusedError(f"device {self.name} not found")

    @contextmanager
    def _files(self, deadline: Deadline) -> Iterator[Link]:
        with self._open(deadline) as link:
            link.request("sync:", deadline)
            yield link

    def _features(self) -> list[str]:
        board = f"serial:{self._serial}" if self._number is None else f"transport-id:{self._number}"
        deadline = Deadline(_OPEN_SECONDS)
        with self._reaching("tell what it can do"):
            if self._number is not None:
                self._check_number(deadline)
            return self._server.ask(f"host-{board}:features", deadline).split(",")

    @contextmanager
    def _reaching(self, doing: str) -> Iterator[None]:
        """Errors of a connection become those of this board."""
        try:
            yield
        except RefusedError as error:
            gone = str(error) == "closed"  # it went while it was asked
            raise self._gone() if gone else refusal(self.name, str(error)) from error
        except TimeoutError as error:
            raise DeviceTimeoutError(
                f"The board {self.name} did not {doing}."
                if "within" in doing
                else f"The board {self.name} did not {doing} in time.",
                cause="It hangs or is busy, or its cable or network stands still.",
                remedy="Look at its cable and load. If it stays so, restart the board.",
            ) from error
        except OSError as error:
            raise self._gone() from error

    def _gone(self) -> DeviceError:
        """Why a connection to the board ended, as far as the adb server knows."""
        ended = f"The connection to the board {self.name} ended."
        if not self._server.is_up(_ASK_SECONDS):
            return DeviceLostError(
                ended,
                cause="The adb server ended: another tool stopped or restarted it.",
                remedy="Try again; the server is started again.",
            )
        try:
            boards = self._server.boards(Deadline(_ASK_SECONDS))
        except DeviceError as error:
            return error
        board = next((b for b in boards if self._is(b)), None)
        if board is None:
            return refusal(self.name, "not found")
        if board.state.name != "ready":
            return DeviceLostError(
                f"{ended} It {board.state.what}.",
                cause=f"Its cable was pulled or it was restarted. {board.state.cause}",
                remedy=board.state.remedy,
            )
        return DeviceLostError(
            ended,
            cause="The board or its adbd was restarted, or its cable was out for a moment.",
            remedy="Try again: the board is there.",
        )

    def _is(self, board: Attached) -> bool:
        named = self._serial in (board.serial, board.tags.get("usb"))
        return named and self._number in (None, board.transport_id)


def _checked(path: str) -> str:
    """A path on a board, absolute and of characters that mean only themselves.

    Raises:
        UsageError: it is another.
    """
    if not path.startswith("/") or len(path) > _PATH_LIMIT:
        raise UsageError(
            f"{sanitize(repr(path), 120)} is no absolute path of at most {_PATH_LIMIT} bytes."
        )
    return shell.command_of([path])


def _said(done: Completed) -> str:
    return (done.err or done.out).decode("utf-8", "replace")
