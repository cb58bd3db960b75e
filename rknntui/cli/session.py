"""One worker for one command: queries and jobs in turn, Ctrl-C cancels, Ctrl-Z lets them wait."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from engine import (
    ArtifactWritten,
    ContainerError,
    EngineError,
    Event,
    Job,
    JobCancelledError,
    KeyNeededError,
    RecipeError,
    UsageError,
    Worker,
)
from engine.wire.codec import Values
from engine.wire.encryption import ENCRYPTION_KEY
from engine.wire.method import Query, Task
from engine.wire.model import SNIFF, FileKind
from engine.wire.requests import RECIPE_LOAD, AtPath
from rknntui.cli.flags import allowed_code
from rknntui.cli.keys import asked_key, file_key, given_key

_YAML = (".yaml", ".yml")
_TEXTS = ("unknown", "dataset")
"""Kinds of files that may be meant as a recipe, where their name says so."""

Result = TypeVar("Result")
Params = TypeVar("Params")


class WorkerSession:
    """The worker of this command."""

    def __init__(
        self, worker: Worker, on_event: Callable[[Event], None], allowed: Sequence[str] = ()
    ) -> None:
        self._worker = worker
        self._on_event = on_event
        self._allowed = allowed
        self._job: Job[Any] | None = None

    async def call(self, method: Query[Params, Result], params: Params) -> Result:
        """Ask a query and wait for its answer."""
        return await self._worker.call(method, params, allow_code=self._allowed)

    async def run(self, method: Task[Params, Result], params: Params) -> Result:
        """Run a job to its end; Ctrl-C and SIGTERM cancel it, a second one kills it.

        Ctrl-Z lets it wait until the command goes on (``fg``).
        """
        return await self._run(method, params, self._on_event)

    async def run_after(self, method: Task[Params, Result], params: Params) -> Result:
        """As :meth:`run`, for a job whose stages were told already: only files are told."""

        def tell(event: Event) -> None:
            if isinstance(event, ArtifactWritten):
                self._on_event(event)

        return await self._run(method, params, tell)

    async def run_until_stopped(self, method: Task[Params, Result], params: Params) -> Result:
        """As :meth:`run`, for a job without an end of its own: Ctrl-C, SIGTERM, a terminal that
        goes and :meth:`finish` ask for the result so far; a second Ctrl-C cancels it.
        """
        return await self._run(method, params, self._on_event, endless=True)

    def finish(self) -> None:
        """Ask the job for the result so far."""
        if self._job is not None:
            self._job.finish()

    async def _run(
        self,
        method: Task[Params, Result],
        params: Params,
        tell: Callable[[Event], None],
        *,
        endless: bool = False,
    ) -> Result:
        loop = asyncio.get_running_loop()
        stop = _Stop(self._worker, finish_first=endless)
        with contextlib.ExitStack() as stack:
            # from here on: Ctrl-C cancels a job that was handed over, and it ends with this
            # command, unless the terminal goes
            for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] * endless)):
                loop.add_signal_handler(number, stop)
                stack.callback(loop.remove_signal_handler, number)
                # asyncio forgets a signal that came when its handler is removed: count it at once
                signal.signal(number, stop.hear)
            job = self._job = await self._worker.submit(
                method, params, allow_code=self._allowed, attended=True
            )
            stop.take(job)
            if not endless and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
                loop.add_signal_handler(signal.SIGHUP, lambda: _leave(job))
                stack.callback(loop.remove_signal_handler, signal.SIGHUP)
            if endless:  # one that nobody listens to would go on for ever
                stack.push(partial(_discard, job))
            if (
                signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
            ):  # a shell without jobs ignores it
                loop.add_signal_handler(signal.SIGTSTP, lambda: _wait(job))
                stack.callback(loop.remove_signal_handler, signal.SIGTSTP)
            async for event in job.events():
                tell(event)
            result = await job.result()
        # a signal from here on has its usual effect: KeyboardInterrupt, or the end
        if stop.cancels:  # what follows a job that was cancelled too late does not start either
            raise JobCancelledError("The job was cancelled.", remedy="Start it again when ready.")
        return result


class _Stop:
    """What Ctrl-C does: it cancels the job, also one that the worker has not taken yet.

    Args:
        worker: that was given the job.
        finish_first: whether the job is asked for the result so far, and cancelled at the second
            time.
    """

    def __init__(self, worker: Worker, *, finish_first: bool = False) -> None:
        self._worker, self._finish_first = worker, finish_first
        self._job: Job[Any] | None = None
        self._heard = self._asked = 0
        # kept so that they are not collected while they run
        self._cancels: set[asyncio.Task[None]] = set()

    @property
    def cancels(self) -> bool:
        """Whether it was asked for more than the result so far, also by a signal that the loop
        did not tell of yet.
        """
        return self._heard > (1 if self._finish_first else 0)

    def hear(self, _number: int, _frame: object) -> None:
        """A signal came, wherever the program is. The loop tells of it by and by."""
        self._heard += 1

    def __call__(self) -> None:
        """The loop tells of a signal; the second one kills."""
        self._asked += 1
        if self._job is not None:
            self._end(self._job)
        elif self._asked > 1:
            self._worker.kill()

    def take(self, job: Job[Any]) -> None:
        """The worker has the job."""
        self._job = job
        if self._asked:
            self._end(job)

    def _end(self, job: Job[Any]) -> None:
        if self._finish_first and self._asked == 1:
            with contextlib.suppress(EngineError):  # a full disk: there is only the hard way
                job.finish()
                return
        task = asyncio.get_running_loop().create_task(job.cancel())
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)


def _discard(job: Job[Any], kind: type[BaseException] | None, *_: object) -> None:
    """Let a job stop where this command fails."""
    if kind is not None:
        with contextlib.suppress(EngineError):
            job.discard()


def _leave(job: Job[Any]) -> None:
    """The terminal has gone, a connection dropped: the job goes on, as in the workbench."""
    with contextlib.suppress(EngineError):
        job.keep()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGHUP)


def _wait(job: Job[Any]) -> None:
    """Stop as Ctrl-Z does; the worker has a session of its own and would go on by itself."""
    with contextlib.suppress(EngineError):  # a full disk: there is only this process to stop
        job.pause()
    os.kill(os.getpid(), signal.SIGSTOP)
    job.resume()  # the shell let this process go on


def with_worker(
    action: Callable[[WorkerSession], Awaitable[Result]], on_event: Callable[[Event], None]
) -> Result:
    """Start a worker, run ``action`` with it and end it.

    An action that meets an encrypted container is begun again with its key, which is that of the
    command line or the environment, else asked for at the terminal.
    """
    context = click.get_current_context(silent=True)
    allowed = [] if context is None else allowed_code(context)

    async def main() -> Result:
        worker = await Worker.start()
        try:
            session = WorkerSession(worker, on_event, allowed)
            named = file_key(context)
            if named is not None:
                await session.call(ENCRYPTION_KEY, named)
            try:
                return await _unless_broken(action(session))
            except KeyNeededError:
                key = given_key(context) or asked_key("the encrypted container")
                if key is None:
                    raise
                await session.call(ENCRYPTION_KEY, key)
            return await _unless_broken(action(session))
        finally:
            await worker.close()

    return asyncio.run(main())


async def _unless_broken(action: Awaitable[Result]) -> Result:
    """Wait for ``action``, but not for an answer that cannot be read.

    Where memory runs out in a callback of the loop, asyncio says so and goes on: nobody would ever
    hear of the worker again.
    """
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()

    def note(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if not isinstance(error, MemoryError):
            loop.default_exception_handler(context)
        elif not broken.done():
            broken.set_exception(error)

    loop.set_exception_handler(note)
    run = asyncio.ensure_future(action)
    try:
        await asyncio.wait((run, broken), return_when=asyncio.FIRST_COMPLETED)
        if broken.done() and not run.done():
            run.cancel()
            broken.result()
        return await run
    except asyncio.CancelledError:
        run.cancel()
        raise
    finally:
        if not broken.done():
            broken.cancel()


async def resolve(session: WorkerSession, target: Path, given: Values) -> Values:
    """The recipe that a verb's TARGET (model file or recipe) and its flags mean.

    Raises:
        RecipeError: the recipe has mistakes; all are named.
        UsageError: the target is a container, which is built already.
        ContainerError: the target is a compiled model of the vendor.
    """
    kind = (await sniffed(session, target)).kind
    if means_recipe(kind, target):
        loaded = await session.call(RECIPE_LOAD, AtPath(str(target.absolute())))
        if loaded.problems:
            raise RecipeError(
                f"{target} cannot be used: " + " ".join(p.message for p in loaded.problems),
                cause="It was edited by hand, or made by another version.",
                remedy="Correct these lines; `rknntui recipe options` lists every option.",
            )
        return {**loaded.recipe, **given}
    if kind == "rknn":
        raise UsageError(
            f"{target} is a container; it is already built.",
            cause="This verb starts from a model or a recipe.",
            remedy="Use the model or the recipe that it was built from.",
        )
    return {"model": str(target.absolute()), **given}


def means_recipe(kind: str, target: Path) -> bool:
    """Whether a file of this kind is a recipe, or is meant as one: its mistakes are told then, not
    its kind.
    """
    return kind == "recipe" or (kind in _TEXTS and target.suffix.lower() in _YAML)


async def is_recipe(session: WorkerSession, target: Path) -> bool:
    """Whether a file means a recipe; the errors are those of :func:`sniffed`."""
    return means_recipe((await sniffed(session, target)).kind, target)


async def kind_of(session: WorkerSession, target: Path) -> FileKind:
    """What a file is, by its content, a compiled model of the vendor too.

    Raises:
        SourceModelError: it is missing or unreadable.
    """
    return await session.call(SNIFF, AtPath(str(target.absolute())))


async def sniffed(session: WorkerSession, target: Path) -> FileKind:
    """What a file is, by its content.

    Raises:
        ContainerError: it is a compiled model of the vendor, which no verb takes yet.
        SourceModelError: it is missing or unreadable.
    """
    seen = await kind_of(session, target)
    if seen.kind == "rknn_vendor":
        raise ContainerError(
            f"{target} is a compiled model of the vendor ({seen.format}).",
            cause="Ours and the vendor's both end in .rknn; the vendor's is compiled for one NPU "
            "and cannot be simulated or built again here.",
            remedy="Use the model that it was made from.",
        )
    return seen
