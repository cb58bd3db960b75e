"""A session with a board: our program is put there, started, asked, and taken away again.

Where the transport can hold a conversation, the program runs all the time; on old boards it is run
once for each request, which begins with what it has to know (see ``before``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    JobCancelledError,
    error_from_dict,
)
from engine.base.files import output_errors
from engine.base.leftovers import let_go, make_owned
from engine.base.peers.far import Message, ProtocolError, decode
from engine.base.peers.near import LOOK_SECONDS
from engine.base.plain import JsonObject
from engine.devices.board.agents import LiveAgent
from engine.devices.board.answers import hang_error, long_text, mapping, misfit_error, number
from engine.devices.board.claims import claimed, put_record, require_alone
from engine.devices.board.layout import BoardFolder, agent_name, find_folder, new_run_name
from engine.devices.board.program import find_agent
from engine.devices.probe.reading import HEAD, read_elf
from engine.devices.transport import LINE_LIMIT, Completed, Moved, Transport
from engine.devices.transports.shared import ending, last_line

Step = tuple[str, JsonObject]
"""A method of the agent and its parameters."""

_REPLY_LIMIT = 2 * LINE_LIMIT
_START_SECONDS = 30.0
READ_LIMIT, _WATCH_LIMIT = 1 << 20, 1 << 16
"""Bytes of each file that are read once, and at each look."""
_READ_SECONDS = 30.0
_MOST_FILES = 1 << 16
QUIET_SECONDS = 30.0
"""How long an agent that reports at intervals may be quiet beyond them."""


@dataclass(frozen=True)
class Watched:
    """One look at some files of the board.

    Attributes:
        values: the texts are as the board has them: who shows one sanitizes it.
        at: seconds by the clock of the board, which starts anywhere.
    """

    values: Mapping[str, str | None]
    at: float


class OneShotAgent:
    """Requests go to the board as a file, and their answers come back as one.

    Args:
        session: whose board is asked; the files are in its folders.
        words: what starts the agent.

    Attributes:
        lost: whether the board has gone.
    """

    def __init__(self, session: BoardSession, words: Sequence[str]) -> None:
        self._session, self._words = session, words
        self._transport = session.transport
        self._request, self._reply = session.at("request.json"), session.at("reply.json")
        self.lost = False

    def ask(self, steps: Sequence[Step], seconds: float) -> Message:
        """Run the agent for these requests.

        Args:
            steps: methods and parameters; what one opens is there for the next.
            seconds: that all may take together.

        Returns:
            The answer to the last, or the first error.
        """
        method = steps[-1][0]
        source = self._session.place / "request.json"
        asked = {"requests": [list(step) for step in steps], "seconds": seconds}
        with output_errors(source):
            source.write_text(json.dumps(asked), "ascii")
        begun = time.monotonic()
        try:
            self._transport.remove([self._reply])
            self._transport.push(source, self._request, moved=self._session.moved())
            ended = self._run(seconds, method)
            there = self._transport.read(self._reply, limit=_REPLY_LIMIT)
        except DeviceLostError:
            self.lost = True
            raise
        finally:
            source.unlink(missing_ok=True)
            if not self.lost:
                with contextlib.suppress(DeviceError):
                    self._transport.remove([self._request, self._reply])
        if there is None:
            last = last_line(ended.out + ended.err)
            how, why = ending(ended.code)
            raise DeviceError(
                f"The program on {self._transport.name} {how}, without an answer.",
                cause=f"{why} It said last: {last}" if last else why,
                remedy="Try again. Where it stays so, the runtime library of the board crashes "
                "with this model.",
            )
        answer = _last_answer(there, len(steps))
        if "error" in answer and time.monotonic() - begun >= seconds:  # it ended itself
            raise hang_error(self._transport.name, method, seconds)
        return answer

    def _run(self, seconds: float, method: str) -> Completed:
        """Run the program of the board, looking after the caller meanwhile."""
        words = [*self._words, "--request", self._request, "--reply", self._reply]
        try:
            return self._transport.run(
                words, seconds=seconds + _START_SECONDS, check=self._session.check
            )
        except DeviceTimeoutError as error:
            raise hang_error(self._transport.name, method, seconds) from error


def _last_answer(content: bytes, count: int) -> Message:
    try:
        answers: Any = decode(content).get("answers")
    except ProtocolError as error:
        raise misfit_error(str(error)) from None
    if not isinstance(answers, list) or not 0 < len(answers) <= count:
        raise misfit_error(f"there are no {count} answers")
    parsed = [mapping(answer, "an answer") for answer in answers]
    failed = next((dict(answer) for answer in parsed if "error" in answer), None)
    if failed is None and len(parsed) != count:
        raise misfit_error(f"there are {len(parsed)} answers to {count} requests")
    return failed or dict(parsed[-1])


class BoardSession(contextlib.AbstractContextManager["BoardSession"]):
    """Our program on one board, and the folder that it may write in.

    Args:
        transport: the board; the session does not close it.
        agent: the program; None is the agent for this board.
        check: called ten times a second; what it raises ends what is under way.
        alone: whether this is the one user of the board; one that only reads needs not be.

    Attributes:
        folder: ours on the board.
        run: name of this session's folder in it.
        place: this session's folder on this machine.
        processor: for which one that program is; None where it does not tell.

    Raises:
        DeviceError: the board is in use, there is no agent for it, no folder can
            be written, or it has gone.
    """

    def __init__(
        self,
        transport: Transport,
        agent: bytes | None = None,
        *,
        check: Callable[[], object] | None = None,
        alone: bool = True,
    ) -> None:
        self.transport = transport
        self._wanted: Callable[[], object] | None = check
        self._agent: LiveAgent | OneShotAgent | None = None
        self.run = new_run_name()
        with contextlib.ExitStack() as held:
            if alone:
                held.enter_context(claimed(transport))
            self.folder: BoardFolder = find_folder(transport)
            with output_errors(Path(tempfile.gettempdir())):
                self.place = make_owned("board")
            held.callback(let_go, self.place)
            held.callback(self._leave)
            self._prepare(agent, alone=alone)
            self._held = held.pop_all()

    def _prepare(self, agent: bytes | None, *, alone: bool) -> None:
        folder = self.folder
        if alone:
            require_alone(folder)
            folder.remove_parts()
        content = find_agent(self.transport).content if agent is None else agent
        self.processor = read_elf(content[:HEAD])
        sha256 = hashlib.sha256(content).hexdigest()
        name = agent_name(sha256)
        source = self.place / name
        with output_errors(source):
            source.write_bytes(content)
        folder.put(
            source,
            name,
            sha256,
            "The program that runs models",
            executable=True,
            moved=self.moved(),
        )
        folder.make(self.run, "out")
        words = [folder.at(name)]
        if self.transport.converses:
            self._agent = live = LiveAgent(self.transport, words, self.check)
            live.start()
        else:
            self._agent = OneShotAgent(self, words)
        self._alone = alone
        self._recorded: int | None = -1
        self._record()
        if alone:
            require_alone(folder, self.run)
            folder.remove_other_agents(name)

    def _record(self) -> None:
        """Have the agent that runs now in this session's record on the board."""
        pid = self._agent.pid if isinstance(self._agent, LiveAgent) else None
        if pid != self._recorded:
            put_record(self.folder, self.run, self.place, pid, alone=self._alone)
            self._recorded = pid

    def check(self) -> None:
        """Raise what the caller wants to end with, until :meth:`finish`."""
        if self._wanted is not None:
            self._wanted()

    @property
    def running(self) -> bool:
        """Whether an agent is where the last request left it; never in one-shot mode."""
        return isinstance(self._agent, LiveAgent) and self._agent.running

    def moved(self, told: Moved | None = None) -> Moved:
        """What a transfer tells: it ends where the caller cancels."""

        def tell(done: int, total: int) -> None:
            self.check()
            if told is not None:
                told(done, total)

        return tell

    def at(self, name: str) -> str:
        """A path on the board in this session's folder."""
        return self.folder.at(self.run, name)

    def ask(
        self,
        method: str,
        params: JsonObject,
        *,
        seconds: float,
        progress: Callable[[Message], object] | None = None,
        before: Sequence[Step] = (),
    ) -> Mapping[str, Any]:
        """Send a request and wait for its result.

        Args:
            method: of the agent.
            params: its arguments.
            seconds: without an answer or progress after which the board counts as hanging.
            progress: called with each message before the answer; never in one-shot mode.
            before: what the agent has to be asked first where it is run for this request alone.

        Raises:
            JobCancelledError: or whatever else ``check`` raises.
            DeviceTimeoutError: nothing was heard for so long; the agent is ended.
            DeviceLostError: the board has gone; nothing is tried again.
            DeviceError: what the agent refused, or an answer that breaks the protocol.
        """
        agent = self._require_agent()
        if isinstance(agent, LiveAgent):
            agent.start()
            self._record()
            return _result(agent.ask(method, params, seconds, progress))
        return _result(agent.ask([*before, (method, params)], seconds))

    def follow(
        self, method: str, params: JsonObject, step: Step, interval: float, count: int | None
    ) -> Iterator[Message]:
        """The progress of a request, until the iterator is closed.

        Args:
            method: of the agent, which tells something every ``interval`` seconds, ``count`` times
                or without an end.
            params: its arguments.
            step: what is asked again and again in one-shot mode; its result is ``values``.
            interval: in seconds.
            count: of messages; None without an end.

        Raises:
            DeviceError: as :meth:`ask`.
        """
        agent = self._require_agent()
        if isinstance(agent, LiveAgent):
            for message in agent.follow(method, params, interval + QUIET_SECONDS):
                if message.keys() & {"result", "error"}:
                    _result(message)
                else:
                    yield message
            return
        done, due = 0, time.monotonic()
        while count is None or done < count:
            values = _result(agent.ask([step], interval + QUIET_SECONDS))
            yield {"values": values, "at": time.monotonic()}
            done += 1
            due = max(due + interval, time.monotonic())
            while done != count and time.monotonic() < due:
                self.check()
                time.sleep(min(LOOK_SECONDS, max(0.0, due - time.monotonic())))

    def read(self, paths: Sequence[str], *, limit: int = READ_LIMIT) -> dict[str, str | None]:
        """Small files of the board, such as of ``/proc`` and ``/sys``; ``*`` may be in a path.

        Returns:
            Path -> text as it is there, None where there is none; who shows it sanitizes it.

        Raises:
            DeviceError: the board has gone, does not answer, or refuses.
        """
        params: JsonObject = {"paths": list(paths), "limit": limit}
        return _values(self.ask("read", params, seconds=_READ_SECONDS))

    def watch(
        self, paths: Sequence[str], *, interval: float = 1.0, count: int | None = None
    ) -> Generator[Watched, None, None]:
        """Files of the board again and again, until the iterator is closed.

        While it goes on the session can be asked nothing else: a monitor beside a run has one of
        its own (``alone=False``).

        Args:
            paths: as for :meth:`read`.
            interval: seconds between two looks.
            count: of looks; None for no end.

        Raises:
            DeviceError: as :meth:`read`.
        """
        look: JsonObject = {"paths": list(paths), "limit": _WATCH_LIMIT}
        params: JsonObject = {**look, "interval": interval, "count": count}
        for message in self.follow("watch", params, ("read", look), interval, count):
            yield Watched(_values(message), number(message, "at"))

    def _require_agent(self) -> LiveAgent | OneShotAgent:
        if self._agent is None:
            raise DeviceError(
                f"The connection to {self.transport.name} was closed.",
                remedy="Connect to the board again.",
            )
        return self._agent

    def _leave(self) -> None:
        """Let the agent go, and remove what this session made on the board, if it is there."""
        agent, self._agent = self._agent, None
        try:
            if isinstance(agent, LiveAgent):
                agent.drop()
            if agent is None or not agent.lost:
                self.folder.remove([self.run])
        except DeviceError:
            pass  # the board has gone; the next session removes it

    def finish(self) -> None:
        """Cancel nothing from now on: what was changed on the board is put back."""
        self._wanted = None

    def end(self) -> None:
        """Let the board go, also one that has gone; nothing of this session stays."""
        self._held.close()

    def __exit__(self, *_exception: object) -> None:
        self.end()


def _values(answer: JsonObject) -> dict[str, str | None]:
    """Path -> text of what `read` answers, or the progress of `watch`."""
    values = mapping(answer.get("values", answer), "values")
    if len(values) > _MOST_FILES:
        raise misfit_error("it has too many files")
    return {path: long_text(values, path) for path in values}


def _result(answer: Message) -> Mapping[str, Any]:
    """The result of an answer.

    Raises:
        DeviceError: what the agent refused; whatever it calls it, it is about a board.
        JobCancelledError: it was cancelled.
    """
    if "error" not in answer:
        return mapping(answer.get("result"), "result")
    said = mapping(answer["error"], "error")
    error = error_from_dict({k: v for k, v in said.items() if isinstance(v, str)})
    if isinstance(error, DeviceError | JobCancelledError) and not isinstance(
        error, DeviceLostError
    ):
        raise error
    raise DeviceError(error.what, cause=error.cause, remedy=error.remedy)
