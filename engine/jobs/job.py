"""A job as a program sees it: its events and result, and how it is stopped.

Standard library only: the interface imports this before its first paint.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from engine.base.errors import JobCancelledError, WorkerError, error_from_dict, job_cancelled
from engine.base.events import Event, Finished
from engine.base.files import output_errors
from engine.base.paths import private_file
from engine.base.peers.child import LADDER_SECONDS
from engine.base.peers.far import Message
from engine.base.peers.near import LOOK_SECONDS, ladder
from engine.base.plain import JsonObject
from engine.base.process import ProcessId
from engine.jobs.history import crashed_error, job_record
from engine.jobs.record import has_begun, is_locked, read_json
from engine.jobs.tail import EventTail

# The pipe tells at once that a record has grown, unless native code took the interpreter's lock
# before the worker's thread could write.
_PIPED_SECONDS = 1.0


R = TypeVar("R")


class Job(Generic[R]):
    """A job that runs in a worker, of this process or of another one.

    What it tells is read from its record on disk; a worker of this process wakes the reader through
    its pipe, otherwise the record is looked at ten times a second.

    Args:
        folder: of its record.
        process: the worker's.
        piped: whether a worker of this process wakes the reader.
        read: makes the result of plain data; None leaves it as it is.
        signalled: called before the worker is sent a signal that ends it.
    """

    def __init__(
        self,
        folder: Path,
        process: ProcessId,
        *,
        piped: bool = False,
        read: Callable[[JsonObject], R] | None = None,
        signalled: Callable[[], None] | None = None,
    ) -> None:
        self.id = folder.name
        self.folder = folder
        self._process = process
        self._piped = piped
        self._read = read
        self._signalled = signalled
        self._wake = asyncio.Event()
        self._answer: Message | None = None
        self._lost: WorkerError | None = None
        self._cancels = 0
        self._ladder: asyncio.Task[None] | None = None

    async def events(self) -> AsyncIterator[Event]:
        """All events from the first one; the last one is always ``Finished``."""
        tail = EventTail(self.folder)
        alive, last = False, 0.0
        while True:
            ended = self._ended()
            alive = alive or not ended
            for when, event in tail.read(whole=ended):
                last = when
                yield event
                if isinstance(event, Finished):
                    return
            if ended:
                break
            await self._woken()
        message = await self._message()
        error = message.get("error")
        seconds = self._seconds_until(time.time() if alive else last)
        yield Finished("done" if error is None else self._state_of(error), seconds, error)

    def _seconds_until(self, end: float) -> float:
        """How long the job ran that told no end itself; 0 where that is not known."""
        try:
            started = float((read_json(self.folder / "job.json") or {}).get("started", end))
        except (TypeError, ValueError):
            return 0.0
        return max(0.0, round(end - started, 3))

    async def result(self) -> R:
        """Wait for the end and return the result.

        Raises:
            EngineError: the job failed, was cancelled (``JobCancelledError``) or lost its worker
            (``WorkerError``).
        """
        while not self._ended():
            await self._woken()
        message = await self._message()
        error = message.get("error")
        if error is None:
            data: Any = message["result"]
            return data if self._read is None else self._read(data)
        if self._state_of(error) == "cancelled":
            raise JobCancelledError(str(error["what"]), remedy=str(error["remedy"]))
        raise error_from_dict(error)

    @property
    def waiting(self) -> bool:
        """Whether another job of its worker runs before it."""
        return not self._ended() and not has_begun(self.folder)

    async def cancel(self) -> None:
        """Ask the job to stop; after 2 s its worker is terminated, after 2 more killed.

        A second call kills. One that waits for its turn is over at once; its worker goes on.
        """
        if self._ended():
            return
        self._cancels += 1
        asked = True
        try:
            private_file(self.folder / "cancel").close()
        except OSError:  # a full disk: there is only the hard way
            asked = False
        if asked and self.waiting:  # who begins it afterwards sees that it was cancelled
            self.set_result({"error": job_cancelled().to_dict()})
            return
        if self._cancels > 1:
            self._send(signal.SIGKILL)
        elif not asked:
            self._send(signal.SIGTERM)
        if self._ladder is None:
            self._ladder = asyncio.create_task(self._climb())

    def pause(self) -> None:
        """Let the job wait where it next looks, until :meth:`resume`.

        Raises:
            OutputError: the disk is full or read-only.
        """
        self._ask("pause")

    def resume(self) -> None:
        """Let a job that was paused go on."""
        with contextlib.suppress(OSError):
            (self.folder / "pause").unlink(missing_ok=True)

    def finish(self) -> None:
        """Ask a search to end and to return the best that it found so far.

        Raises:
            OutputError: the disk is full or read-only.
        """
        self._ask("finish")

    def keep(self) -> None:
        """Let an attended job go on without the process that submitted it.

        Raises:
            OutputError: the disk is full or read-only.
        """
        self._ask("keep")

    def discard(self) -> None:
        """Ask the job to stop where it next looks, since its result is of no use any more.

        Unlike :meth:`cancel` this never ends the worker, which keeps what it has loaded.

        Raises:
            OutputError: the disk is full or read-only.
        """
        self._ask("cancel")

    def _ask(self, what: str) -> None:
        path = self.folder / what
        with output_errors(path):
            private_file(path).close()

    async def _climb(self) -> None:
        steps = [partial(self._send, n) for n in (signal.SIGTERM, signal.SIGKILL)]
        for seconds in ladder(self._ended, steps, LADDER_SECONDS):
            await asyncio.sleep(seconds)

    def _send(self, number: signal.Signals) -> None:
        if self._signalled is not None:
            self._signalled()
        self._process.send(number)

    def _ended(self) -> bool:
        """Whether nothing more will come; looks at the disk only where no pipe tells."""
        if self._answer is not None or self._lost is not None:
            return True
        if self._piped:
            return False
        return (self.folder / "end.json").exists() or not is_locked(self.folder / "lock")

    async def _woken(self) -> None:
        with contextlib.suppress(TimeoutError):
            longest = _PIPED_SECONDS if self._piped else LOOK_SECONDS
            await asyncio.wait_for(self._wake.wait(), longest)
        self._wake.clear()

    async def _message(self) -> Message:
        if self._answer is not None:
            return self._answer
        end = read_json(self.folder / "end.json")
        if end is not None and end.get("state") == "done":
            result = read_json(self.folder / "result.json")
            if result is not None:
                return {"result": result}
        if end is not None and end.get("error"):
            return {"error": end["error"]}
        lost = self._lost or crashed_error(self.folder, read_json(self.folder / "job.json"))
        return {"error": lost.to_dict()}

    def _state_of(self, error: JsonObject) -> Literal["failed", "cancelled"]:
        cancelled = error.get("kind") == JobCancelledError.kind
        killed = error.get("kind") == WorkerError.kind and (self.folder / "cancel").exists()
        return "cancelled" if cancelled or killed else "failed"

    def detach(self) -> None:
        """The pipe to the worker is closed: from now on the record alone tells."""
        self._piped = False
        self._wake.set()

    def notify(self) -> None:
        """The record has grown."""
        self._wake.set()

    def set_result(self, message: Message) -> None:
        """The worker sent the result or the error."""
        self._answer = message
        self._wake.set()

    def worker_exited(self, returncode: int | None) -> None:
        """The worker is gone; what it left on disk decides."""
        if self._answer is None:
            # where memory is too short for the record, who waits reads it again and fails
            with contextlib.suppress(MemoryError):
                job = read_json(self.folder / "job.json")
                self._lost = crashed_error(self.folder, job, returncode)
        self.detach()


def attach(job_id: str) -> Job[Message]:
    """Follow a job of the history, also one that another process started: events, result, cancel.

    Raises:
        UsageError: there is no such job.
    """
    record = job_record(job_id)
    job = read_json(Path(record.folder) / "job.json") or {}
    return Job(Path(record.folder), ProcessId.from_dict(job.get("process") or {}))
