"""The worker process: answers queries on its main thread, runs jobs one at a time on a second one.

``python -P -m engine.jobs.worker``, started by :mod:`engine.jobs.client`. Standard output is the
protocol only: file descriptors 1 and 2 of native code go to the running job's log. The process is
    in its own session, ignores
SIGHUP and SIGINT, outlives the program that started it for as long as a job runs or waits, and ends
at once when it is idle and its standard input is closed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.base.errors import (
    EngineError,
    InternalError,
    JobCancelledError,
    OutputError,
    UsageError,
    WorkerError,
)
from engine.base.events import Reporter
from engine.base.folders import private_folder, private_handle, state_folder
from engine.base.leftovers import clear_leftovers
from engine.base.resources import resource_error
from engine.base.text import did_you_mean, printable
from engine.jobs.bounds import Bounds
from engine.jobs.confirmed import allowing
from engine.jobs.memory import give_back
from engine.jobs.protocol import LINE_LIMIT, Message, decode, encode
from engine.jobs.record import JobRecorder, log_traceback, new_record

__all__ = ["main", "serve"]

Query = Callable[[dict[str, Any]], dict[str, Any]]
JobFunction = Callable[[dict[str, Any], Reporter], dict[str, Any]]

QUERIES: dict[str, str] = {
    "ping": "engine.jobs.queries:ping",
    "warm": "engine.jobs.queries:warm",
    "sniff": "engine.jobs.queries:sniff_file",
    "pairs": "engine.jobs.queries:source_pairs",
    "open": "engine.jobs.queries:open_model",
    "graph": "engine.jobs.queries:graph",
    "node": "engine.jobs.queries:node",
    "tensor": "engine.jobs.queries:tensor",
    "layer": "engine.jobs.queries:layer",
    "hybrid.table": "engine.jobs.hybrid:table",
    "joins": "engine.jobs.hybrid:joins",
    "ranges": "engine.jobs.tables:ranges",
    "validate": "engine.jobs.recipes:validate",
    "code.files": "engine.jobs.code:files",
    "code.confirm": "engine.jobs.code:confirm_file",
    "recipe.load": "engine.jobs.recipes:load",
    "recipe.save": "engine.jobs.recipes:save",
    "dataset.list": "engine.jobs.tables:samples",
    "dataset.check": "engine.jobs.datasets:check",
    "dataset.preview": "engine.jobs.datasets:preview",
    "dataset.make": "engine.jobs.datasets:make",
    "doctor": "engine.jobs.health:doctor",
}
TASKS: dict[str, str] = {
    "load": "engine.jobs.tasks:load",
    "build": "engine.jobs.tasks:build",
    "accuracy": "engine.jobs.tasks:accuracy",
    "simulate": "engine.jobs.tasks:simulate",
    "export": "engine.jobs.tasks:export",
    "score": "engine.jobs.scoring:score",
    "guide": "engine.jobs.guide:guide",
    "evaluate": "engine.jobs.scoring:evaluate",
    "sweep": "engine.jobs.sweep:sweep",
    "hybrid.effect": "engine.jobs.hybrid:effect",
    "hybrid.propose": "engine.jobs.hybrid:propose",
    "hybrid.search": "engine.jobs.hybrid:search",
    "hybrid.step1": "engine.jobs.hybrid_steps:step1",
    "hybrid.step2": "engine.jobs.hybrid_steps:step2",
}

_LOG_LIMIT = 1 << 20
_GRACE_SECONDS = 2.0
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
    return InternalError(
        f"This program made a mistake: {type(error).__name__}: {printable(str(error), 200)}",
        cause="A case that was not thought of.",
        remedy=where,
    )


class _Pipe:
    """The protocol's output, written by a thread of its own: a reader that stands still stops
    nobody.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._queue: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._pending: set[str] = set()
        self._thread = threading.Thread(target=self._write, name="pipe", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Queue a message."""
        self._queue.put(message)

    def wake(self, job: str) -> None:
        """Tell that a job's record has grown, once per look of the reader."""
        if job not in self._pending:
            self._pending.add(job)
            self._queue.put({"job": job})

    def _write(self) -> None:
        while (message := self._queue.get()) is not None:
            if "id" not in message:
                self._pending.discard(message["job"])
            rest = memoryview(encode(message))
            try:
                while rest:
                    rest = rest[os.write(self._handle, rest) :]
            except OSError:  # nobody reads any more; jobs go on
                self._handle = -1

    def close(self) -> None:
        """Write what is queued, at most for the time of grace."""
        self._queue.put(None)
        self._thread.join(_GRACE_SECONDS)


class _Logs:
    """Where descriptors 1 and 2 of native code go: the worker's log, or the running job's."""

    def __init__(self) -> None:
        self._idle = self._open(state_folder() / "logs" / "worker.log", _LOG_LIMIT)
        self.use(None)

    @staticmethod
    def _open(path: Path, limit: int = 0) -> int:
        try:
            private_folder(path.parent)
            if limit and path.exists() and path.stat().st_size > limit:
                path.replace(path.with_suffix(".old.log"))
            return private_handle(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        except OSError:
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def use(self, path: Path | None) -> None:
        """Turn both descriptors to ``path``, None for the worker's own log."""
        handle = self._idle if path is None else self._open(path)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        if path is not None:
            os.close(handle)


class _Server:
    """Reads requests, hands queries to the main thread and jobs to the second one."""

    def __init__(
        self, pipe: _Pipe, logs: _Logs, queries: Mapping[str, str], tasks: Mapping[str, str]
    ) -> None:
        self._pipe = pipe
        self._logs = logs
        self._queries = queries
        self._tasks = tasks
        self._asked: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._jobs: queue.SimpleQueue[tuple[JobRecorder, Message] | None] = queue.SimpleQueue()
        self._running: JobRecorder | None = None
        self._bounds = Bounds()
        self._closed = False

    def run(self) -> None:
        """Answer until the input is closed, then finish the jobs."""
        signal.signal(signal.SIGTERM, self._terminated)
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        jobs = threading.Thread(target=self._work, name="jobs", daemon=True)
        jobs.start()
        tidying = threading.Thread(target=clear_leftovers, name="tidying", daemon=True)
        tidying.start()
        while (message := self._asked.get()) is not None:
            self._answer(message)
        self._jobs.put(None)
        while jobs.is_alive():  # in slices: a signal handler runs between them
            jobs.join(0.5)
        tidying.join(_GRACE_SECONDS)
        self._pipe.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while line := sys.stdin.buffer.readline(LINE_LIMIT):
                try:
                    self._take(decode(line))
                except EngineError as error:
                    self._pipe.send({"id": None, "error": error.to_dict(), "job": ""})
        self._closed = True
        self._asked.put(None)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        """End, whatever the main thread does, once there is neither a client nor a job."""
        if self._closed and self._bounds.jobs == 0:
            last = threading.Timer(_LAST_QUERY_SECONDS, os._exit, (0,))
            last.daemon = True
            last.start()

    def _take(self, message: Message) -> None:
        if message.get("method") in self._tasks:
            self._accept(message)
        else:
            self._asked.put(message)

    def _answer(self, message: Message) -> None:
        number, method = message.get("id"), str(message.get("method"))
        try:
            home = self._queries.get(method)
            if home is None:
                known = [*self._queries, *self._tasks]
                raise UsageError(
                    f"The worker has no method {printable(method, 80)}.",
                    remedy=did_you_mean(method, known),
                )
            function: Query = _resolve(home)
            params = dict(message.get("params") or {})
            with allowing(params.get("allow_code")), self._bounds.query(params):
                result = function(params)
            self._pipe.send({"id": number, "result": result})
        except Exception as error:  # noqa: BLE001 - nobody else would tell the user
            self._pipe.send({"id": number, "error": _as_error(error).to_dict()})

    def _accept(self, message: Message) -> None:
        number, method = message.get("id"), str(message["method"])
        params = dict(message.get("params") or {})
        self._bounds.job_came()
        try:
            recorder = new_record(self._pipe.wake)
            recorder.start(method, _title(method, params), params)
        except OSError as error:
            refused = OutputError(
                f"The record of the job could not be made: {error.strerror or error}.",
                cause="The state folder and the folder for temporary files are full or read-only.",
                remedy=f"Free space, or set XDG_STATE_HOME to another place than {state_folder()}.",
            )
            self._pipe.send({"id": number, "error": refused.to_dict()})
            self._bounds.job_went()
            return
        self._pipe.send({"id": number, "job": recorder.id, "folder": str(recorder.folder)})
        self._jobs.put((recorder, message))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            recorder, message = item
            self._running = recorder
            self._logs.use(recorder.log)
            answer = self._run(recorder, message)
            self._running = None
            self._logs.use(None)
            self._pipe.send({"id": message.get("id"), **answer})
            del recorder, message, item, answer
            give_back()
            self._bounds.job_went()
            self._end_if_idle()

    def _run(self, recorder: JobRecorder, message: Message) -> Message:
        try:
            recorder.check_cancelled()
            function: JobFunction = _resolve(self._tasks[str(message["method"])])
            params = dict(message.get("params") or {})
            with allowing(params.get("allow_code")):
                result = function(params, recorder)
            recorder.end("done", result=result)
            return {"result": result}
        except BaseException as error:  # noqa: BLE001 - nobody else would tell the user
            told = _as_error(error, recorder.log)
            data = told.to_dict()
            recorder.end(
                "cancelled" if isinstance(told, JobCancelledError) else "failed", error=data
            )
            return {"error": data}

    def _terminated(self, _number: int, _frame: object) -> None:
        """SIGTERM: write down how the running job ended and go; a second signal finds the default
        action.
        """
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        recorder = self._running
        if recorder is not None:
            error: EngineError
            if recorder.cancel_asked:
                error = JobCancelledError(
                    "The job was cancelled.", remedy="Start it again when ready."
                )
                recorder.end("cancelled", error=error.to_dict())
            else:
                error = WorkerError(
                    "The worker was told to end (SIGTERM) before the job was done.",
                    cause="Somebody ended it, or the machine is shutting down.",
                    remedy="Start it again; finished stages are taken from the cache.",
                )
                recorder.end("failed", error=error.to_dict())
        os._exit(128 + signal.SIGTERM)


def _title(method: str, params: Mapping[str, Any]) -> str:
    recipe = params.get("recipe") or {}
    source = params.get("path") if method == "simulate" else None
    source = source or (recipe.get("model") if isinstance(recipe, Mapping) else None)
    return printable(f"{method} {Path(str(source)).name}" if source else method, 200)


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
    protocol = os.dup(1)
    logs = _Logs()
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=2)
    _be_modest()
    _Server(_Pipe(protocol), logs, queries, tasks).run()


def main() -> None:
    """The process's entry."""
    serve(QUERIES, TASKS)


def _close_children() -> None:
    """Let the processes of converters go, with their folders: ``os._exit`` runs no clean-up."""
    foreign = sys.modules.get("engine.frontends.foreign")
    if foreign is not None:
        foreign.close()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    _close_children()
    # Threads of libraries are not waited for: everything that counts is on disk.
    os._exit(0)
