"""The worker process: answers queries on its main thread, runs jobs one at a time on a second one.

It knows no handler: :mod:`engine.services` gives it the table of them, and is the process that
:mod:`engine.jobs.client` starts. Standard output is the protocol only: file descriptors 1 and 2 of
native code go to the running job's log. The process is in its own session, ignores SIGHUP and
SIGINT, outlives the program that started it for as long as a job runs or waits, and ends
at once when it is idle and its standard input is closed. An attended job is that of a command of
the command line: it ends with its command.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.base.errors import (
    EngineError,
    JobCancelledError,
    OutputError,
    UsageError,
    WorkerError,
    internal_error,
    job_cancelled,
)
from engine.base.events import Reporter
from engine.base.leftovers import clear_leftovers
from engine.base.paths import log_handle, state_folder
from engine.base.peers.far import (
    FarEnd,
    Lasting,
    Message,
    Request,
    keep_memory,
    outcome,
    take_streams,
)
from engine.base.peers.limits import trim_heap
from engine.base.plain import JsonObject
from engine.base.resources import resource_error
from engine.base.text import did_you_mean, sanitize
from engine.base.trust import trusting
from engine.jobs.bounds import Bounds
from engine.jobs.record import JobRecorder, log_traceback, new_record

Query = Callable[[Message], Message]
JobFunction = Callable[[Message, Reporter], Message]

_LOG_LIMIT = 1 << 20
_GRACE_SECONDS = 2.0
_SLICE_SECONDS = 0.5
# an attended job looks so long whether it is cancelled, once its command has gone
_ATTENDED_SECONDS = 0.4
# a query that still runs so long after the client has gone is not waited for
_LAST_QUERY_SECONDS = 3.0


def _resolve(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def _as_error(error: BaseException, log: Path | None = None) -> EngineError:
    """What the user is told of an exception; the traceback of an unexpected one goes to a log
    file.
    """
    if isinstance(error, EngineError):
        return error
    if (lacking := resource_error(error)) is not None:
        log_traceback(error, log)
        return lacking
    path = log_traceback(error, log)
    where = f"Report it with the log file {path}." if path else "Its log could not be written."
    return internal_error(error, where)


class _Server:
    """Takes requests: queries are the main thread's, jobs the second one's."""

    def __init__(
        self,
        streams: tuple[int, int],
        idle_log: int,
        queries: Mapping[str, str],
        tasks: Mapping[str, str],
    ) -> None:
        self._far = FarEnd(*streams, accept=self._accept, ended=self._ended)
        self._idle_log = idle_log
        self._queries = queries
        self._tasks = tasks
        self._jobs: queue.SimpleQueue[tuple[JobRecorder, Request] | None] = queue.SimpleQueue()
        self._running: JobRecorder | None = None
        self._bounds = Bounds()
        self._closed = False
        self._attended: set[JobRecorder] = set()

    def run(self) -> None:
        """Answer until the input is closed, then finish the jobs."""
        signal.signal(signal.SIGTERM, self._terminated)
        self._far.start()
        jobs = Lasting(self._work).start()
        tidying = Lasting(_tidy).start()
        while True:
            # in slices: a signal that comes just before a wait would be handled only after it
            request = self._far.next(_SLICE_SECONDS)
            if request is not None:
                request.answer(outcome(partial(self._asked, request), _describe))
            elif self._closed:
                break
        self._jobs.put(None)
        while not jobs.join(_SLICE_SECONDS):
            pass
        tidying.join(_GRACE_SECONDS)
        self._far.close(_GRACE_SECONDS)

    def _ended(self) -> None:
        self._closed = True
        left = [recorder for recorder in tuple(self._attended) if recorder.abandon()]
        if left:
            _after(_ATTENDED_SECONDS, partial(self._abandon, left))
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        """End, whatever the main thread does, once there is neither a client nor a job."""
        if self._closed and self._bounds.jobs == 0:
            _after(_LAST_QUERY_SECONDS, partial(os._exit, 0))

    def _abandon(self, left: list[JobRecorder]) -> None:
        """End where a job whose command has gone still runs: native code hears nobody."""
        if self._running in left:
            os.kill(os.getpid(), signal.SIGTERM)

    def _asked(self, request: Request) -> Message:
        """The result of a query."""
        home = self._queries.get(request.method)
        if home is None:
            raise UsageError(
                f"The worker has no method {sanitize(request.method, 80)}.",
                remedy=did_you_mean(request.method, [*self._queries, *self._tasks]),
            )
        function: Query = _resolve(home)
        params = request.params
        with trusting(params.get("allow_code")), self._bounds.query(params):
            return function(params)

    def _accept(self, request: Request) -> bool:
        """Make the record of a job, and queue it; False for what is none."""
        if request.method not in self._tasks:
            return False
        # not in the record: who starts the job again from there may be another program
        attended = request.params.pop("attended", False)
        self._bounds.job_came()
        try:
            recorder = new_record(self._wake)
            recorder.start(request.method, _title(request.method, request.params), request.params)
        except OSError as error:
            refused = OutputError(
                f"The record of the job could not be made: {error.strerror or error}.",
                cause="The state folder and the folder for temporary files are full or read-only.",
                remedy=f"Free space, or set XDG_STATE_HOME to another place than {state_folder()}.",
            )
            request.answer({"error": refused.to_dict()})
            self._bounds.job_went()
            return True
        if attended:
            self._attended.add(recorder)
        request.progress({"job": recorder.id, "folder": str(recorder.folder)})
        self._far.flush(_GRACE_SECONDS)  # native code of the job may not let the writer run
        self._jobs.put((recorder, request))
        return True

    def _wake(self, job: str) -> None:
        """Tell that a job's record has grown, once per look of the reader."""
        self._far.send({"job": job}, once=job)

    def _work(self) -> None:
        worked = False
        while (item := self._next_job(worked)) is not None:
            recorder, request = item
            self._running = recorder
            self._log_to(log_handle(recorder.log))
            answer = self._run(recorder, request)
            self._running = None
            self._attended.discard(recorder)
            self._log_to(self._idle_log)
            request.answer(answer)
            del recorder, request, item, answer
            self._bounds.job_went()
            self._end_if_idle()
            worked = True

    def _next_job(self, worked: bool) -> tuple[JobRecorder, Request] | None:
        """The next job, None at the end; what the one before left is given back until then.

        A worker whose command ends gives nothing back: it takes up to 0.1 s.
        """
        if not worked:
            return self._jobs.get()
        try:
            item = self._jobs.get(timeout=_SLICE_SECONDS)
        except queue.Empty:
            trim_heap()
            return self._jobs.get()
        if item is not None:
            trim_heap()
        return item

    def _log_to(self, handle: int) -> None:
        """Turn descriptors 1 and 2 of native code to the running job's log or the worker's own."""
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        if handle != self._idle_log:
            os.close(handle)

    def _run(self, recorder: JobRecorder, request: Request) -> Message:
        try:
            recorder.check_cancelled()
            function: JobFunction = _resolve(self._tasks[request.method])
            params = request.params
            with trusting(params.get("allow_code")):
                result = function(params, recorder)
            recorder.end("done", result=result)
            return {"result": result}
        except BaseException as error:  # noqa: BLE001 - nobody else would tell the user
            as_error = _as_error(error, recorder.log)
            data = as_error.to_dict()
            recorder.end(
                "cancelled" if isinstance(as_error, JobCancelledError) else "failed", error=data
            )
            return {"error": data}

    def _terminated(self, _number: int, _frame: object) -> None:
        """SIGTERM: write down how the running job ended and go; a second signal finds the default
        action.
        """
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        recorder = self._running
        if recorder is not None:
            if recorder.cancel_requested:
                recorder.end("cancelled", error=job_cancelled().to_dict())
            else:
                error = WorkerError(
                    "The worker was terminated (SIGTERM) before the job was done.",
                    cause="Somebody ended it, or the machine is shutting down.",
                    remedy="Start it again; finished stages are taken from the cache.",
                )
                recorder.end("failed", error=error.to_dict())
        os._exit(128 + signal.SIGTERM)


def _after(seconds: float, act: Callable[[], object]) -> None:
    """Act later, on a thread of its own."""

    def wait() -> None:
        time.sleep(seconds)
        act()

    Lasting(wait).start()


def _tidy() -> None:
    """Remove what killed processes left; a job does not need it."""
    try:
        clear_leftovers()
    except Exception as error:  # noqa: BLE001 - it is tried again by the next process
        log_traceback(error)


def _describe(error: Exception) -> Message:
    return dict(_as_error(error).to_dict())


def _title(method: str, params: JsonObject) -> str:
    recipe = params.get("recipe") or {}
    model = recipe.get("model") if isinstance(recipe, Mapping) else None
    source = model or params.get("path")  # beside a recipe the path is what is written
    return sanitize(f"{method} {Path(str(source)).name}" if source else method, 200)


def _be_modest() -> None:
    """Leave the processor and, when memory runs out, the life to the interface."""
    with contextlib.suppress(OSError):
        os.nice(5)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("200", encoding="ascii")


def serve(queries: Mapping[str, str], tasks: Mapping[str, str]) -> None:
    """Serve the protocol on descriptors 0 and 1 until the input is closed and the last job is done.

    Args:
        queries: method -> ``module:function`` of ``(params) -> result``.
        tasks: method -> ``module:function`` of ``(params, reporter) -> result``, run as jobs.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = log_handle(state_folder() / "logs" / "worker.log", _LOG_LIMIT)
    streams = take_streams(log)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=2)
    keep_memory()
    _be_modest()
    _Server(streams, log, queries, tasks).run()
