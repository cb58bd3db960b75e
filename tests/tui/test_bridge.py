"""The workers of the workbench: who answers what, and what becomes of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from engine import Job, WorkerError
from engine.base.process import ProcessId
from engine.services.registry import QUERIES, TASKS
from engine.wire.devices import DEVICES_LIST, DeviceListParams
from engine.wire.method import Nothing
from engine.wire.model import WARM
from rknntui.app import Workbench
from rknntui.bridge import _PLACES, Bridge, in_background, place_of
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session
from tests.safety import PATIENCE

pytestmark = pytest.mark.usefixtures("own_workers")


@pytest_asyncio.fixture(loop_scope="session")
async def bridge(session_home: Path) -> AsyncIterator[Bridge]:
    made = Bridge(Session(lambda _: None), lambda _: None, lambda _: None)
    yield made
    await made.close()


def test_what_looks_at_boards_has_workers_of_its_own() -> None:
    assert place_of("build") == place_of("board.run") == "main"
    assert place_of("devices.perf") == "live"
    assert place_of("devices.list") not in (place_of("board.about"), "main")
    assert place_of("board.about") == place_of("monitor.watch") != "main"
    assert in_background("monitor.watch")
    assert in_background("devices.perf")


def test_every_method_with_a_place_is_one_of_the_engine() -> None:
    assert set(_PLACES) <= {*QUERIES, *TASKS}


async def test_the_list_is_answered_without_the_main_worker_and_after_a_crash(
    bridge: Bridge,
) -> None:
    await bridge.call(DEVICES_LIST, DeviceListParams())
    assert set(bridge._workers) == {"look"}
    pid = bridge._workers["look"].pid
    loaded = Path(f"/proc/{pid}/maps").read_text()
    assert not [name for name in ("/numpy/", "/onnx/", "/onnxruntime/") if name in loaded]
    os.kill(pid, signal.SIGKILL)
    try:
        await bridge.call(DEVICES_LIST, DeviceListParams())
    except WorkerError:  # it was asked before its end was known
        await bridge.call(DEVICES_LIST, DeviceListParams())
    assert bridge._workers["look"].pid not in (None, pid)
    assert bridge.state == "starting", "nothing is said of the main worker"


async def test_a_lost_worker_is_started_again_by_itself(session_home: Path) -> None:
    told: list[str] = []
    back = asyncio.Event()

    def publish(said: Any) -> None:
        told.append(said.state)
        if told[-2:] == ["lost", "ready"]:
            back.set()

    bridge = Bridge(Session(lambda _: None), publish, lambda _: None)
    await bridge.call(WARM, Nothing())
    worker = bridge._workers["main"]
    pid = worker.pid
    os.kill(pid, signal.SIGSTOP)
    asked = asyncio.ensure_future(bridge.call(WARM, Nothing()))
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerError):
        await asked
    await asyncio.wait_for(back.wait(), PATIENCE)
    assert worker.pid not in (None, pid)
    assert told == ["ready", "lost", "ready"]
    await bridge.close()
    assert told[-1] == "ready", "its end is no loss"


def test_a_job_in_the_background_is_not_the_one_that_runs() -> None:
    session = Session(lambda _: None)
    session.jobs.started(JobView("a", "build", "build", 0.0, state="done"))
    session.jobs.started(JobView("b", "monitor.watch", "watch", 0.0, background=True))
    assert session.running is None


async def test_what_holds_a_board_is_ended_before_the_process_is(tmp_path: Path) -> None:
    app = Workbench(state_kept=False)
    for method in ("devices.perf", "monitor.watch", "build"):
        folder = tmp_path / method
        folder.mkdir()
        app.bridge._jobs[method] = Job(folder, ProcessId.of(os.getpid()))
        view = JobView(method, method, method, 0.0, background=in_background(method))
        app.session.jobs.started(view)
    app._guard._last_words()  # as where the terminal was closed
    asked = {path.parent.name for path in tmp_path.glob("*/cancel")}
    assert asked == {"devices.perf", "monitor.watch"}
