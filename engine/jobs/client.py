"""The other end of a worker: queries and jobs from an asyncio program, and a blocking twin.

Standard library only: the interface imports this before its first paint.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, overload

from engine.base.errors import EngineError, JobCancelledError, WorkerError, error_from_dict
from engine.base.events import Event
from engine.base.peers.child import GOODBYE_SECONDS, Child
from engine.base.peers.far import Message
from engine.base.peers.near import Call
from engine.base.plain import JsonObject
from engine.base.process import child_environment, engine_command
from engine.jobs.job import Job
from engine.wire.codec import encode
from engine.wire.method import Query, Task

P = TypeVar("P")
R = TypeVar("R")
_T = TypeVar("_T")

QUERY_SECONDS = 120.0
"""How long a query may take that is not in :data:`LONG_QUERIES`."""

LONG_QUERIES = {
    **dict.fromkeys(("dataset.check", "dataset.make", "dataset.list"), 3600.0),
    # these may have to calibrate first
    **dict.fromkeys(("layer", "ranges", "joins", "hybrid.table", "recipe.save"), 1800.0),
}
"""Query -> seconds, of those whose time grows with the user's own files."""


class _Connection:
    """One worker process: queries one after another, and the jobs that it was given."""

    def __init__(
        self,
        environment: Mapping[str, str] | None,
        module: str,
        late: Callable[[_Connection, WorkerError], None],
    ) -> None:
        self.child = Child(
            engine_command(module), child_environment(environment), "The worker", notice=self._wake
        )
        self.peer = self.child.peer
        self.late = partial(late, self)
        self.gone = asyncio.Event()
        self.jobs: dict[int, Job[Any]] = {}
        self.submitted: set[int] = set()
        self.asked: dict[int, tuple[str, Call]] = {}
        self.since = 0.0
        self.ending = False
        self._clock: asyncio.TimerHandle | None = None
        self._burial: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.peer.listen(self._loop, self._ended)

    def is_ended(self) -> None:
        """A job of it was cancelled the hard way: whatever comes next is for another process."""
        self.ending = True

    @property
    def has_jobs(self) -> bool:
        """Whether a job of it runs, waits, or was just handed over."""
        return bool(self.jobs or self.submitted)

    async def ask(self, method: str, params: JsonObject) -> Message:
        """The answer of a query; they are answered in this order, and the first one's time runs."""
        call = self.peer.request(method, params)
        self.asked[call.number] = method, call
        if len(self.asked) == 1:
            self._time()
        call.then(lambda _: self._answered(call))
        return await self._first(call.then)

    async def submit(
        self,
        method: str,
        params: JsonObject,
        read: Callable[[JsonObject], Any] | None,
    ) -> Message | Job[Any]:
        """The job, or the message with the error that refuses it."""

        def handed(settle: Callable[[Message | Job[Any]], object]) -> None:
            def accepted(message: Message) -> None:
                self.submitted.discard(call.number)
                self.jobs[call.number] = job = Job(
                    Path(message["folder"]),
                    self.child.id,
                    piped=True,
                    read=read,
                    signalled=self.is_ended,
                )
                settle(job)

            def answered(message: Message) -> None:
                self.submitted.discard(call.number)
                if (job := self.jobs.pop(call.number, None)) is not None:
                    job.set_result(message)
                settle(message)

            call = self.peer.request(method, params, accepted)
            self.submitted.add(call.number)
            call.then(answered)

        return await self._first(handed)

    async def _first(self, ask: Callable[[Callable[[_T], object]], object]) -> _T:
        """Wait for the first thing that is told to what ``ask`` is given."""
        future: asyncio.Future[_T] = self._loop.create_future()

        def settle(found: _T) -> None:
            if not future.done():
                future.set_result(found)

        ask(settle)
        return await future

    def _wake(self, message: Message) -> None:
        for job in self.jobs.values():
            if job.id == message.get("job"):
                job.notify()

    def _answered(self, call: Call) -> None:
        self.asked.pop(call.number, None)
        self._time()

    def _time(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        self.since = time.monotonic()
        first = next((method for method, _ in self.asked.values()), None)
        if first is not None and self.peer.open:
            seconds = LONG_QUERIES.get(first, QUERY_SECONDS)
            self._clock = self._loop.call_later(seconds, self.late, _too_long(first, seconds))

    def _ended(self) -> None:
        if self.peer.fault:  # nothing of it can be trusted
            self.child.id.send(signal.SIGTERM)
        self._time()
        self._burial = self._loop.create_task(self._bury())

    async def _bury(self) -> None:
        returncode = await self._returncode()
        jobs, self.jobs = self.jobs, {}
        # nobody awaits this task: whatever fails here, such as for want of memory, all who wait
        # for the worker have to hear of its end
        with contextlib.ExitStack() as stack:
            stack.callback(self.gone.set)
            for job in jobs.values():
                stack.callback(job.worker_exited, returncode)
            self.peer.fail(
                self.child.lost(
                    "The worker process", returncode, "Try again; a new worker is started."
                )
            )

    async def _returncode(self) -> int | None:
        deadline = self._loop.time() + GOODBYE_SECONDS
        # the kernel sets no asyncio.Event
        while self.child.alive and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return self.child.process.returncode

    def end(self, error: EngineError) -> None:
        """Ask no more: every query under way ends in ``error``, whatever the process does.

        Without a job the process is killed; with one it goes on, and ends when that is done.
        """
        self.peer.fail(error, [call for _, call in self.asked.values()])
        if not self.has_jobs:
            self.child.process.kill()
        self.peer.hang_up()

    async def close(self) -> None:
        """Let the process go: see :meth:`Worker.close`."""
        self.peer.hang_up()
        try:
            if not self.has_jobs:
                await self._wait_gone()
        finally:
            # in native code it may never see that its input was closed
            if not self.has_jobs and self.child.alive:
                self.child.process.kill()
                await self._wait_gone()
        self.peer.close()
        if self._burial is not None:
            self._burial.cancel()
        jobs, self.jobs = self.jobs, {}
        self.peer.fail(
            WorkerError("The worker was stopped before it answered.", remedy="Ask again.")
        )
        for job in jobs.values():
            job.detach()
        if self.child.process.returncode is None:
            # it works on without us; Popen must not warn that nobody waited for it
            self.child.process.returncode = 0

    async def _wait_gone(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.gone.wait(), GOODBYE_SECONDS)


class Worker:
    """A warm worker process. One that ended is started anew by the next request.

    Queries run one after another beside the running job; jobs run one at a time.
    """

    def __init__(self, environment: Mapping[str, str] | None, module: str) -> None:
        self._environment = environment
        self._module = module
        self._connection: _Connection | None = None
        self._left: list[_Connection] = []

    @classmethod
    async def start(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        module: str = "engine.services",
    ) -> Worker:
        """Start the process; it answers as soon as it is up.

        Args:
            environment: the child's environment instead of this process's.
            module: the module to run; others serve tests.

        Raises:
            WorkerError: it could not be started.
        """
        worker = cls(environment, module)
        worker._connect()
        return worker

    @property
    def pid(self) -> int | None:
        """The number of the worker process, None while there is none."""
        connection = self._connection
        return connection.child.process.pid if connection and connection.peer.open else None

    def _connect(self) -> _Connection:
        connection = self._connection
        if connection is not None and connection.ending and connection.peer.open:
            self._left.append(connection)
            self._connection = None
        if self._connection is None or not self._connection.peer.open:
            self._connection = _Connection(self._environment, self._module, self._leave)
        return self._connection

    @overload
    async def call(
        self, method: Query[P, R], params: P, *, allow_code: Sequence[str] = ()
    ) -> R: ...
    @overload
    async def call(self, method: str, params: JsonObject | None = None) -> Message: ...
    async def call(self, method: Any, params: Any = None, *, allow_code: Sequence[str] = ()) -> Any:
        """Ask a query and wait for its answer.

        Args:
            method: what is asked; its name gives the answer as plain data.
            params: of the method's type, or plain data.
            allow_code: Python files that this request lets run.

        Raises:
            EngineError: as the worker raised it; ``WorkerError`` where the worker ended.
        """
        message = await self._connect().ask(*_plain(method, params, allow_code))
        if "error" in message:
            raise error_from_dict(message["error"])
        result: Message = message["result"]
        return method.read(result) if isinstance(method, Query) else result

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

    def _leave(self, connection: _Connection, error: EngineError) -> None:
        connection.end(error)
        if connection is self._connection:
            self._connection = None
            self._left.append(connection)

    @overload
    async def submit(
        self,
        method: Task[P, R],
        params: P,
        *,
        allow_code: Sequence[str] = (),
        attended: bool = False,
    ) -> Job[R]: ...
    @overload
    async def submit(self, method: str, params: JsonObject | None = None) -> Job[Message]: ...
    async def submit(
        self,
        method: Any,
        params: Any = None,
        *,
        allow_code: Sequence[str] = (),
        attended: bool = False,
    ) -> Job[Any]:
        """Start a job (or queue it behind the running one); returns once the worker has its record.

        Args:
            method, params, allow_code: as of :meth:`call`.
            attended: the job ends within a second of this process, however that ends, unless
                :meth:`engine.jobs.job.Job.keep` was called.

        Raises:
            EngineError: the job was refused; ``WorkerError`` where the worker ended.
        """
        read = method.read if isinstance(method, Task) else None
        name, plain = _plain(method, params, allow_code)
        if attended:
            plain["attended"] = True
        answer = await self._connect().submit(name, plain, read)
        if isinstance(answer, Job):
            return answer
        raise error_from_dict(answer["error"])

    def kill(self) -> None:
        """Kill the process, with all that it does: every question and job of it ends in
        ``WorkerError``.
        """
        if self._connection is not None and self._connection.peer.open:
            self._connection.child.process.kill()

    async def close(self) -> None:
        """Let the worker go: idle, it ends at once, also where a query does not; with a job, once
        that is done.
        """
        connections = [*self._left, *([self._connection] if self._connection else [])]
        self._connection, self._left = None, []
        for connection in connections:
            await connection.close()


def _plain(method: Any, params: Any, allow_code: Sequence[str]) -> tuple[str, Message]:
    """The name of a method and plain data of its parameters."""
    if isinstance(method, str):
        return method, dict(params or {})
    beside = {"allow_code": list(allow_code)} if allow_code else {}
    return method.name, {**encode(params), **beside}


def _too_long(method: str, seconds: float) -> WorkerError:
    return WorkerError(
        f"The question {method!r} was stopped: it had taken more than {seconds:.0f} s.",
        cause="The file is very large, or made so that looking at it takes without end.",
        remedy="Check the file; where it is a model of yours, report this.",
    )


@overload
def run_job(
    method: Task[P, R], params: P, on_event: Callable[[Event], None] | None = None
) -> R: ...
@overload
def run_job(
    method: str, params: JsonObject, on_event: Callable[[Event], None] | None = None
) -> Message: ...
def run_job(method: Any, params: Any, on_event: Callable[[Event], None] | None = None) -> Any:
    """Run a job in a worker of its own and wait. The first Ctrl-C (or SIGTERM) cancels, the second
    one kills.

    Raises:
        EngineError: the job failed; ``JobCancelledError`` where it was cancelled.
    """
    return asyncio.run(_run_job(method, params, on_event))


async def _run_job(method: Any, params: Any, on_event: Callable[[Event], None] | None) -> Any:
    worker = await Worker.start()
    loop = asyncio.get_running_loop()
    cancels: set[asyncio.Task[None]] = set()
    try:
        job = await worker.submit(method, params, attended=True)
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
