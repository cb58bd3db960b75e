from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.errors import EngineError
from engine.base.events import Event, StageStarted
from engine.base.process import ProcessId, child_environment
from engine.jobs.client import Worker
from engine.jobs.job import Job

AnyJob = Job[Any]
TOY = "tests.jobs.toy_worker"


@pytest.fixture
async def toy() -> AsyncIterator[Worker]:
    worker = await Worker.start(module=TOY)
    yield worker
    await worker.close()


async def begun(worker: Worker, method: str) -> tuple[AnyJob, AsyncIterator[Event]]:
    """A job whose first stage has started, and the events that follow."""
    job = await worker.submit(method, {})
    events = job.events()
    assert isinstance(await anext(events), StageStarted)
    return job, events


async def fails(job: AnyJob, error: type[EngineError], match: str | None = None) -> EngineError:
    """What a job failed with."""
    with pytest.raises(error, match=match) as caught:
        await job.result()
    return caught.value


def signalled(worker: Worker, number: signal.Signals) -> None:
    assert worker.pid is not None
    os.kill(worker.pid, number)


async def gone(process: ProcessId, seconds: float = 5) -> bool:
    for _ in range(int(seconds / 0.02)):
        if not process.alive:
            return True
        await asyncio.sleep(0.02)
    return False


HEARS = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests may ignore them: nohup, &
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def asking(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", HEARS + code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
        text=True,
    )
