"""A benchmark on a board: what is measured in which order, and what the times say.

Who runs a model is handed in (:data:`Measure`), so that recorded times serve as well as a board.
Nothing is corrected: a clock that fell, a warm chip and runs far outside are notes beside the
figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.base.errors import DeviceError, RuntimeLibraryError, UsageError
from engine.base.text import did_you_mean, sanitize
from engine.devices.measure.perf_report import Clocks
from engine.devices.measure.timings import Timings, percentile, timings_of
from engine.devices.probe.versions import MINI_CHIPS
from engine.facts import Chip, chip, chips
from engine.wire.board import HOT, BoardState
from engine.wire.devices import CORES

_CLOCK_CHANGE = 0.05
_WARMER = 10.0
_BUSY = 5.0


@dataclass(frozen=True)
class Reading:
    """What the board said of itself at one moment; parts that it does not tell are not in it.

    Attributes:
        clocks: part (``NPU``, ``DDR``, ``CPU policy0``) -> Hz.
        celsius: zone -> temperature.
        load: of the NPU's cores, in percent.
        limits: zone -> the board's own trip point; others have the documented limit.
    """

    clocks: Mapping[str, int] = field(default_factory=dict)
    celsius: Mapping[str, float] = field(default_factory=dict)
    load: tuple[float, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, state: BoardState) -> Reading:
        """From what the monitor reads."""
        clocks = {"NPU": state.npu_clock, "DDR": state.ddr_clock}
        zones = state.temperatures or ()
        clocks |= {f"CPU {policy}": hertz for policy, hertz in state.cpu_clocks or ()}
        return cls(
            clocks={part: hertz for part, hertz in clocks.items() if hertz},
            celsius={zone.zone: zone.celsius for zone in zones},
            load=state.npu_load or (),
            limits={zone.zone: zone.throttled for zone in zones if zone.throttled is not None},
        )

    def listed(self) -> tuple[Clocks, ...]:
        """The clocks as ``eval_perf`` lists them: groups of the CPU together, then NPU and DDR;
        a part that does not tell has none.
        """
        cpu = tuple(hertz for part, hertz in self.clocks.items() if part.startswith("CPU"))
        others = (Clocks(part, _known(self.clocks.get(part))) for part in ("NPU", "DDR"))
        return (Clocks("CPU", cpu), *others)


def _known(hertz: int | None) -> tuple[int, ...]:
    return () if hertz is None else (hertz,)


def changes(before: Reading, after: Reading) -> tuple[bool, list[str]]:
    """Whether a clock fell, and what changed on the board.

    A clock counts as changed by more than 5 %; a zone is told where it got warmer by more than 10
    °C or is at its limit, a load before where it is above 5 %.
    """
    fell = False
    notes: list[str] = []
    for part, then in before.clocks.items():
        now = after.clocks.get(part)
        if now is None or not then or abs(now - then) <= _CLOCK_CHANGE * then:
            continue
        fell = fell or now < then
        way = "fell" if now < then else "rose"
        why = "it was throttled, or is not fixed" if now < then else "it is not fixed"
        notes.append(
            f"The clock of {sanitize(part, 40)} {way} from {then / 1e6:.0f} to {now / 1e6:.0f} MHz "
            f"while it ran: {why}."
        )
    for zone, warm in after.celsius.items():
        cool = before.celsius.get(zone)
        if cool is not None and warm - cool > _WARMER:
            notes.append(f"{sanitize(zone, 40)} rose from {cool:.0f} to {warm:.0f} °C.")
        elif warm >= after.limits.get(zone, HOT):
            notes.append(f"{sanitize(zone, 40)} is at {warm:.0f} °C.")
    if before.load and max(before.load) > _BUSY:
        notes.append(f"The NPU was {max(before.load):.0f} % busy before: something else uses it.")
    return fell, notes


CORE_MASKS: Final[Mapping[str, int]] = dict(zip(CORES, (0, 1, 2, 4, 3, 7, 0xFFFF), strict=True))
"""Choice of cores -> ``core_mask`` of ``init_runtime`` [RKNN-T2 2.3.0, 2.7]."""

_MOST_CELLS = 500
_MOST_LOOPS = 100_000
_DRIFT = 0.05
_THIRD = 10


@dataclass(frozen=True)
class Cell:
    """One point of the grid.

    Attributes:
        cores: which cores run the model, a key of :data:`CORE_MASKS`.
        batch: frames of one run; the model is built for it.
        threads: that run the model at the same time, each with its own context.
    """

    cores: str
    batch: int
    threads: int

    @property
    def core_mask(self) -> int:
        """As the runtime takes it."""
        return CORE_MASKS[self.cores]

    def __str__(self) -> str:
        return f"cores {self.cores}, batch {self.batch}, threads {self.threads}"


@dataclass(frozen=True)
class LeftOut:
    """A point of the grid that cannot be measured, and why."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class BenchmarkPlan:
    """What is measured.

    Attributes:
        chip: that the model is for.
        warmup: runs before those that count.
        loops: runs that count, per thread; None where ``seconds`` says it.
        seconds: how long to run; None where ``loops`` says it.
        cells: in the order in which they are measured: by cores, then batch, then threads.
        left_out: the rest of the grid.
    """

    chip: str
    warmup: int
    loops: int | None
    seconds: float | None
    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class CellTimes:
    """What was measured at one point.

    Attributes:
        times: microseconds of every run that counts, in their order.
        before, after: the board, before the runs and after them.
        elapsed: microseconds from the first of these runs to the end of the last, of all threads
            together; None where it was not measured.
    """

    times: Sequence[float]
    before: Reading = field(default_factory=Reading)
    after: Reading = field(default_factory=Reading)
    elapsed: float | None = None


Measure = Callable[[Cell, BenchmarkPlan], CellTimes]
"""Runs the model at one point: warms up, then runs as often or as long as the plan says. Raises
what a board raises."""


@dataclass(frozen=True)
class CellResult:
    """What the times of one point say.

    Attributes:
        cell: which point.
        timings: None where it failed.
        frames_per_second: of all threads together; None where it is not known.
        before, after: the board.
        throttled: whether a clock fell while it ran.
        notes: what is to be known of the figures.
        failed: why there are none; empty where there are.
        times: as measured, in microseconds.
    """

    cell: Cell
    timings: Timings | None
    frames_per_second: float | None = None
    before: Reading = field(default_factory=Reading)
    after: Reading = field(default_factory=Reading)
    throttled: bool = False
    notes: tuple[str, ...] = ()
    failed: str = ""
    times: tuple[float, ...] = ()


def plan_benchmark(
    target: str,
    *,
    cores: Sequence[str] = ("auto",),
    batches: Sequence[int] = (1,),
    threads: Sequence[int] = (1,),
    warmup: int = 5,
    loops: int | None = None,
    seconds: float | None = None,
) -> BenchmarkPlan:
    """The points of the grid ``cores`` x ``batches`` x ``threads``, without those that cannot be.

    Numbers are within the bounds of :class:`engine.wire.devices.PerfParams`.

    Args:
        target: name of the chip.
        cores: keys of :data:`CORE_MASKS`.
        batches: of the models that there are.
        threads: how many.
        warmup: runs before those that count.
        loops: runs that count; 50 where neither it nor ``seconds`` is given.
        seconds: how long to run, in place of ``loops``.

    Raises:
        UsageError: an argument that no board could take.
    """
    facts = chip(target)
    if facts is None:
        raise UsageError(
            f"There is no chip {sanitize(target, 40)!r}.",
            remedy=did_you_mean(target, [entry.name for entry in chips()]),
        )
    if loops is not None and seconds is not None:
        raise UsageError("Give either loops or seconds.", remedy="Leave one of them out.")
    if loops is None and seconds is None:
        loops = 50
    grid = [
        Cell(name, batch, number)
        for name in dict.fromkeys(cores)
        for batch in dict.fromkeys(batches)
        for number in dict.fromkeys(threads)
    ]
    if not 0 < len(grid) <= _MOST_CELLS:
        raise UsageError(
            f"A grid of {len(grid)} points cannot be measured.",
            remedy=f"Choose from 1 to {_MOST_CELLS} points.",
        )
    reasons = [(cell, _impossible(cell, facts)) for cell in grid]
    return BenchmarkPlan(
        facts.name,
        warmup,
        loops,
        seconds,
        tuple(cell for cell, reason in reasons if not reason),
        tuple(LeftOut(cell, reason) for cell, reason in reasons if reason),
    )


def _impossible(cell: Cell, facts: Chip) -> str:
    """Why a point cannot be measured; empty where it can."""
    if problem := core_problem(cell.core_mask, facts):
        return problem
    if cell.threads > 1 and facts.name in MINI_CHIPS:
        return f"{facts.name}'s runtime library runs a model on one thread."
    return ""


def core_problem(mask: int, found: Chip) -> str:
    """Why a chip cannot run a model on these cores; empty where it can.

    Args:
        mask: ``core_mask`` as of :data:`CORE_MASKS`.
        found: the chip.
    """
    last = mask.bit_length()
    if mask and found.npu_cores == 1:
        return f"{found.name} has one core: there is none to choose."
    if mask != CORE_MASKS["all"] and last > found.npu_cores:
        return f"{found.name} has no core {last - 1}."
    return ""


def loops_for(seconds: float, warmup: Sequence[float]) -> int:
    """How many runs take about that long.

    Args:
        seconds: of the plan.
        warmup: microseconds of the runs to warm up; their median counts.
    """
    usual = percentile(sorted(warmup), 50) if warmup else 0.0
    if usual <= 0:
        return 1
    return max(1, min(math.ceil(seconds * 1e6 / usual), _MOST_LOOPS))


def run_benchmark(plan: BenchmarkPlan, measure: Measure) -> Iterator[CellResult]:
    """Measure point by point; each result is there as soon as it is known.

    A point that the runtime refuses is a result that failed, and the next one is measured. Any
    other error of the board ends the benchmark; the results until then are with the caller.

    Raises:
        DeviceError: the board is gone, does not answer, or answers times that cannot be.
    """
    for cell in plan.cells:
        try:
            times = measure(cell, plan)
        except RuntimeLibraryError as error:
            yield CellResult(cell, None, failed=str(error))
            continue
        yield cell_result(cell, times)


def cell_result(cell: Cell, found: CellTimes) -> CellResult:
    """What the times of one point say.

    Raises:
        DeviceError: they cannot be.
    """
    try:
        timings = timings_of(found.times)
    except ValueError as error:
        raise DeviceError(
            f"The board measured nothing that can be used at {cell}.",
            cause=f"What it answered: {error}.",
            remedy="Measure again; if it stays so, run the board's doctor.",
        ) from error
    fell, notes = changes(found.before, found.after)
    return CellResult(
        cell,
        timings,
        _rate(cell, found, timings),
        found.before,
        found.after,
        fell,
        (*notes, *_shape_of(found.times, timings)),
        times=tuple(found.times),
    )


def _rate(cell: Cell, times: CellTimes, timings: Timings) -> float | None:
    if times.elapsed:
        return timings.count * cell.batch * 1e6 / times.elapsed
    if cell.threads == 1 and timings.mean:
        return cell.batch * 1e6 / timings.mean
    return None


def _shape_of(times: Sequence[float], timings: Timings) -> list[str]:
    """What the order of the times tells, and runs far outside."""
    notes: list[str] = []
    third = len(times) // 3
    if third >= _THIRD:
        early, late = (percentile(sorted(part), 50) for part in (times[:third], times[-third:]))
        if early and abs(late - early) > _DRIFT * early:
            word = "slower" if late > early else "faster"
            share = abs(late - early) / early
            notes.append(f"The last third of the runs was {share:.0%} {word} than the first.")
    if timings.outliers:
        some = len(timings.outliers)
        notes.append(f"{some} of {timings.count} runs lie far outside; they count.")
    return notes
