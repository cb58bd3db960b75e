"""The one worker of a command, where this process itself runs out of memory."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import JobCancelledError
from engine.jobs.history import list_jobs
from engine.jobs.job import Job
from engine.wire.build import BUILD, BuildParams
from rknntui.cli.session import WorkerSession, with_worker
from tests.safety import ends


async def build(session: WorkerSession, demo: Path, *, refresh: bool = False) -> None:
    recipe = {"model": str(demo / "digits_demo.onnx"), "dataset": str(demo / "dataset.txt")}
    await session.run(BUILD, BuildParams(recipe=recipe, refresh=refresh))


def ends_behind_a_build(demo: Path) -> None:
    """A command that asks for more once it has built ends before that."""

    async def action(session: WorkerSession) -> None:
        await build(session, demo)
        pytest.fail("it goes on")

    with ends(), pytest.raises(JobCancelledError):
        with_worker(action, lambda _: None)


def test_an_answer_that_cannot_be_read_is_not_waited_for() -> None:
    async def action(session: WorkerSession) -> None:
        def no_room() -> None:
            raise MemoryError

        asyncio.get_running_loop().call_soon(no_room)
        await asyncio.Event().wait()

    with ends(), pytest.raises(MemoryError):
        with_worker(action, lambda _: None)


def test_ctrl_c_before_the_worker_has_the_job(demo: Path) -> None:
    """It took the job all the same, and nobody was left to cancel it."""

    async def action(session: WorkerSession) -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        await build(session, demo, refresh=True)

    with ends(), pytest.raises(JobCancelledError):
        with_worker(action, lambda _: None)
    assert [record.state for record in list_jobs()] == ["cancelled"]


def test_ctrl_c_in_the_last_moment_of_a_job(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job ended "done", the signal was lost, and the next query ran for half a minute."""
    result = Job.result

    async def ended(job: Job[Any]) -> Any:
        found = await result(job)
        os.kill(os.getpid(), signal.SIGINT)
        return found

    monkeypatch.setattr(Job, "result", ended)
    ends_behind_a_build(demo)
    assert [record.state for record in list_jobs()] == ["done"]


def test_ctrl_c_while_the_handlers_go(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asyncio had the signal, and its handler was removed before it told of it."""
    loops = asyncio.SelectorEventLoop
    remove, sent = loops.remove_signal_handler, list[int]()

    def late(loop: asyncio.SelectorEventLoop, number: int) -> bool:
        if number == signal.SIGINT and not sent:
            sent.append(number)
            os.kill(os.getpid(), number)
        return remove(loop, number)

    monkeypatch.setattr(loops, "remove_signal_handler", late)
    ends_behind_a_build(demo)
    assert sent
