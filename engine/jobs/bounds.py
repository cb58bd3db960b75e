"""What bounds a worker even while native code holds the interpreter's lock: the kernel.

* Without a job the worker dies with the program that started it (``PR_SET_PDEATHSIG``). While a job
  runs or waits it does not: a job outlives its terminal.
* Its memory has a limit (``RLIMIT_DATA``), lower while only a query runs. Beyond it an allocation
  fails, which is an error that is told, and the worker stays.

How long a query may take is up to the client, which can end the process.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.base.peers.far import Lasting
from engine.base.peers.limits import die_with_parent, limit_data, machine_bytes, private_bytes
from engine.base.plain import JsonObject

_NOTHING = 0

QUERY_BYTES = 4 << 30
"""A query may take so much beside what the worker has, and this many times its model's file:"""
_FILE_TIMES = 4


class Bounds:
    """The bounds of this process; made once, by the worker's main thread.

    The signal for the parent's death belongs to the thread that asks for it, and the kernel looks
    at every thread of a process: so one thread sets and clears it, and does nothing else.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parent = os.getppid()
        self._asked: queue.SimpleQueue[tuple[int, threading.Event]] = queue.SimpleQueue()
        self.jobs = 0
        Lasting(self._obey).start()
        limit_data(machine_bytes())
        self._tie(signal.SIGKILL)

    def job_came(self) -> None:
        """A job was accepted: from now on this process outlives its parent."""
        with self._lock:
            self.jobs += 1
            if self.jobs == 1:
                self._tie(_NOTHING)
                limit_data(machine_bytes())

    def job_went(self) -> None:
        """A job is over, and its record is written; ends a process that nobody waits for."""
        with self._lock:
            self.jobs -= 1
            if self.jobs == 0:
                self._tie(signal.SIGKILL)
                if os.getppid() != self._parent:
                    os.kill(os.getpid(), signal.SIGKILL)

    @contextlib.contextmanager
    def query(self, params: JsonObject) -> Iterator[None]:
        """The time of one query; beside a job the job's limit holds."""
        with self._lock:
            if self.jobs == 0:
                limit_data(private_bytes() + QUERY_BYTES + _FILE_TIMES * _file_bytes(params))
        try:
            yield
        finally:
            with self._lock:
                if self.jobs == 0:
                    limit_data(machine_bytes())

    def _tie(self, number: int) -> None:
        done = threading.Event()
        self._asked.put((number, done))
        done.wait()

    def _obey(self) -> None:
        while True:
            number, done = self._asked.get()
            die_with_parent(number)
            done.set()


def _file_bytes(params: JsonObject) -> int:
    """Bytes of the model that a query is about."""
    recipe = params.get("recipe")
    paths = [params.get("path")]
    if isinstance(recipe, Mapping):
        paths += [recipe.get("model"), recipe.get("weights")]
    total = 0
    for path in paths:
        if isinstance(path, str):
            with contextlib.suppress(OSError, ValueError):
                total += Path(path).stat().st_size
    return total
