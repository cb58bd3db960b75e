from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import (
    DatasetError,
    InternalError,
    JobCancelledError,
    UsageError,
    WorkerError,
)
from engine.base.events import Finished, LogLine, Partial, Progress, StageStarted
from engine.base.process import ProcessId, child_environment
from engine.jobs import history
from engine.jobs.client import Worker, run_job
from engine.jobs.job import attach
from engine.jobs.record import read_json
from tests.jobs.conftest import TOY, AnyJob, asking, begun, fails, gone, signalled
from tests.safety import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


async def test_queries_run_beside_a_job_and_long_answers_arrive(toy: Worker) -> None:
    job = await toy.submit("count", {"to": 40, "seconds": 0.02})
    assert await toy.call("echo", {"a": [1, "ü\x1b"]}) == {"a": [1, "ü\x1b"]}
    numbers = await toy.call("numbers")
    assert numbers["nan"] is None
    assert numbers["inf"] == [None, 1.5]
    assert len(numbers["long"]) == 3_000_000
    assert history.job_record(job.id).state == "running"
    assert (await job.result())["counted"] == 40


async def test_a_job_tells_events_in_order_and_leaves_a_record(toy: Worker) -> None:
    job = await toy.submit("count", {"to": 3})
    events = [e async for e in job.events()]
    result = await job.result()
    assert events[0] == StageStarted("count", "Counting", 0, 1)
    assert [e.text for e in events if isinstance(e, LogLine)] == ["step 1", "step 2", "step 3"]
    assert Progress("count", 3, 3) in events
    assert isinstance(events[-1], Finished)
    assert events[-1].state == "done"
    assert result["counted"] == 3

    record = history.job_record(job.id)
    assert (record.state, record.method) == ("done", "count")
    assert record.summary is not None
    assert "many" not in record.summary  # the list of jobs stays short
    assert record.params == {"to": 3}
    assert history.read_result(job.id) == result
    assert [e for _, e in history.read_events(job.id)] == events
    log = history.read_log(job.id)
    assert "noise on stdout" in log
    assert "noise of native code" in log


async def test_errors_arrive_as_raised_and_mistakes_name_their_log(toy: Worker) -> None:
    with pytest.raises(DatasetError) as caught:
        await toy.call("fail")
    assert (caught.value.cause, caught.value.remedy) == ("a typo", "correct it")
    with pytest.raises(UsageError, match="no method"):
        await toy.call("ehco")
    with pytest.raises(InternalError) as mistake:
        await toy.call("crash")
    log = Path(mistake.value.remedy.split("log file ")[1].rstrip("."))
    assert "ZeroDivisionError: a mistake" in log.read_text()
    job = await toy.submit("broken", {})
    assert "Traceback" not in str(await fails(job, InternalError))
    assert "KeyError" in history.read_log(job.id)


async def test_a_worker_that_died_is_told_and_replaced(toy: Worker) -> None:
    with pytest.raises(WorkerError, match="SIGABRT"):
        await toy.call("die")
    assert await toy.call("echo", {"again": True}) == {"again": True}


async def test_a_worker_that_cannot_start_says_why() -> None:
    worker = await Worker.start(module="tests.jobs.no_such_worker")
    with pytest.raises(WorkerError, match="exit code 1") as caught:
        await worker.call("echo")
    assert "No module named tests.jobs.no_such_worker" in caught.value.cause
    await worker.close()


async def test_jobs_run_one_at_a_time_in_order(toy: Worker) -> None:
    jobs = [await toy.submit("count", {"to": 5, "seconds": 0.02}) for _ in range(3)]
    await asyncio.gather(*(job.result() for job in jobs))
    spans = [[t for t, _ in history.read_events(job.id)] for job in jobs]
    for first, second in itertools.pairwise(spans):
        assert first[-1] <= second[0]


async def test_cancel_is_cooperative_first(toy: Worker) -> None:
    job = await toy.submit("count", {"to": 10_000, "seconds": 0.01})
    await asyncio.sleep(0.1)
    pid = toy.pid
    await job.cancel()
    await fails(job, JobCancelledError)
    assert toy.pid == pid  # the worker stays warm
    assert history.job_record(job.id).state == "cancelled"
    assert [e async for e in job.events()][-1].state == "cancelled"  # type: ignore[union-attr]


async def test_a_dropped_job_ends_and_its_worker_stays_whatever_it_does(toy: Worker) -> None:
    """Unlike a cancelled one: twice the same, and what does not listen is not terminated."""
    await toy.call("echo", {})
    pid = toy.pid
    job = await toy.submit("count", {"to": 10_000, "seconds": 0.01})
    job.discard()
    job.discard()
    await fails(job, JobCancelledError)
    deaf = await toy.submit("stubborn", {"seconds": 0.4})
    deaf.discard()
    await asyncio.wait([asyncio.ensure_future(deaf.result())])
    assert (await toy.call("echo", {"n": 1})) == {"n": 1}
    assert toy.pid == pid


async def test_a_search_pauses_goes_on_and_gives_its_best_when_told(toy: Worker) -> None:
    job = await toy.submit("search", {})
    record = job.folder / "events.jsonl"
    job.pause()
    await asyncio.sleep(0.3)
    paused = record.stat().st_size
    await asyncio.sleep(0.2)
    assert record.stat().st_size == paused
    job.resume()
    found = []
    async for event in job.events():
        if isinstance(event, Partial):
            found.append(event.data["best"])
            if len(found) == 5:
                job.pause()
                job.finish()  # a paused search hears it too
    assert found == list(range(1, len(found) + 1))
    assert (await job.result())["best"] >= 5


async def test_cancel_of_a_waiting_job(toy: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is over at once, also where it is asked twice, and the one before it goes on."""
    monkeypatch.setattr("engine.jobs.job.LADDER_SECONDS", 0.05)
    first = await toy.submit("stubborn", {"seconds": 0.6})
    assert isinstance(await anext(first.events()), StageStarted)
    second = await toy.submit("count", {"to": 20, "seconds": 0.02})
    assert (first.waiting, second.waiting) == (False, True)
    await second.cancel()
    await second.cancel()
    await fails(second, JobCancelledError)
    assert [event async for event in second.events()][-1].state == "cancelled"  # type: ignore[union-attr]
    assert [one.state for one in history.list_jobs(2)] == ["cancelled", "running"]
    assert await first.result() == {}
    assert (await toy.call("echo", {"n": 1})) == {"n": 1}
    assert history.read_log(second.id) == ""


@pytest.fixture
async def left() -> tuple[AnyJob, ProcessId]:
    """A job that runs on, and its worker, whose front end is gone."""
    worker = await Worker.start(module=TOY)
    job, _ = await begun(worker, "stubborn")
    assert worker.pid
    process = ProcessId.of(worker.pid)
    await worker.close()
    return job, process


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals that are sent to workers, in order; they are sent."""
    sent: list[int] = []
    send = ProcessId.send

    def noted(process: ProcessId, number: signal.Signals) -> None:
        sent.append(number)
        send(process, number)

    monkeypatch.setattr(ProcessId, "send", noted)
    return sent


async def test_cancel_terminates_what_does_not_listen(
    toy: Worker, signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once: there are steps between, in which the job may end by itself."""
    steps: list[list[int]] = []
    sleep = asyncio.sleep

    async def step(seconds: float) -> None:
        steps.append(list(signals))
        await sleep(seconds)

    job, _ = await begun(toy, "stubborn")
    monkeypatch.setattr("engine.jobs.job.asyncio.sleep", step)
    async with asyncio.timeout(PATIENCE):
        await job.cancel()
        await fails(job, JobCancelledError)
    assert signals == [signal.SIGTERM]
    assert steps.count([]) > 5
    assert history.job_record(job.id).state == "cancelled"


async def test_a_second_cancel_kills_at_once(
    toy: Worker, signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.jobs.job.LADDER_SECONDS", 3600)  # nothing else ends it
    job, _ = await begun(toy, "native")
    async with asyncio.timeout(PATIENCE):
        await job.cancel()
        await job.cancel()
        await fails(job, JobCancelledError)
    assert signals == [signal.SIGKILL]
    assert history.job_record(job.id).state == "cancelled"
    assert (await toy.call("echo", {"n": 1})) == {"n": 1}


async def test_what_follows_a_killed_job_is_asked_of_another_worker(toy: Worker) -> None:
    """Also before anybody has seen that the worker is gone."""
    job, _ = await begun(toy, "native")
    async with asyncio.timeout(PATIENCE):
        await job.cancel()
        await job.cancel()
        assert (await toy.call("echo", {"n": 1})) == {"n": 1}
        await fails(job, JobCancelledError)


async def test_a_killed_worker_is_told_with_its_stage(toy: Worker) -> None:
    job, events = await begun(toy, "stubborn")
    signalled(toy, signal.SIGKILL)
    last = [e async for e in events][-1]
    assert isinstance(last, Finished)
    assert last.state == "failed"
    error = await fails(job, WorkerError, "SIGKILL")
    assert "Being stubborn" in error.what
    assert "out of memory" in error.cause
    record = history.job_record(job.id)
    assert record.state == "lost"
    assert record.error is not None
    assert "Being stubborn" in record.error["what"]


async def test_a_worker_that_cannot_tell_how_a_job_ended_ends(toy: Worker) -> None:
    job = await toy.submit("untellable", {})
    async with asyncio.timeout(PATIENCE):
        await fails(job, WorkerError)
    assert "no memory for the error" in history.read_log(job.id)
    assert (await toy.call("echo", {"n": 1})) == {"n": 1}  # by a new one


async def test_who_waits_for_a_killed_worker_hears_of_it_where_memory_is_short(
    toy: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = [MemoryError("no memory")]

    def read(path: Path) -> dict[str, Any] | None:
        if short:
            raise short.pop()
        return read_json(path)

    job, _ = await begun(toy, "stubborn")
    monkeypatch.setattr("engine.jobs.job.read_json", read)
    signalled(toy, signal.SIGKILL)
    async with asyncio.timeout(10):
        await fails(job, WorkerError)
    assert not short


async def test_a_worker_told_to_end_writes_that_down(toy: Worker) -> None:
    job, events = await begun(toy, "stubborn")
    signalled(toy, signal.SIGTERM)
    assert [e async for e in events][-1].state == "failed"  # type: ignore[union-attr]
    await fails(job, WorkerError, "SIGTERM")
    assert history.job_record(job.id).state == "failed"


async def test_an_idle_worker_ends_with_its_client(toy: Worker) -> None:
    assert await toy.call("echo", {}) == {}
    assert toy.pid
    process = ProcessId.of(toy.pid)
    await toy.close()
    assert await gone(process)


CLIENT = """
import asyncio, sys
from engine.jobs.client import Worker
async def main():
    worker = await Worker.start(module="tests.jobs.toy_worker")
    job = await worker.submit("count", {"to": 60, "seconds": 0.02, "touch": sys.argv[1]})
    print(job.id, worker.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_a_job_outlives_its_client_and_sighup_and_is_reattached(tmp_path: Path) -> None:
    done = tmp_path / "done"
    client = asking(CLIENT, str(done))
    assert client.stdout is not None
    job_id, pid = client.stdout.readline().split()
    process = ProcessId.of(int(pid))
    client.kill()
    client.communicate()
    process.send(signal.SIGHUP)
    assert [r.id for r in history.list_jobs()] == [job_id]
    job = attach(job_id)
    events = [e async for e in job.events()]
    assert LogLine("step 60") in events
    assert (await job.result())["counted"] == 60
    assert done.read_text() == "done"
    assert await gone(process)


async def test_a_reattached_job_can_be_cancelled(left: tuple[AnyJob, ProcessId]) -> None:
    submitted, process = left
    job = attach(submitted.id)
    await job.cancel()
    await fails(job, JobCancelledError)
    assert await gone(process)
    await fails(submitted, JobCancelledError)  # the first handle sees the same end


async def test_a_reattached_job_that_is_lost_is_told(left: tuple[AnyJob, ProcessId]) -> None:
    submitted, process = left
    job = attach(submitted.id)
    events = job.events()
    assert isinstance(await anext(events), StageStarted)
    process.send(signal.SIGKILL)
    assert [e async for e in events][-1].state == "failed"  # type: ignore[union-attr]
    await fails(job, WorkerError, "Being stubborn")
    assert history.job_record(job.id).state == "lost"


async def test_two_clients_share_a_state_folder() -> None:
    workers = [await Worker.start(module=TOY) for _ in range(2)]
    jobs = [await w.submit("count", {"to": 5}) for w in workers for _ in range(10)]
    await asyncio.gather(*(job.result() for job in jobs))
    records = history.list_jobs()
    assert {r.id for r in records} == {j.id for j in jobs}
    assert {r.state for r in records} == {"done"}
    for worker in workers:
        await worker.close()


async def test_old_records_go_and_running_ones_stay(
    toy: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.jobs import record

    running = await toy.submit("count", {"to": 100, "seconds": 0.02})
    for _ in range(3):
        recorder = record.new_record()
        recorder.start("count", "old", {})
        recorder.end("done", result={})
    record.prune(record.jobs_folder(), keep=1)
    left = {r.id for r in history.list_jobs()}
    assert running.id in left
    assert len(left) == 2
    await running.cancel()
    await fails(running, JobCancelledError)


async def test_effects_of_keys_push_no_job_out_of_the_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from engine.jobs import record

    monkeypatch.setattr(record, "_KEEP_PASSING", 2)
    for method in ("build", *["hybrid.effect"] * 5):
        recorder = record.new_record()
        recorder.start(method, "old", {})
        recorder.end("done", result={})
    record.prune(record.jobs_folder(), keep=3)
    assert len([p for p in record.jobs_folder().iterdir() if p.is_dir()]) == 3
    assert [r.method for r in history.list_jobs()] == ["build"]


async def test_a_state_folder_that_cannot_be_written_does_not_stop_a_job(
    toy: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    job = await toy.submit("count", {"to": 2})
    assert LogLine("step 2") in [e async for e in job.events()]
    assert (await job.result())["counted"] == 2


async def test_nothing_of_the_current_folder_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = "import pathlib\npathlib.Path(__file__).with_suffix('.sprung').touch()\n"
    for name in (
        "onnx.py",
        "themes.py",
        "json.py",
        "sitecustomize.py",
        "numpy.py",
        "engine/__init__.py",
        "engine/jobs/__init__.py",
        "engine/jobs/worker.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trap)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", os.environ.get("PYTHONPATH", "")]))
    worker = await Worker.start()
    assert (await worker.call("ping"))["pid"] == worker.pid
    await worker.call("warm")  # numpy, onnx and all that
    await worker.close()
    seen = await Worker.start(module=TOY)
    found = await seen.call("where")
    assert Path(found["engine"]).parent.parent == ROOT
    assert str(tmp_path) not in found["path"]
    await seen.close()
    assert list(tmp_path.rglob("*.sprung")) == []


def test_the_blocking_twin() -> None:
    with pytest.raises(UsageError, match="recipe"):
        run_job("build", {})


def test_the_environment_of_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"PYTHONPATH": os.pathsep.join(["", "relative", "/absolute"]), "HOME": "/home/x"}
    made = child_environment(given)
    assert made["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/absolute"]
    assert made["OMP_NUM_THREADS"] == "1"
    assert made["ORT_DISABLE_TELEMETRY"] == "1"
    assert json.dumps(given)  # the given mapping is not changed
    assert given["PYTHONPATH"].startswith(os.pathsep)


def test_a_process_is_not_mistaken_for_a_later_one() -> None:
    me = ProcessId.of(os.getpid())
    assert me.alive
    assert not ProcessId(me.pid, me.started + 1, me.boot).alive
    assert not ProcessId(me.pid, me.started, "another boot").alive
    assert not ProcessId(me.pid, me.started + 1, me.boot).send(signal.SIGKILL)
    assert not ProcessId.from_dict({"pid": "x"}).alive
