"""The way to the engine: its worker processes, their queries and jobs.

The main worker is started after the first paint, the others (:func:`place_of`) when
something is first asked of them. Each starts anew by itself after a crash, and the main one
outlives the interface while a job runs in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rknntui.keys.commandline import read_record
from rknntui.session.job_view_model import JobView
from rknntui.session.messages import WorkerChanged

if TYPE_CHECKING:
    from textual.message import Message

    from engine import Job, JobRecord, JsonObject, Worker
    from engine.wire.method import Query, Task
    from rknntui.session.state import Session

# Which of the engine's worker processes answers which method.
#
# The main worker builds, simulates and runs. What looks at boards has workers of its own, so that a
# build does not delay the list of boards, nor a board that does not answer a build. They import no
# ONNX before a model is looked at: about 35 MB each, started when they are first asked. A model
# that runs live on a board has one more, which does import it: it goes on beside a build. So does
# the making of a toolkit's environment, which takes minutes.

Place = Literal["main", "look", "boards", "live", "emulator", "toolkits"]

MAIN: Place = "main"
_PLACES: dict[str, Place] = {
    "devices.list": "look",
    # its jobs wait for nothing: a watch goes on as long as the user wants
    "devices.examine": "look",
    # these wait for one board, up to its time-outs: the list of the others goes on
    "board.about": "boards",
    "monitor.watch": "boards",
    "monitor.replay": "boards",
    "devices.perf": "live",
    # emulated boards are threads of the worker that was asked for them, and end with it
    "devices.add": "emulator",
    "devices.remove": "emulator",
    **dict.fromkeys(
        (f"vendor.{word}" for word in ("known", "default", "install", "check", "adopt", "remove")),
        "toolkits",
    ),
}
_BACKGROUND = ("devices.perf", "devices.examine", "monitor.watch", "monitor.replay")


def place_of(method: str) -> Place:
    """The worker of a method, by its name on the wire."""
    return _PLACES.get(method, MAIN)


def in_background(method: str) -> bool:
    """Whether a job runs beside what the user waits for: it ends when the workbench is left."""
    return method in _BACKGROUND


P = TypeVar("P")
R = TypeVar("R")

TELL_SECONDS = 0.12
"""At most so often a running job is drawn, so that a burst of events leaves time for keys."""

GOODBYE_SECONDS = 0.3
"""Leaving waits so long for an idle worker to end; it ends anyway, as its pipe is closed."""

PATIENCE_SECONDS = 1.0
"""A question younger than this is about to be answered: Esc does not end it."""


class Bridge:
    """Queries and jobs for the screens.

    Args:
        session: takes the jobs' events.
        publish: posts a message to everybody.
        report: shows an error that nobody waits for, such as that of a job.
    """

    def __init__(
        self,
        session: Session,
        publish: Callable[[Message], None],
        report: Callable[[Exception], None],
    ) -> None:
        self._session = session
        self._publish = publish
        self._report = report
        self._workers: dict[str, Worker] = {}
        self._starting: dict[str, asyncio.Task[Worker]] = {}
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.state = "starting"

    # -- worker ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the worker and look for running jobs; returns at once."""
        self._spawn(self._warm_up())
        self._spawn(self._reattach())

    async def _warm_up(self) -> None:
        from engine import EngineError
        from engine.wire.method import Nothing
        from engine.wire.model import WARM

        with contextlib.suppress(EngineError):  # told as state; the next request tries again
            await self.call(WARM, Nothing())

    async def _get_worker(self, place: str = MAIN) -> Worker:
        if place in self._workers:
            return self._workers[place]
        starting = self._starting.get(place)
        if starting is None:
            from engine import Worker

            starting = self._starting[place] = asyncio.create_task(Worker.start())
        try:
            worker = self._workers[place] = await asyncio.shield(starting)
        finally:
            if starting.done():
                self._starting.pop(place, None)
        return worker

    def _set_state(self, state: str, place: str = MAIN) -> None:
        """Of the main worker: who asks another one tells what became of it.

        One that is lost is started again at once; a second that is lost too waits for a question.
        """
        if place == MAIN and state != self.state != "closed":
            self.state = state
            self._publish(WorkerChanged(state))
            if state == "lost":
                self._spawn(self._warm_up())

    async def call(self, method: Query[P, R], params: P) -> R:
        """Ask a query.

        Raises:
            EngineError: as the worker raised it; ``WorkerError`` when it ended. The next call
                starts another one.
        """
        from engine import WorkerError

        place = place_of(method.name)
        try:
            worker = await self._get_worker(place)
            answer = await worker.call(method, params)
        except WorkerError:
            self._set_state("lost", place)
            raise
        self._set_state("ready", place)
        self._session.answered(answer)
        return answer

    def stop_queries(self) -> bool:
        """End the questions under way, whatever the engine does with them; False for none."""
        stopped = [w.stop_queries(after=PATIENCE_SECONDS) for w in self._workers.values()]
        return any(stopped)

    # -- jobs --------------------------------------------------------------------------------------

    async def submit(
        self,
        method: Task[P, R],
        params: P,
        title: str,
        *,
        quiet: bool = False,
        background: bool = False,
    ) -> JobView:
        """Start a job; events and end come as messages, an error of the job is reported.

        The end of a ``quiet`` one is for the screen that started it to tell, an error too. One in
        the ``background`` ends when the user starts another.

        Raises:
            EngineError: it was refused, or there is no worker.
        """
        from engine.wire.codec import encode

        return await self._submit(method.name, encode(params), title, quiet, background)

    async def again(self, record: JobRecord) -> JobView:
        """Start a job of the history again, as it was asked for; otherwise as :meth:`submit`."""
        return await self._submit(record.method, record.params, record.title)

    async def _submit(
        self,
        method: str,
        params: JsonObject,
        title: str,
        quiet: bool = False,
        background: bool = False,
    ) -> JobView:
        from engine import WorkerError

        place = place_of(method)
        if not background and place == MAIN:
            self.discard_unasked()
        background = background or in_background(method)
        try:
            worker = await self._get_worker(place)
            job = await worker.submit(method, params)
        except WorkerError:
            self._set_state("lost", place)
            raise
        view = JobView(job.id, method, title, time.time(), params=params, background=background)
        view.quiet = quiet or background
        self._follow(job, view)
        return view

    def _follow(self, job: Job, view: JobView) -> None:
        self._jobs[job.id] = job
        self._session.jobs.started(view)
        self._spawn(self._listen(job, view))

    async def _listen(self, job: Job, view: JobView) -> None:
        from engine import EngineError, JobCancelledError

        waiting: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()

        def tell() -> None:
            nonlocal waiting
            waiting = None
            self._session.jobs.changed(view)

        result: object = None
        failure: EngineError | None = None
        try:
            async for event in job.events():
                view.apply(event)
                if waiting is None:
                    waiting = loop.call_later(TELL_SECONDS, tell)
            result = read_record(view.method, await job.result())
            self._session.answered(result)
        except JobCancelledError as error:
            view.state, view.error = "cancelled", error.to_dict()
        except EngineError as error:
            failure = error
            if view.state in ("running", "done"):
                view.state = "failed"
            view.error = error.to_dict()
        finally:
            if waiting is not None:
                waiting.cancel()
        if view.state == "running":
            view.state = "done"
        self._jobs.pop(job.id, None)
        self._session.job_ended(view, result)
        if failure is not None and view.state == "failed" and not view.quiet:
            self._report(failure)

    def waits(self, job_id: str) -> bool:
        """Whether a job waits behind another one for its turn."""
        job = self._jobs.get(job_id)
        return job is not None and job.waiting

    async def cancel(self, job_id: str) -> None:
        """Ask a job to stop; the second call for the same job kills its worker."""
        job, view = self._jobs.get(job_id), self._session.jobs.get(job_id)
        if job is not None and view is not None:
            view.cancelling = True
            self._session.jobs.changed(view)
            await job.cancel()

    def discard(self, job_id: str) -> None:
        """Let a job stop whose result nobody wants any more; its worker stays warm."""
        job, view = self._jobs.get(job_id), self._session.jobs.get(job_id)
        if job is not None and view is not None and not view.cancelling:
            view.cancelling = True
            job.discard()

    def discard_unasked(self) -> None:
        """Let the jobs stop that nobody asked for; others wait for nothing then."""
        for job_id, view in list(self._session.jobs.items()):
            if view.background and view.running and not in_background(view.method):
                self.discard(job_id)

    def pause(self, job_id: str) -> None:
        """Let a job wait, or go on where it waits."""
        job, view = self._jobs.get(job_id), self._session.jobs.get(job_id)
        if job is not None and view is not None:
            if view.paused:
                job.resume()
            else:
                job.pause()
            view.paused = not view.paused
            self._session.jobs.changed(view)

    def finish(self, job_id: str) -> None:
        """Ask a search to end with the best that it found."""
        job = self._jobs.get(job_id)
        if job is not None:
            job.finish()

    async def _reattach(self) -> None:
        from engine import EngineError, attach, list_jobs

        for record in reversed(await asyncio.to_thread(list_jobs, 20)):
            if record.state != "running" or record.id in self._jobs:
                continue
            if in_background(record.method):  # it belongs to who started it
                continue
            try:
                job = attach(record.id)
            except EngineError:  # it ended meanwhile and its record was removed
                continue
            view = JobView(
                record.id, record.method, record.title, record.started, record.params, ours=False
            )
            self._follow(job, view)

    # -- end ---------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._report(error)

    async def close(self) -> None:
        """Let the workers go; each ends when its job is done. Jobs in the background stop."""
        self.state = "closed"
        self.end_background()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for place, starting in tuple(self._starting.items()):
            with contextlib.suppress(Exception):
                self._workers[place] = await starting
        workers, self._workers = [*self._workers.values()], {}
        await asyncio.gather(*(self._let_go(worker) for worker in workers))

    def end_background(self) -> None:
        """Ask the jobs in the background to stop, which hold a board; any thread may call it."""
        from engine import EngineError

        for job_id, job in list(self._jobs.items()):
            view = self._session.jobs.get(job_id)
            if view is not None and view.background:
                with contextlib.suppress(EngineError):  # a full disk: nobody is left to tell
                    job.discard()

    @staticmethod
    async def _let_go(worker: Worker) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(worker.close(), GOODBYE_SECONDS)
