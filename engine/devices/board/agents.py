"""The agent on a board as a program that runs all the time and is asked over its own streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from engine.base.errors import DeviceError, DeviceLostError, DeviceTimeoutError
from engine.base.peers.far import Message
from engine.base.peers.near import LOOK_SECONDS, Peer, PeerEndedError
from engine.base.plain import JsonObject
from engine.devices.board.answers import hang_error, misfit_error
from engine.devices.transport import Conversation, Transport

GREETING_SECONDS = 30.0


_MESSAGES, _MESSAGES_A_SECOND = 5_000, 1_000
_BYTES, _BYTES_A_SECOND = 64 << 20, 4 << 20
"""What one request may bring before its answer: a board that says more would fill the memory of
whoever shows it."""


class _Allowance:
    """Counts what a request brings.

    Args:
        peer: who answers it.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer, self._bytes, self._begun = peer, peer.received, time.monotonic()
        self._messages = 0

    def take(self) -> None:
        """One message more.

        Raises:
            DeviceError: it is one too many.
        """
        self._messages += 1
        seconds = time.monotonic() - self._begun
        if (
            self._messages > _MESSAGES + _MESSAGES_A_SECOND * seconds
            or self._peer.received - self._bytes > _BYTES + _BYTES_A_SECOND * seconds
        ):
            raise misfit_error(f"{self._messages} messages in {seconds:.1f} s are too many")


class LiveAgent:
    """A conversation with the agent, begun anew where it has ended.

    Args:
        transport: the board.
        words: what starts the agent.
        check: called ten times a second; what it raises ends what is under way.

    Attributes:
        lost: whether the board has gone.
        pid: of the agent; None before it was started.
    """

    def __init__(
        self, transport: Transport, words: Sequence[str], check: Callable[[], object]
    ) -> None:
        self._transport, self._words, self._check = transport, words, check
        self._conversation: Conversation | None = None
        self.lost = False
        self.pid: int | None = None

    @property
    def running(self) -> bool:
        """Whether it is where the last request left it."""
        return self._conversation is not None

    def start(self) -> Conversation:
        """Have it running.

        Raises:
            DeviceError: it does not start, or speaks another protocol.
        """
        if self._conversation is None:
            conversation = self._transport.converse(self._words)
            try:
                self._await_greeting(conversation)
            except BaseException:
                conversation.end()
                raise
            self._conversation = conversation
        return self._conversation

    def _await_greeting(self, conversation: Conversation) -> None:
        deadline = time.monotonic() + GREETING_SECONDS
        peer = conversation.peer
        while not peer.greeting:
            self._check()
            if not peer.open:
                raise self._ended_error(conversation)
            if time.monotonic() > deadline:
                raise DeviceTimeoutError(
                    f"The program on {self._transport.name} did not start within "
                    f"{GREETING_SECONDS:.0f} s.",
                    cause="The board is busy.",
                    remedy="End other programs on the board, or restart it.",
                )
            peer.pump(LOOK_SECONDS)
        pid = peer.greeting.get("pid")
        self.pid = pid if type(pid) is int else None

    def ask(
        self,
        method: str,
        params: JsonObject,
        seconds: float,
        progress: Callable[[Message], object] | None = None,
    ) -> Message:
        """Send a request and wait for the message with its ``result`` or ``error``.

        Args:
            method: what is asked.
            params: its arguments.
            seconds: without an answer or progress after which the board counts as hanging.
            progress: called with each message before the answer.
        """
        conversation = self.start()
        heard = time.monotonic()
        allowance = _Allowance(conversation.peer)

        def hear(message: Message) -> None:
            nonlocal heard
            heard = time.monotonic()
            allowance.take()
            if progress is not None:
                progress(message)

        def look() -> None:
            self._check()
            if time.monotonic() - heard > seconds:
                raise hang_error(self._transport.name, method, seconds)

        call = conversation.peer.request(method, params, hear)
        try:
            return conversation.peer.wait(call, look)
        except PeerEndedError:
            raise self._gone(conversation) from None
        except BaseException as error:
            call.progress = None  # what it still says must not raise again while it is stopped
            # whoever hangs or does not keep to the protocol is not asked again
            if not conversation.stop(call) or isinstance(error, DeviceError):
                self.drop()
            raise

    def follow(self, method: str, params: JsonObject, patience: float) -> Iterator[Message]:
        """The progress of a request and then its answer, until the iterator is closed.

        Args:
            method: what is asked.
            params: its arguments.
            patience: seconds without a message after which the board counts as hanging.
        """
        conversation = self.start()
        waiting: list[Message] = []
        allowance = _Allowance(conversation.peer)

        def hear(message: Message) -> None:
            allowance.take()
            waiting.append(message)

        call = conversation.peer.request(method, params, hear)
        heard = time.monotonic()
        try:
            while call.answer is None or waiting:
                if waiting:
                    yield waiting.pop(0)
                    heard = time.monotonic()
                    continue
                self._check()
                if not conversation.peer.open:
                    raise self._gone(conversation)
                if time.monotonic() - heard > patience:
                    raise hang_error(self._transport.name, method, patience)
                conversation.peer.pump(LOOK_SECONDS)
            yield call.answer
        finally:
            call.progress = None  # as above
            # whoever looks no more does not keep the agent from other work
            left = call.answer is None and self._conversation is conversation
            if left and not conversation.stop(call):
                self.drop()

    def _gone(self, conversation: Conversation) -> DeviceError:
        error = self._ended_error(conversation)
        self.lost = isinstance(error, DeviceLostError)
        self.drop()
        return error

    def _ended_error(self, conversation: Conversation) -> DeviceError:
        if fault := conversation.peer.fault:
            return misfit_error(fault)
        return conversation.lost()

    def drop(self) -> None:
        """End it."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.end()
