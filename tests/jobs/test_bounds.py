"""No request outlives its time, its memory or the program that asked; jobs outlive the latter."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import JobCancelledError, WorkerError
from engine.base.process import ProcessId
from engine.jobs import bounds, client, history
from engine.jobs.client import Worker
from engine.jobs.job import attach
from tests.jobs.conftest import asking, gone


async def written(path: Path) -> ProcessId:
    """The process that a query of the toy worker names before it hangs."""
    for _ in range(1000):
        if path.exists() and (text := path.read_text()):
            return ProcessId.of(int(text))
        await asyncio.sleep(0.01)
    raise AssertionError("the query was never begun")


def hanging(toy: Worker, folder: Path, *, locked: bool = True) -> asyncio.Future[Any]:
    """A query that does not come back; what :func:`written` looks for is ``pid`` in a folder."""
    pid = str(folder / "pid")
    return asyncio.ensure_future(toy.call("hang", {"pid": pid, "locked": locked}))


async def stopped(*calls: asyncio.Future[Any]) -> None:
    for call in calls:
        with pytest.raises(JobCancelledError):
            await call


ASKING = """
import asyncio, sys
from engine.jobs.client import Worker
async def main():
    worker = await Worker.start(module="tests.jobs.toy_worker")
    if sys.argv[2] == "job":
        job = await worker.submit("count", {"to": 100, "seconds": 0.02})
        print(job.id, flush=True)
    await worker.call("hang", {"pid": sys.argv[1], "locked": sys.argv[2] != "job"})
asyncio.run(main())
"""

COMMAND = """
import asyncio, sys
from engine.jobs.client import Worker
from engine.wire.method import Nothing, Query
from engine.wire.requests import AtPath
from rknntui.cli.session import with_worker
Worker.start.__func__.__kwdefaults__["module"] = "tests.jobs.toy_worker"
HANG = Query("hang", AtPath, Nothing)
with_worker(lambda session: session.call(HANG, AtPath(sys.argv[1])), print)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
async def test_a_worker_in_native_code_dies_with_who_asked(
    tmp_path: Path, number: signal.Signals
) -> None:
    asker = asking(ASKING, str(tmp_path / "pid"), "query")
    worker = await written(tmp_path / "pid")
    asker.send_signal(number)
    asker.communicate()
    assert await gone(worker)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_command_that_is_stopped_leaves_no_worker(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = asking(COMMAND, str(tmp_path / "pid"))
    worker = await written(tmp_path / "pid")
    command.send_signal(number)
    command.communicate(timeout=30)
    assert await gone(worker)


ATTENDED = """
import sys
from engine.jobs.client import Worker
from engine.wire.method import Nothing, Task
from rknntui.cli.session import with_worker
Worker.start.__func__.__kwdefaults__["module"] = "tests.jobs.toy_worker"
async def action(session):
    print(session._worker.pid, flush=True)
    return await session.run(Task("stubborn", Nothing, Nothing), Nothing())
with_worker(action, lambda event: print(event, flush=True))
"""


@pytest.mark.parametrize(("number", "goes_on"), [(signal.SIGKILL, False), (signal.SIGHUP, True)])
async def test_a_job_ends_within_a_second_of_its_command(
    number: signal.Signals, goes_on: bool
) -> None:
    """Also one that asks nothing; where only the terminal goes, the job goes on."""
    command = asking(ATTENDED)
    assert command.stdout is not None
    worker = ProcessId.of(int(command.stdout.readline()))
    assert "StageStarted" in command.stdout.readline()
    assert "attended" not in history.list_jobs()[0].params  # who does it again may go on without
    command.send_signal(number)
    ended = await gone(worker, 1)
    if goes_on:
        assert not ended
        worker.send(signal.SIGKILL)
    else:
        assert ended
    command.communicate(timeout=30)


async def test_a_job_goes_on_beside_a_query_whose_asker_died_and_then_all_ends(
    tmp_path: Path,
) -> None:
    asker = asking(ASKING, str(tmp_path / "pid"), "job")
    worker = await written(tmp_path / "pid")
    assert asker.stdout is not None
    job_id = asker.stdout.readline().strip()
    asker.kill()
    asker.communicate()
    assert worker.alive
    assert (await attach(job_id).result())["counted"] == 100
    assert await gone(worker)


async def test_closing_ends_a_worker_that_hangs(toy: Worker, tmp_path: Path) -> None:
    asked = hanging(toy, tmp_path)
    worker = await written(tmp_path / "pid")
    await toy.close()
    assert not worker.alive
    with pytest.raises(WorkerError):
        await asyncio.wait_for(asked, 10)


async def test_a_query_is_stopped_and_the_next_one_answered(toy: Worker, tmp_path: Path) -> None:
    assert not toy.stop_queries()
    asked = hanging(toy, tmp_path)
    waiting = asyncio.ensure_future(toy.call("echo", {"n": 1}))
    worker = await written(tmp_path / "pid")
    assert toy.stop_queries()
    await stopped(asked, waiting)
    assert await toy.call("echo", {"n": 2}) == {"n": 2}
    assert await gone(worker)


async def test_a_worker_that_does_not_read_does_not_stop_who_asks(
    toy: Worker, tmp_path: Path
) -> None:
    """While native code keeps the interpreter's lock, a long request fills the pipe."""
    asked = hanging(toy, tmp_path)
    await written(tmp_path / "pid")
    behind = asyncio.ensure_future(toy.call("echo", {"text": "x" * 1_000_000}))
    async with asyncio.timeout(10):
        await asyncio.sleep(0.1)
    assert toy.stop_queries()
    await stopped(asked, behind)


async def test_a_query_is_stopped_beside_a_job_that_goes_on(toy: Worker, tmp_path: Path) -> None:
    job = await toy.submit("count", {"to": 50, "seconds": 0.02})
    asked = hanging(toy, tmp_path, locked=False)
    worker = await written(tmp_path / "pid")
    assert toy.stop_queries()
    await stopped(asked)
    assert await toy.call("echo", {"n": 2}) == {"n": 2}
    assert worker.alive
    assert (await job.result())["counted"] == 50
    assert await gone(worker)


async def test_a_query_that_takes_too_long_is_told_and_those_behind_it_may_wait(
    toy: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await toy.call("echo", {})  # the time that it takes to start is not what is looked at
    monkeypatch.setitem(client.LONG_QUERIES, "hang", 0.5)
    asked = hanging(toy, tmp_path)
    worker = await written(tmp_path / "pid")
    with pytest.raises(WorkerError, match="more than"):
        await asked
    assert await gone(worker)
    assert await toy.call("echo", {}) == {}


async def test_a_query_beyond_its_memory_is_an_error_and_the_worker_stays(toy: Worker) -> None:
    await toy.call("echo", {})
    pid = toy.pid
    assert (await toy.call("grow", {"bytes": 1 << 30}))["bytes"] == 1 << 30
    with pytest.raises(WorkerError, match="Memory ran out"):
        await toy.call("grow", {"bytes": bounds.QUERY_BYTES + (1 << 20)})
    assert toy.pid == pid
