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
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from engine.base.errors import JobCancelledError, WorkerError, error_from_dict
from engine.base.events import Event
from engine.base.process import ProcessId, death_of, start_child
from engine.jobs.job import Job
from engine.jobs.protocol import LINE_LIMIT, Message, decode, encode

__all__ = ["Worker", "run_job"]

_GOODBYE_SECONDS = 1.0

QUERY_SECONDS = 120.0
"""How long a query may take that is not in :data:`LONG_QUERIES`."""

LONG_QUERIES = {
    **dict.fromkeys(("dataset.check", "dataset.make", "dataset.list"), 3600.0),
    # these may have to calibrate first
    **dict.fromkeys(("layer", "ranges", "joins", "hybrid.table", "recipe.save"), 1800.0),
}
"""Query -> seconds, of those whose time grows with the user's own files."""


class _Connection:
    """One worker process and the reader of its pipe."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        late: Callable[[_Connection, WorkerError], None],
    ) -> None:
        if process.stdin is None or process.stdout is None:
            raise WorkerError("The worker was started without pipes.", remedy="Try again.")
        self.late = partial(late, self)
        self.process = process
        self.input = process.stdin
        self._output = process.stdout
        self.id = ProcessId.of(process.pid)
        self.calls: dict[int, asyncio.Future[Message]] = {}
        self.accepting: dict[int, asyncio.Future[Message]] = {}
        self.jobs: dict[int, Job] = {}
        self.early: dict[int, Message] = {}
        self.asked: dict[int, str] = {}
        self.reader: asyncio.Task[None] | None = None
        self.open = True
        self.since = 0.0
        self._clock: asyncio.TimerHandle | None = None

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
            self.asked.clear()
            self._time()
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
        elif number in self.asked:
            del self.asked[number]
            self._time()
            _settle(self.calls.pop(number, None), message)
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

    def ask(self, number: int, method: str, params: Mapping[str, Any]) -> None:
        """Send a query; the worker answers them in this order, and the first one's time runs."""
        self.asked[number] = method
        if len(self.asked) == 1:
            self._time()
        self.send({"id": number, "method": method, "params": dict(params)})

    def _time(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        self.since = time.monotonic()
        first = next(iter(self.asked.values()), None)
        if first is not None and self.open:
            seconds = LONG_QUERIES.get(first, QUERY_SECONDS)
            loop = asyncio.get_running_loop()
            self._clock = loop.call_later(seconds, self.late, _too_long(first, seconds))

    @property
    def has_jobs(self) -> bool:
        """Whether a job of it runs, waits, or was just handed over."""
        return bool(self.jobs or self.accepting)

    def end(self, error: WorkerError | JobCancelledError) -> None:
        """Ask no more: every query under way ends in ``error``, whatever the process does.

        Without a job the process is killed; with one it goes on, and ends when that is done.
        """
        for future in self.calls.values():
            _settle(future, {"error": error.to_dict()})
        self.asked.clear()
        self._time()
        if not self.has_jobs:
            self.process.kill()
        with contextlib.suppress(OSError):
            self.input.close()

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
        self._left: list[_Connection] = []
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
            connection = _Connection(process, self._leave)
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
        # where it ends right now, its reader settles the future
        with contextlib.suppress(BrokenPipeError):
            if waiting == "calls":
                connection.ask(number, method, params)
            else:
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

    def stop_queries(self, after: float = 0) -> bool:
        """End the queries under way, in :class:`JobCancelledError`; False where there are none.

        Native code cannot be interrupted, so their process is killed; where it has a job it keeps
        that alone, and the next request starts another process.

        Args:
            after: leave them alone where the first one has not worked for so many seconds.
        """
        connection = self._connection
        if connection is None or not connection.asked:
            return False
        if time.monotonic() - connection.since < after:
            return False
        self._leave(
            connection,
            JobCancelledError(
                "Stopped before the answer was there.", remedy="Ask again when ready."
            ),
        )
        return True

    def _leave(self, connection: _Connection, error: WorkerError | JobCancelledError) -> None:
        connection.end(error)
        if connection is self._connection:
            self._connection = None
            self._left.append(connection)

    async def submit(self, method: str, params: Mapping[str, Any] | None = None) -> Job:
        """Start a job (or queue it behind the running one); returns once the worker has its record.

        Raises:
            EngineError: the job was refused; ``WorkerError`` where the worker ended.
        """
        number, connection, message = await self._request(method, params or {}, "accepting")
        job = Job(Path(message["folder"]), connection.id, piped=True)
        if (early := connection.early.pop(number, None)) is not None:
            job.answered(early)
        elif not connection.open:
            job.worker_ended(connection.process.returncode)
        else:
            connection.jobs[number] = job
        return job

    async def close(self) -> None:
        """Let the worker go: idle, it ends at once, also where a query does not; with a job, once
        that is done.
        """
        connections = [*self._left, *([self._connection] if self._connection else [])]
        self._connection, self._left = None, []
        for connection in connections:
            await _close(connection)


async def _close(connection: _Connection) -> None:
    with contextlib.suppress(OSError):
        connection.input.close()
    try:
        if connection.reader is not None and not connection.has_jobs:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(connection.reader), _GOODBYE_SECONDS)
    finally:
        # in native code it may never see that its input was closed
        if not connection.has_jobs and connection.process.poll() is None:
            connection.process.kill()
            if connection.reader is not None:
                await asyncio.wait([connection.reader], timeout=_GOODBYE_SECONDS)
    if connection.reader is not None and not connection.reader.done():
        connection.reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await connection.reader
    closed = WorkerError("The worker was let go before it answered.", remedy="Ask again.")
    for future in (*connection.calls.values(), *connection.accepting.values()):
        _settle(future, {"error": closed.to_dict()})
    for job in connection.jobs.values():
        job.let_go()
    if connection.process.returncode is None:
        # it works on without us; Popen must not warn that nobody waited for it
        connection.process.returncode = 0


def _too_long(method: str, seconds: float) -> WorkerError:
    return WorkerError(
        f"The question {method!r} was stopped: it had taken more than {seconds:.0f} s.",
        cause="The file is very large, or made so that looking at it takes without end.",
        remedy="Check the file; where it is a model of yours, report this.",
    )


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
