"""The near end: asks the program at the other end of two byte streams, whatever carries them.

One :class:`Peer` serves blocking callers (:meth:`Peer.wait`) and an asyncio loop
(:meth:`Peer.listen`). It starts no thread, never blocks where the far end does not read or write,
and believes nothing of what comes. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from io import RawIOBase
from typing import TYPE_CHECKING

from engine.base.errors import EngineError
from engine.base.peers.far import (
    LINE_LIMIT,
    PROTOCOL,
    Lines,
    Message,
    ProtocolError,
    decode,
    encode,
)
from engine.base.plain import JsonObject
from engine.base.text import sanitize

if TYPE_CHECKING:
    import asyncio

LOOK_SECONDS = 0.1
"""How often who waits looks after other things."""

_CHUNK = 1 << 16
_TAIL = 1 << 16
_SHOWN = 300


class PeerEndedError(Exception):
    """The far end has gone, or does not keep to the protocol, and an answer is still out."""


class Call:
    """A request under way.

    Attributes:
        number: its id.
        answer: a message with ``result`` or ``error``; None until it is there.
    """

    def __init__(self, number: int, progress: Callable[[Message], object] | None) -> None:
        self.number = number
        self.answer: Message | None = None
        self.progress = progress
        self._then: list[Callable[[Message], object]] = []

    def then(self, action: Callable[[Message], object]) -> None:
        """Do something with the answer, at once where it is there already."""
        if self.answer is None:
            self._then.append(action)
        else:
            action(self.answer)

    def settle(self, answer: Message) -> None:
        """The answer is there; only the first one counts."""
        if self.answer is None:
            self.answer = answer
            # who waits often knows the call: a circle would keep the answer until it is collected
            actions, self._then = self._then, []
            for action in actions:
                action(answer)


class Peer:
    """The program at the other end of two byte streams.

    Args:
        reads: raw stream (:class:`io.RawIOBase` with a descriptor) of what it says. A transport
            that wraps bytes in packets is a class of its own over this one.
        writes: raw stream to it; may be the same.
        errors: raw stream of what it writes to stderr; its end is kept, see :attr:`last_words`.
        heard: called with all that comes there, piece by piece.
        notice: called with each message that belongs to no request.
        limit: the longest line that it may send, in bytes.

    Attributes:
        open: whether its stream has not ended and held to the protocol until now.
        fault: which rule of the protocol it broke; empty where it did not.
        greeting: what it said of itself first.
        received: bytes that came from it.
    """

    def __init__(
        self,
        reads: RawIOBase,
        writes: RawIOBase,
        *,
        errors: RawIOBase | None = None,
        heard: Callable[[bytes], object] | None = None,
        notice: Callable[[Message], object] | None = None,
        limit: int = LINE_LIMIT,
    ) -> None:
        self._reads, self._writes, self._errors = reads, writes, errors
        self._heard = heard
        self._notice = notice
        self._lines = Lines(limit)
        self._calls: dict[int, Call] = {}
        self._next = 1
        self._outgoing = bytearray()
        self._tail = bytearray()
        self._lost: Message | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: Callable[[], object] | None = None
        self.open = True
        self.fault = ""
        self.greeting: Message = {}
        self.received = 0
        for stream in (reads, writes, errors):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)

    def request(
        self,
        method: str,
        params: JsonObject,
        progress: Callable[[Message], object] | None = None,
    ) -> Call:
        """Send a request.

        Args:
            method: its name.
            params: plain data.
            progress: called with each message of this request before its answer.
        """
        call = Call(self._next, progress)
        self._next += 1
        if self._lost is not None:
            call.settle(self._lost)
            return call
        self._calls[call.number] = call
        self._send({"id": call.number, "method": method, "params": dict(params)})
        return call

    def cancel(self, call: Call) -> None:
        """Tell the far end that nobody needs the answer; it comes all the same."""
        self._send({"cancel": call.number})

    def stop(self, call: Call, steps: Iterable[Callable[[], object]], seconds: float) -> bool:
        """End a call: it is cancelled, then what :func:`ladder` does with the steps.

        Returns:
            Whether the far end is still there to be asked.
        """
        self.cancel(call)
        over = lambda: call.answer is not None or not self.open  # noqa: E731
        for waiting in ladder(over, steps, seconds):
            self.pump(waiting)
        return call.answer is not None and self.open

    def wait(self, call: Call, look: Callable[[], object] | None = None) -> Message:
        """Block until the answer is there.

        Args:
            call: the request.
            look: called ten times a second; what it raises ends the waiting.

        Raises:
            PeerEndedError: no answer will come.
        """
        while call.answer is None:
            if not self.open:
                raise PeerEndedError(self.fault)
            if look is not None:
                look()
            self.pump(LOOK_SECONDS)
        return call.answer

    def pump(self, seconds: float) -> None:
        """Take what comes first and send what is left, within so many seconds."""
        if not self.open:
            time.sleep(seconds)
            return
        ready = select.poll()
        ready.register(self._reads, select.POLLIN)
        if self._errors is not None:
            ready.register(self._errors, select.POLLIN)
        if self._outgoing:
            ready.register(self._writes, select.POLLOUT)
        handles = {handle for handle, _ in ready.poll(round(seconds * 1000))}
        if self._errors is not None and self._errors.fileno() in handles:
            self._read_errors()
        if self._outgoing and self._writes.fileno() in handles:
            self._flush()
        if self._reads.fileno() in handles:
            self._read()

    def listen(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], object]) -> None:
        """Take what comes in a loop from now on; ``ended`` is called once :attr:`open` is false."""
        self._loop, self._ended = loop, ended
        loop.add_reader(self._reads, self._read)
        if self._errors is not None:
            loop.add_reader(self._errors, self._read_errors)

    def fail(self, error: EngineError, calls: list[Call] | None = None) -> None:
        """Settle calls that are out with an error: those given, or all and every later one."""
        message: Message = {"error": error.to_dict()}
        if calls is None:
            self._lost = message
        for call in list(self._calls.values()) if calls is None else calls:
            self._calls.pop(call.number, None)
            call.settle(message)

    def hang_up(self) -> None:
        """Send no more: a far end without work ends."""
        with contextlib.suppress(OSError):
            if self._loop is not None and not self._writes.closed:
                self._loop.remove_writer(self._writes)
            self._writes.close()

    def close(self) -> None:
        """Hang up and listen no more."""
        self._unlisten()
        self.hang_up()
        self.open = False
        for stream in (self._reads, self._errors):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    @property
    def last_words(self) -> str:
        """The last line that it wrote to stderr, fit to be shown; empty where there is none."""
        self._read_errors()
        lines = self._tail.decode("utf-8", "replace").split("\n")
        return next((sanitize(line, _SHOWN) for line in reversed(lines) if line.strip()), "")

    def hear(self, most: int = 1 << 20) -> None:
        """Take what it has written to stderr by now, without waiting, and not for ever."""
        for _ in range(max(1, most // _CHUNK)):
            if self._errors is None or not self._read_errors():
                return

    def _send(self, message: Message) -> None:
        self._outgoing += encode(message)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._outgoing and (sent := self._writes.write(self._outgoing)):
                del self._outgoing[:sent]
        except (OSError, ValueError):  # it reads no more: the end of what it says comes next
            self._outgoing.clear()
        if self._loop is not None and not self._writes.closed:
            if self._outgoing:
                self._loop.add_writer(self._writes, self._flush)
            else:
                self._loop.remove_writer(self._writes)

    def _read(self) -> None:
        try:
            data = self._reads.read(_CHUNK)
        except OSError:
            data = b""
        if data is None:
            return
        self.received += len(data)
        try:
            for line in self._lines.feed(data):
                self._take(line)
            if self._lines.overlong:
                self._take(None)
        except ProtocolError as error:
            self.fault = str(error)
        if not data or self.fault:
            self.open = False
            self._unlisten()
            if self._ended is not None:
                self._ended()

    def _take(self, line: bytes | None) -> None:
        if line is None:
            raise ProtocolError("a line is too long")
        message = decode(line)
        for part in ("result", "error"):
            if not isinstance(message.get(part, {}), dict):
                raise ProtocolError(f"a line has another {part} than an object")
        if "ready" in message:
            if message.get("protocol") != PROTOCOL:
                raise ProtocolError(f"it speaks another protocol than {PROTOCOL}")
            self.greeting = message
        elif (number := message.get("id")) is None:
            if self._notice is not None:
                self._notice(message)
        elif isinstance(number, int) and (call := self._calls.get(number)) is not None:
            if message.keys() & {"result", "error"}:
                del self._calls[number]
                call.settle(message)
            elif call.progress is not None:
                call.progress(message)

    def _read_errors(self) -> bool:
        """Whether there was anything."""
        if self._errors is None:
            return False
        try:
            data = self._errors.read(_CHUNK)
        except (OSError, ValueError):  # gone, or closed with the rest of a program that ends
            data = b""
        if data is None:
            return False
        self._tail += data
        del self._tail[:-_TAIL]
        if data and self._heard is not None:
            self._heard(data)
        if not data:
            if self._loop is not None:
                self._loop.remove_reader(self._errors)
            self._errors.close()
            self._errors = None
        return bool(data)

    def _unlisten(self) -> None:
        if self._loop is None:
            return
        for stream in (self._reads, self._errors):
            if stream is not None and not stream.closed:
                self._loop.remove_reader(stream)
        if not self._writes.closed:
            self._loop.remove_writer(self._writes)


def ladder(
    ended: Callable[[], bool], steps: Iterable[Callable[[], object]], seconds: float
) -> Iterator[float]:
    """Take steps, each harder than the one before, until something has ended.

    Before each step it has ``seconds`` to end by itself. The caller waits between, in its own way.

    Args:
        ended: whether it has.
        steps: such as a signal to terminate and one to kill.
        seconds: between steps.

    Yields:
        How long to wait until the next look.
    """
    for step in steps:
        for _ in range(int(seconds / LOOK_SECONDS)):
            if ended():
                return
            yield LOOK_SECONDS
        step()
