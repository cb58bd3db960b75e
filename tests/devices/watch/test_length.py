"""A watch of hours: neither the job's record nor memory grows with it."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

import pytest

from engine.base.events import Finished, LogLine
from engine.devices.watch import watch
from engine.devices.watch.recording import Recorder
from engine.devices.watch.watch import replay_recording
from engine.jobs import live
from engine.jobs.client import Worker
from engine.jobs.job import attach
from engine.jobs.record import new_record
from engine.wire.board import BoardFacts, BoardState, SystemMemory
from engine.wire.monitor import BOARD, MONITOR_REPLAY, SAMPLE, BoardSample, ReplayParams
from tests.safety import PATIENCE

STATE = BoardState(npu_load=(1.0, 2.0, 3.0), npu_clock=10**9, memory=SystemMemory(1 << 33, 1 << 32))


def recorded(path: Path, samples: int) -> Path:
    """A recording at 10 Hz."""
    recorder = Recorder(path, 10.0, force=False)
    recorder.write(BoardFacts("adb:x", "emulated", "rk3588", cores=3))
    for number in range(samples):
        recorder.write(BoardSample("adb:x", number / 10, STATE))
    recorder.close(samples / 10)
    return path


async def stands_still(folder: Path) -> bool:
    """Whether nothing is told any more, where ten samples a second were."""
    for _ in range(PATIENCE):
        before = [path.stat().st_size for path in sorted(folder.glob("live.*"))]
        await asyncio.sleep(1.0)
        if before == [path.stat().st_size for path in sorted(folder.glob("live.*"))]:
            return True
    return False


@pytest.mark.long
def test_neither_disk_nor_memory_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LIVE_BYTES", 64 << 10)
    monkeypatch.setattr(watch, "_MOST_A_SECOND", 1e9)
    sizes = {}
    for samples in (2_000, 20_000):
        path = recorded(tmp_path / str(samples), samples)
        recorder = new_record()
        tracemalloc.start()
        found = replay_recording(ReplayParams(str(path), speed=0), recorder)
        grown = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        recorder.end("done")
        assert found.boards[0].samples == samples
        files = sum(each.stat().st_size for each in recorder.folder.iterdir())
        assert files < 200 << 10
        sizes[samples] = grown
    assert sizes[20_000] < sizes[2_000] + (1 << 20)


@pytest.mark.long
async def test_a_job_tells_all_and_is_paused_finished_and_found_again(tmp_path: Path) -> None:
    worker = await Worker.start()
    try:
        path = recorded(tmp_path / "a", 3000)
        job = await worker.submit(MONITOR_REPLAY, ReplayParams(str(path), speed=0))
        events = [event async for event in job.events()]
        samples = [sample for event in events if (sample := SAMPLE.of(event)) is not None]
        assert samples == [BoardSample("adb:x", number / 10, STATE) for number in range(3000)]
        assert BOARD.of(events[1]) is not None
        assert isinstance(events[-1], Finished)
        assert not [event for event in events if isinstance(event, LogLine)]
        assert (await job.result()).seconds == 300.0

        slow = await worker.submit(MONITOR_REPLAY, ReplayParams(str(path)))
        found, at = attach(slow.id), -1.0
        async for event in found.events():
            if (sample := SAMPLE.of(event)) is not None and at < 0:
                at = sample.at
                slow.pause()
                assert await stands_still(slow.folder)
                slow.finish()
                slow.resume()
        assert at >= 0
        assert (await slow.result()).seconds < 250, "it was asked to finish"
    finally:
        await worker.close()
