"""An asyncio loop in a thread of its own, for callers that block."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

from engine.base.peers.near import LOOK_SECONDS

_T = TypeVar("_T")

_GRACE_SECONDS = 5.0


class LoopThread:
    """The loop of one transport; its thread runs until :meth:`close`.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # a lost connection ends tasks of the library that nobody waits for: the callers hear of it
        # by their own calls, and nothing is printed
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._finishing: set[asyncio.Task[object]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        # nor is what asyncio tells of pipes that are closed while a program still writes
        logging.getLogger("asyncio").addFilter(self._is_of_others)
        self._thread.start()

    def _is_of_others(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread.ident

    def call(
        self,
        work: Coroutine[Any, Any, _T],
        seconds: float,
        check: Callable[[], object] | None = None,
    ) -> _T:
        """Run a coroutine in the loop and wait for its result.

        Args:
            work: the coroutine; it is cancelled where the caller is interrupted.
            seconds: until it is cancelled.
            check: called ten times a second; what it raises cancels it.

        Raises:
            TimeoutError: it was not over by then, or the loop is closed.
        """
        if self._loop.is_closed():
            work.close()
            raise TimeoutError
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop)
        end = time.monotonic() + seconds + _GRACE_SECONDS
        try:
            # what is cancelled may clean up first
            if check is not None:
                while not wait([future], LOOK_SECONDS).done and time.monotonic() < end:
                    check()
            return future.result(max(0.0, end - time.monotonic()))
        finally:
            future.cancel()

    def finish(self, work: Coroutine[Any, Any, object], seconds: float) -> None:
        """Run a coroutine in the loop to its end, and wait for it that long at most.

        Args:
            work: what cleans up; how it ends is nobody's concern.
            seconds: until the caller goes on.
        """
        with contextlib.suppress(TimeoutError):
            self.call(self._shielded(work), seconds)

    async def _shielded(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        # a loop knows its tasks by weak references only
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        await asyncio.wait([task])

    def close(self) -> None:
        """Cancel what runs and end the thread."""
        if self._loop.is_closed():
            return
        stopped = asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop)
        with contextlib.suppress(TimeoutError):
            stopped.result(_GRACE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GRACE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
            logging.getLogger("asyncio").removeFilter(self._is_of_others)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
