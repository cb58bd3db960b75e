"""The runs of a benchmark on a board that is connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.text import sanitize
from engine.devices.measure.benchmark import BenchmarkPlan, Cell, CellTimes, Measure, loops_for
from engine.devices.measure.conditions import Reading, State
from engine.devices.probe.clocks import clock_paths, clock_plan
from engine.devices.probe.state import once_paths, parse, watch_paths
from engine.wire.board import BoardState

if TYPE_CHECKING:
    from engine.devices.board.runtime import BoardRuntime
    from engine.devices.board.tensors import BoardInput

__all__ = ["fix_clocks_of", "measure_on", "state_by_agent"]


def measure_on(
    runtime: BoardRuntime,
    models: Mapping[int, tuple[Path, Sequence[BoardInput]]],
    look: Callable[[], State],
) -> Measure:
    """What measures a point of a grid on a board.

    The model is loaded anew for every choice of cores; times are those of the board's own clock
    around each inference. Outputs are not fetched.

    Args:
        runtime: of the board.
        models: batch -> the model that is built for it, and its inputs; one for each batch of the
            plan's points.
        look: reads the board's state.
    """
    loaded: list[tuple[str, int]] = []

    def measure(cell: Cell, plan: BenchmarkPlan) -> CellTimes:
        model, inputs = models[cell.batch]
        if loaded != [(cell.cores, cell.batch)] or runtime.opened is None:
            loaded.clear()
            # a chip with one core has no call for it
            runtime.open(model, core_mask=None if cell.cores == "auto" else cell.core_mask)
            loaded.append((cell.cores, cell.batch))
        warmup, loops = plan.warmup, plan.loops
        if loops is None:
            first = runtime.run(inputs, loops=max(warmup, 1), threads=cell.threads, outputs=False)
            # of every thread the same number of runs
            loops, warmup = loops_for(plan.seconds or 0.0, first.wall_us), 0
        before = Reading.of(look())
        found = runtime.run(inputs, warmup=warmup, loops=loops, threads=cell.threads, outputs=False)
        after = Reading.of(look())
        return CellTimes(found.wall_us, before, after, found.elapsed_us or None)

    return measure


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
