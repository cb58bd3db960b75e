"""The runs of a benchmark on a board that is connected."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.text import sanitize
from engine.devices.measure.benchmark import (
    BenchmarkPlan,
    Cell,
    CellTimes,
    Measure,
    Reading,
    loops_for,
)
from engine.devices.probe.clocks import clock_paths, clock_plan
from engine.devices.probe.state import once_paths, parse, watch_paths
from engine.wire.board import BoardState

if TYPE_CHECKING:
    from engine.devices.board.results import RunResult
    from engine.devices.board.runtime import BoardRuntime
    from engine.devices.board.tensors import BoardInput

_FIRST_PART_US, _PART_US = 50e3, 500e3
_MOST_PARTS = 20
"""Of a long measurement, beside the first ones: an old board loads the model for each part."""


Told = Callable[[Cell, CellTimes], bool]
"""Shown what was measured so far, after each part of a long measurement; whether it loaded another
model meanwhile."""


def measure_on(
    runtime: BoardRuntime,
    models: Mapping[int, tuple[Path, Sequence[BoardInput]]],
    look: Callable[[], BoardState],
    told: Told | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> Measure:
    """What measures a point of a grid on a board.

    The model is loaded anew for every choice of cores; times are those of the board's own clock
    around each inference. Outputs are not fetched.

    Args:
        runtime: of the board.
        models: batch -> the model that is built for it, and its inputs; one for each batch of the
            plan's points.
        look: reads the board's state.
        told: of a measurement that has a time.
        enough: asked whether such a measurement is to end before its time.
    """
    loaded: list[tuple[str, int]] = []

    def measure(cell: Cell, plan: BenchmarkPlan) -> CellTimes:
        model, inputs = models[cell.batch]

        def load() -> None:
            loaded.clear()
            # a chip with one core has no call for it
            runtime.open(model, core_mask=None if cell.cores == "auto" else cell.core_mask)
            loaded.append((cell.cores, cell.batch))

        if loaded != [(cell.cores, cell.batch)] or runtime.opened is None:
            load()
        run = partial(runtime.run, inputs, threads=cell.threads, outputs=False)
        if plan.loops is not None:
            before = Reading.of(look())
            result = run(warmup=plan.warmup, loops=plan.loops)
            after = Reading.of(look())
            return CellTimes(result.wall_us, before, after, result.elapsed_us or None)
        first = run(loops=max(plan.warmup, 1))
        before = Reading.of(look())

        def go_on(times: Sequence[float], elapsed: float) -> bool:
            if told is not None:
                so_far = CellTimes(times, before, Reading.of(look()), elapsed)
                if told(cell, so_far):
                    load()
            return not enough()

        # parts cost nothing where the model stays: a board of generation 1 loads it for each
        stays = runtime.opened is not None and runtime.opened.generation != 1
        most = _PART_US if told is not None and stays else None
        duration = (plan.seconds or 0.0) * 1e6
        times, elapsed = _run_for(run, duration, cell.threads, first.wall_us, go_on, most)
        after = Reading.of(look())
        return CellTimes(times, before, after, elapsed)

    return measure


def _run_for(
    run: Callable[..., RunResult],
    duration: float,
    threads: int,
    warmup: Sequence[float],
    go_on: Callable[[Sequence[float], float], bool],
    most: float | None,
) -> tuple[Sequence[float], float]:
    """Run for so many microseconds of the board's clock; its times, and how long it was.

    In parts, short ones first: what a run takes is learned by them, as few runs to warm up are
    faster or slower than most. A board that becomes slower overruns by one part. ``go_on`` is shown
    the times after each, and may end it; ``most`` is the longest part.
    """
    times = array("d")  # of a soak of hours there are millions
    elapsed, part = 0.0, _FIRST_PART_US
    usual = sorted(warmup)
    while elapsed < duration:
        # of every thread the same number of runs
        result = run(loops=loops_for(min(part, duration - elapsed) / 1e6, usual))
        times.extend(result.wall_us)
        took = max(result.elapsed_us, sum(result.wall_us) / threads, 1.0)
        elapsed += took
        if not go_on(times, elapsed):
            break
        part = min(2 * part, most or max(_PART_US, duration / _MOST_PARTS))
        last, all_of_them = took / max(len(result.wall_us), 1), elapsed / max(len(times), 1)
        usual = [threads * max(last, all_of_them)]
    return times, elapsed


def fix_clocks_of(runtime: BoardRuntime, chip: str | None) -> list[str]:
    """Set the clocks that the vendor's script sets; a sentence for each that stays as it is.

    They are restored by :meth:`BoardRuntime.restore_clocks`, or when the runtime is closed.

    Raises:
        DeviceError: the board has gone or does not answer.
    """
    plan = clock_plan(chip, runtime.read(clock_paths(chip)) if chip else {})
    notes = []
    if plan.values:
        refused = runtime.fix_clocks(plan.values).refused
        notes += [f"{sanitize(path)} was not set: {sanitize(why)}." for path, why in refused]
    notes += [f"The clock of {what} was not fixed: {why}." for what, why in plan.not_adjustable]
    return notes


def state_by_agent(runtime: BoardRuntime, chip: str | None) -> BoardState:
    """One look at a board by the agent that is there already, in one request.

    Raises:
        DeviceError: the board has gone or does not answer.
    """
    return parse(runtime.read((*once_paths(chip), *watch_paths(chip))), chip)
