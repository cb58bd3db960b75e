"""One worker for one command: queries and jobs in turn, Ctrl-C cancels."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from engine import ArtifactWritten, Event, Job, UsageError, Worker

__all__ = ["WorkerSession", "resolve", "with_worker"]

Result = TypeVar("Result")


class WorkerSession:
    """The worker of this command."""

    def __init__(self, worker: Worker, on_event: Callable[[Event], None]) -> None:
        self._worker = worker
        self._on_event = on_event

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask a query and wait for its answer."""
        return await self._worker.call(method, params)

    async def run(self, method: str, **params: Any) -> dict[str, Any]:
        """Run a job to its end; Ctrl-C and SIGTERM cancel it, a second one kills it."""
        return await self._run(method, params, self._on_event)

    async def run_after(self, method: str, **params: Any) -> dict[str, Any]:
        """As :meth:`run`, for a job whose stages were told already: only files are told."""

        def tell(event: Event) -> None:
            if isinstance(event, ArtifactWritten):
                self._on_event(event)

        return await self._run(method, params, tell)

    async def _run(
        self, method: str, params: dict[str, Any], tell: Callable[[Event], None]
    ) -> dict[str, Any]:
        job = await self._worker.submit(method, params)
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as stack:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, lambda: _spawn(job))
                stack.callback(loop.remove_signal_handler, number)
            async for event in job.events():
                tell(event)
            return await job.result()


_cancels: set[asyncio.Task[None]] = set()


def _spawn(job: Job) -> None:
    """Cancel from a signal handler; the task is kept so that it is not collected while it runs."""
    task = asyncio.get_running_loop().create_task(job.cancel())
    _cancels.add(task)
    task.add_done_callback(_cancels.discard)


def with_worker(
    action: Callable[[WorkerSession], Awaitable[Result]], on_event: Callable[[Event], None]
) -> Result:
    """Start a worker, run ``action`` with it and end it."""

    async def main() -> Result:
        worker = await Worker.start()
        try:
            return await action(WorkerSession(worker, on_event))
        finally:
            await worker.close()

    return asyncio.run(main())


async def resolve(session: WorkerSession, target: Path, given: dict[str, Any]) -> dict[str, Any]:
    """The recipe that a verb's TARGET (model file or recipe) and its flags mean.

    Raises:
        UsageError: the target is a container, which is built already.
    """
    seen = await session.call("sniff", path=str(target.absolute()))
    if seen["kind"] == "recipe":
        loaded = await session.call("recipe.load", path=str(target.absolute()))
        return {**loaded["recipe"], **given}
    if seen["kind"] == "rknn":
        raise UsageError(
            f"{target} is a container, built already.",
            remedy="Give the model or the recipe that it was built from.",
        )
    return {"model": str(target.absolute()), **given}
