"""Programs of a board through adb's ``shell`` service, with their exit codes.

``shell,v2,raw`` [adb, ``shell_protocol.h``] sends packets: a byte that says which stream, the
length as four bytes little endian, the data. Boards whose adbd has no ``shell_v2`` (Linux images
of RK1808, RV1109, RV1126, RV1106) run the command on a terminal of their own: both outputs come
mixed, with CR LF as line ends and without an exit code, which is echoed here behind a word that
no program knows.
"""

from __future__ import annotations

import re
import secrets
import struct
from collections.abc import Iterable, Sequence

from engine.base.errors import UsageError
from engine.devices.transport import Completed
from engine.devices.transports.adb.link import Deadline, Link
from engine.devices.transports.shared import check_words

INPUT, STDOUT, STDERR, EXIT, CLOSE_INPUT = range(5)

_HEADER = struct.Struct("<BI")
_CHUNK = 1 << 16

_COMMAND_LIMIT = 3800
"""Bytes of a command: an old adbd takes 4096 with the service's name and the exit code's echo."""

_TAIL = 256


def packet(stream: int, data: bytes = b"") -> bytes:
    """``data`` of one stream as it travels."""
    return _HEADER.pack(stream, len(data)) + data


def command_of(words: Sequence[str]) -> str:
    """The one string that the service takes, of words that mean only themselves to a shell.

    Raises:
        UsageError: a word has other characters, or there are too many words. The words of a
            command are this program's own; what a user, a model or a board says travels in files
            and messages.
    """
    check_words(words)
    command = " ".join(words)
    if not command or len(command) > _COMMAND_LIMIT:
        raise UsageError(f"A command for a board has 1 to {_COMMAND_LIMIT} bytes.")
    return command


class Packets:
    """Cuts what a program says into its streams; a packet that is not whole takes no memory."""

    def __init__(self) -> None:
        self._head = b""
        self._stream = -1
        self._left = 0

    def feed(self, data: bytes) -> Iterable[tuple[int, bytes]]:
        """Stream and data of each piece in ``data``; a packet may come in several pieces."""
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                yield self._stream, piece
                continue
            need = _HEADER.size - len(self._head)
            self._head += data[at : at + need]
            at += need
            if len(self._head) == _HEADER.size:
                self._stream, self._left = _HEADER.unpack(self._head)
                self._head = b""


def run_packets(link: Link, command: str, deadline: Deadline, limit: int) -> Completed | None:
    """Run a command on a board with ``shell_v2``; None where its exit code never came.

    Args:
        link: leads to the board.
        command: as :func:`command_of` makes it.
        deadline: for all of it.
        limit: bytes of each output that are kept.
    """
    link.request(f"shell,v2,raw:exec {command}", deadline)
    link.send(packet(CLOSE_INPUT), deadline)
    packets, kept = Packets(), {STDOUT: bytearray(), STDERR: bytearray()}
    while data := link.some(_CHUNK, deadline):
        for stream, piece in packets.feed(data):
            if stream == EXIT:
                return Completed(piece[0], bytes(kept[STDOUT]), bytes(kept[STDERR]))
            if stream in kept:
                kept[stream] += piece[: limit - len(kept[stream])]
    return None


def run_mixed(link: Link, command: str, deadline: Deadline, limit: int) -> Completed | None:
    """The same on a board without ``shell_v2``: all output is in ``out``."""
    word = f"exit-{secrets.token_hex(8)}"
    # Without an input: a program that reads would wait for ever on the board's terminal. In the
    # background: adbd tells only the shell that the stream was closed, and that passes it on.
    wrapped = f"trap 'kill $!' 1; {command} </dev/null & wait $!; echo {word}:$?"
    link.request(f"shell:{wrapped}", deadline)
    kept, tail, total = bytearray(), b"", 0
    while data := link.some(_CHUNK, deadline):
        kept += data[: limit - len(kept)]
        total += len(data)
        tail = (tail + data)[-_TAIL:]
    match = re.search(rb"%s:([0-9]{1,3})(\r*)\n\s*\Z" % word.encode("ascii"), tail)
    if match is None:
        return None
    out = bytes(kept[: max(0, total - (len(tail) - match.start()))])
    if match[2]:  # its terminal put a CR before every line end
        out = out.replace(b"\r\n", b"\n")
    return Completed(int(match[1]), out)
