"""A benchmark on a board, here a program of this machine that keeps to the agent's protocol."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.measure.benchmark import plan_benchmark, run_benchmark
from engine.devices.measure.benchmark_runs import measure_on
from engine.wire.board import BoardState, Temperature
from tests.devices.fake_agent import fake_agent
from tests.devices.fake_board import FakeBoard

INPUT = BoardInput(np.zeros((1, 2, 3, 4), np.uint8))
LOOKS = [
    BoardState(npu_clock=1_000_000_000, temperatures=(Temperature("npu-thermal", 40.0),)),
    BoardState(npu_clock=600_000_000, temperatures=(Temperature("npu-thermal", 41.0),)),
]


class Recorded(BoardRuntime):
    """Remembers what it was asked for."""

    asked: list[tuple[str, Any]]

    def open(self, model: Path, **settings: Any) -> Any:
        self.asked.append(("open", settings["core_mask"]))
        return super().open(model, **settings)

    def run(self, inputs: Any, **settings: Any) -> Any:
        self.asked.append(("run", (settings.get("warmup", 0), settings["loops"])))
        return super().run(inputs, **settings)


def test_points_on_a_board(board: FakeBoard, model: Path) -> None:
    looks = cycle(LOOKS)
    with closing(Recorded(board, fake_agent())) as runtime:
        runtime.asked = []
        measure = measure_on(runtime, {1: (model, [INPUT])}, lambda: next(looks))
        plan = plan_benchmark("rk3588", cores=["auto", "0_1"], threads=[1, 2], warmup=2, loops=4)
        first, second, third = list(run_benchmark(plan, measure))[:3]
        assert runtime.asked[:3] == [("open", None), ("run", (2, 4)), ("run", (2, 4))]
        assert runtime.asked[3:5] == [("open", 3), ("run", (2, 4))]
    assert list(first.times) == [100, 101, 102, 103]
    assert first.timings is not None
    assert first.timings.median == 101.5
    assert first.frames_per_second == pytest.approx(4 * 1e6 / 406)
    assert first.throttled
    assert second.before.celsius == {"npu-thermal": 40.0}
    assert third.after.clocks == {"NPU": 600_000_000}


def test_seconds_become_runs(board: FakeBoard, model: Path) -> None:
    with closing(Recorded(board, fake_agent())) as runtime:
        runtime.asked = []
        measure = measure_on(runtime, {1: (model, [INPUT])}, BoardState)
        plan = plan_benchmark("rk3588", warmup=3, seconds=0.001)
        (result,) = run_benchmark(plan, measure)
        # 1000 us at 101 us a run
        assert runtime.asked[1:] == [("run", (0, 3)), ("run", (0, 10))]
    assert result.timings is not None
    assert result.timings.count == 10


def test_a_refused_choice_of_cores_is_one_point(talking: FakeBoard, model: Path) -> None:
    refusal = {"open": {"what": "rknn_set_core_mask: -5", "kind": "runtime library"}}
    with closing(BoardRuntime(talking, fake_agent(refuse=refusal))) as runtime:
        measure = measure_on(runtime, {1: (model, [INPUT])}, BoardState)
        plan = plan_benchmark("rk3588", cores=["0", "1"])
        results = list(run_benchmark(plan, measure))
    assert ["rknn_set_core_mask" in result.failed for result in results] == [True, True]


def slower(asked: int, loops: int) -> list[float]:
    """What a run takes during the warm-up says little of the runs behind it."""
    return [100_000.0 if asked > 2 else 1_000.0] * loops


def uneven(_asked: int, loops: int) -> list[float]:
    """The median of a few runs to warm up says little of the mean, which takes the time."""
    return [100.0 if number % 8 else 5_000.0 for number in range(1, 1 + loops)]


@pytest.mark.parametrize(
    ("times", "warmup", "seconds", "most"), [(slower, 3, 15, 15.1), (uneven, 5, 2, 2.2)]
)
def test_seconds_are_kept(
    board: FakeBoard, model: Path, times: Any, warmup: int, seconds: int, most: float
) -> None:
    class Timed(Recorded):
        def run(self, inputs: Any, **settings: Any) -> Any:
            found = super().run(inputs, **settings)
            taken = times(len(self.asked), settings["loops"])
            return replace(found, wall_us=taken, elapsed_us=sum(taken))

    with closing(Timed(board, fake_agent())) as runtime:
        runtime.asked = []
        measure = measure_on(runtime, {1: (model, [INPUT])}, BoardState)
        plan = plan_benchmark("rk3588", warmup=warmup, seconds=seconds)
        found = measure(plan.cells[0], plan)
    assert found.elapsed is not None
    assert seconds * 1e6 <= found.elapsed <= most * 1e6
    loops = [asked[1] for asked in runtime.asked[2:]]
    if times is slower:
        # the first part is 50 ms of the warm-up's runs, and takes a hundred times as long
        assert loops[:3] == [(0, 50), (0, 1), (0, 2)]
        assert len(loops) < 30
