"""The other end of a worker: queries and jobs from an asyncio program, and a blocking twin.

Standard library only: the interface imports this before its first paint.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from engine.base.errors import JobCancelledError, WorkerError, error_from_dict
from engine.base.events import Event, Finished
from engine.base.files import output_errors
from engine.base.process import ProcessId, death_of, start_child
from engine.jobs.history import EventTail, lost_error
from engine.jobs.protocol import LINE_LIMIT, Message, decode, encode
from engine.jobs.record import is_locked, read_json

__all__ = ["Job", "Worker", "run_job"]

_POLL_SECONDS = 0.1
_LADDER_SECONDS = 2.0
_GOODBYE_SECONDS = 1.0


class Job:
    """A job that runs in a worker, of this process or of another one.

    What it tells is read from its record on disk; a worker of this process wakes the reader through
    its pipe, otherwise the record is looked at ten times a second.
    """

    def __init__(self, folder: Path, process: ProcessId, worker: Worker | None = None) -> None:
        self.id = folder.name
        self.folder = folder
        self._process = process
        self._worker = worker
        self._wake = asyncio.Event()
        self._answer: Message | None = None
        self._lost: WorkerError | None = None
        self._cancels = 0
        self._ladder: asyncio.Task[None] | None = None

    async def events(self) -> AsyncIterator[Event]:
        """All events from the first one; the last one is always ``Finished``."""
        tail = EventTail(self.folder)
        while True:
            ended = self._ended()
            for _, event in tail.read():
                yield event
                if isinstance(event, Finished):
                    return
            if ended:
                break
            await self._woken()
        message = await self._message()
        error = message.get("error")
        yield Finished("done" if error is None else self._state_of(error), 0.0, error)

    async def result(self) -> dict[str, Any]:
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
            result: dict[str, Any] = message["result"]
            return result
        if self._state_of(error) == "cancelled":
            raise JobCancelledError(str(error["what"]), remedy=str(error["remedy"]))
        raise error_from_dict(error)

    async def cancel(self) -> None:
        """Ask the job to stop; after 2 s its worker is terminated, after 2 more killed.

        A second call kills.
        """
        self._cancels += 1
        asked = True
        try:
            (self.folder / "cancel").touch()
        except OSError:  # a full disk: there is only the hard way
            asked = False
        if self._cancels > 1:
            self._process.send(signal.SIGKILL)
        elif not asked:
            self._process.send(signal.SIGTERM)
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

    def drop(self) -> None:
        """Ask the job to stop where it next looks, since its result is of no use any more.

        Unlike :meth:`cancel` this never ends the worker, which keeps what it has loaded.

        Raises:
            OutputError: the disk is full or read-only.
        """
        self._ask("cancel")

    def _ask(self, what: str) -> None:
        path = self.folder / what
        with output_errors(path):
            path.touch()

    async def _climb(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _ in range(int(_LADDER_SECONDS / _POLL_SECONDS)):
                if self._ended():
                    return
                await asyncio.sleep(_POLL_SECONDS)
            self._process.send(number)

    def _ended(self) -> bool:
        """Whether nothing more will come; looks at the disk only where no pipe tells."""
        if self._answer is not None or self._lost is not None:
            return True
        if self._worker is not None:
            return False
        return (self.folder / "end.json").exists() or not is_locked(self.folder / "lock")

    async def _woken(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), None if self._worker else _POLL_SECONDS)
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
        lost = self._lost or lost_error(self.folder, read_json(self.folder / "job.json"))
        return {"error": lost.to_dict()}

    def _state_of(self, error: Mapping[str, Any]) -> Literal["failed", "cancelled"]:
        cancelled = error.get("kind") == JobCancelledError.kind
        killed = error.get("kind") == WorkerError.kind and (self.folder / "cancel").exists()
        return "cancelled" if cancelled or killed else "failed"

    def let_go(self) -> None:
        """The pipe to the worker is closed: from now on the record alone tells."""
        self._worker = None
        self._wake.set()

    def woken(self) -> None:
        """The record has grown."""
        self._wake.set()

    def answered(self, message: Message) -> None:
        """The worker sent the result or the error."""
        self._answer = message
        self._wake.set()

    def worker_ended(self, returncode: int | None) -> None:
        """The worker is gone; what it left on disk decides."""
        if self._answer is None:
            self._lost = lost_error(self.folder, read_json(self.folder / "job.json"), returncode)
        self._wake.set()


class _Connection:
    """One worker process and the reader of its pipe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise WorkerError("The worker was started without pipes.")
        self.process = process
        self.input = process.stdin
        self._output = process.stdout
        self.id = ProcessId.of(process.pid)
        self.calls: dict[int, asyncio.Future[Message]] = {}
        self.accepting: dict[int, asyncio.Future[Message]] = {}
        self.jobs: dict[int, Job] = {}
        self.early: dict[int, Message] = {}
        self.reader: asyncio.Task[None] | None = None
        self.open = True

    async def listen(self) -> None:
        """Start reading the worker's answers."""
        loop = asyncio.get_running_loop()
        stream = asyncio.StreamReader(limit=LINE_LIMIT)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), self._output
        )
        self.reader = asyncio.create_task(self._read(stream, transport))

    async def _read(self, stream: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        try:
            while line := await stream.readline():
                self._take(decode(line))
        except (WorkerError, ValueError, OSError):
            self.id.send(signal.SIGTERM)  # not our protocol: nothing of it can be trusted
        finally:
            self.open = False
            transport.close()
        await self._bury()

    def _take(self, message: Message) -> None:
        number = message.get("id")
        if number is None:
            for job in self.jobs.values():
                if job.id == message.get("job"):
                    job.woken()
        elif "job" in message:
            _settle(self.accepting.pop(number, None), message)
        elif number in self.calls:
            _settle(self.calls.pop(number), message)
        elif number in self.accepting:
            _settle(self.accepting.pop(number), message)
        elif number in self.jobs:
            self.jobs.pop(number).answered(message)
        else:
            self.early[number] = message

    async def _bury(self) -> None:
        returncode = await self.wait(_GOODBYE_SECONDS)
        how, cause = death_of(returncode)
        error = WorkerError(
            f"The worker process {how}.",
            cause=cause,
            remedy="Try again; a new worker is started.",
        )
        for future in (*self.calls.values(), *self.accepting.values()):
            _settle(future, {"error": error.to_dict()})
        for job in self.jobs.values():
            job.worker_ended(returncode)

    async def wait(self, seconds: float) -> int | None:
        """The exit code, once it is there; None where the process still runs after ``seconds``."""
        deadline = asyncio.get_running_loop().time() + seconds
        # the kernel sets no asyncio.Event
        while self.process.poll() is None and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return self.process.returncode

    def send(self, message: Message) -> None:
        """Write a request; the worker always reads, so this does not wait."""
        rest = memoryview(encode(message))
        while rest:
            rest = rest[os.write(self.input.fileno(), rest) :]


def _settle(future: asyncio.Future[Message] | None, message: Message) -> None:
    if future is not None and not future.done():
        future.set_result(message)


class Worker:
    """A warm worker process. One that ended is started anew by the next request.

    Queries run one after another beside the running job; jobs run one at a time.
    """

    def __init__(self, environment: Mapping[str, str] | None, module: str) -> None:
        self._environment = environment
        self._module = module
        self._numbers = itertools.count(1)
        self._connection: _Connection | None = None
        self._starting = asyncio.Lock()

    @classmethod
    async def start(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        module: str = "engine.jobs.worker",
    ) -> Worker:
        """Start the process; it answers as soon as it is up.

        Args:
            environment: the child's environment instead of this process's.
            module: the module to run; others serve tests.

        Raises:
            WorkerError: it could not be started.
        """
        worker = cls(environment, module)
        await worker._connect()
        return worker

    @property
    def pid(self) -> int | None:
        """The number of the worker process, None while there is none."""
        return self._connection.process.pid if self._connection and self._connection.open else None

    async def _connect(self) -> _Connection:
        async with self._starting:
            if self._connection is not None and self._connection.open:
                return self._connection
            try:
                process = start_child(self._module, environment=self._environment)
            except OSError as error:
                raise WorkerError(
                    f"The worker could not be started: {error.strerror or error}.",
                    cause="There is no memory or no process left for it.",
                    remedy="End other programs and try again.",
                ) from error
            connection = _Connection(process)
            await connection.listen()
            self._connection = connection
            return connection

    async def _request(
        self, method: str, params: Mapping[str, Any], waiting: str
    ) -> tuple[int, _Connection, Message]:
        connection = await self._connect()
        number = next(self._numbers)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        getattr(connection, waiting)[number] = future
        with contextlib.suppress(
            BrokenPipeError
        ):  # it ends right now; its reader settles the future
            connection.send({"id": number, "method": method, "params": dict(params)})
        try:
            message = await future
        finally:
            getattr(connection, waiting).pop(number, None)
        if "error" in message:
            raise error_from_dict(message["error"])
        return number, connection, message

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask a query and wait for its answer.

        Raises:
            EngineError: as the worker raised it; ``WorkerError`` where the worker ended.
        """
        _, _, message = await self._request(method, params or {}, "calls")
        result: dict[str, Any] = message["result"]
        return result

    async def submit(self, method: str, params: Mapping[str, Any] | None = None) -> Job:
        """Start a job (or queue it behind the running one); returns once the worker has its record.

        Raises:
            EngineError: the job was refused; ``WorkerError`` where the worker ended.
        """
        number, connection, message = await self._request(method, params or {}, "accepting")
        job = Job(Path(message["folder"]), connection.id, self)
        if (early := connection.early.pop(number, None)) is not None:
            job.answered(early)
        elif not connection.open:
            job.worker_ended(connection.process.returncode)
        else:
            connection.jobs[number] = job
        return job

    async def close(self) -> None:
        """Let the worker go: idle, it ends at once; with a job, once that is done."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.input.close()
        if connection.reader is not None and not connection.jobs:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(connection.reader), _GOODBYE_SECONDS)
        if connection.reader is not None and not connection.reader.done():
            connection.reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await connection.reader
        for job in connection.jobs.values():
            job.let_go()
        if connection.process.returncode is None:
            # it works on without us; Popen must not warn that nobody waited for it
            connection.process.returncode = 0


def run_job(
    method: str, params: Mapping[str, Any], on_event: Callable[[Event], None] | None = None
) -> dict[str, Any]:
    """Run a job in a worker of its own and wait. The first Ctrl-C (or SIGTERM) cancels, the second
    one kills.

    Raises:
        EngineError: the job failed; ``JobCancelledError`` where it was cancelled.
    """
    return asyncio.run(_run_job(method, params, on_event))


async def _run_job(
    method: str, params: Mapping[str, Any], on_event: Callable[[Event], None] | None
) -> dict[str, Any]:
    worker = await Worker.start()
    loop = asyncio.get_running_loop()
    cancels: set[asyncio.Task[None]] = set()
    try:
        job = await worker.submit(method, params)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: cancels.add(loop.create_task(job.cancel())))
        try:
            async for event in job.events():
                if on_event is not None:
                    on_event(event)
            return await job.result()
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
    finally:
        await worker.close()
