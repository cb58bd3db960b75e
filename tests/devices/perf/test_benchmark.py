"""Plans of benchmarks, and what recorded times say."""

from __future__ import annotations

import pytest

from engine.base.errors import DeviceError, DeviceLostError, RuntimeLibraryError, UsageError
from engine.devices.measure.benchmark import (
    CORE_MASKS,
    BenchmarkPlan,
    Cell,
    CellTimes,
    Reading,
    cell_result,
    changes,
    loops_for,
    plan_benchmark,
    run_benchmark,
)
from engine.devices.measure.measured import MeasuredPerf
from engine.devices.measure.perf_report import Clocks
from engine.devices.measure.perf_text import parse_perf_text
from engine.facts import Chip, chips
from engine.wire.board import BoardState, Temperature
from engine.wire.codec import read_request
from engine.wire.devices import PerfParams

ONE = Cell("auto", 1, 1)
FELL = "The clock of NPU fell from 1000 to 600 MHz while it ran: it was throttled, or is not fixed."


def test_the_grid_is_expanded_in_a_fixed_order() -> None:
    plan = plan_benchmark("RK3588S", cores=["0_1", "auto", "0_1"], batches=[2, 1], threads=[1, 3])
    assert plan.chip == "rk3588"
    assert [str(cell) for cell in plan.cells] == [
        "cores 0_1, batch 2, threads 1",
        "cores 0_1, batch 2, threads 3",
        "cores 0_1, batch 1, threads 1",
        "cores 0_1, batch 1, threads 3",
        "cores auto, batch 2, threads 1",
        "cores auto, batch 2, threads 3",
        "cores auto, batch 1, threads 1",
        "cores auto, batch 1, threads 3",
    ]
    assert (plan.loops, plan.seconds, plan.warmup, plan.left_out) == (50, None, 5, ())
    assert plan.cells[0].core_mask == 3


@pytest.mark.parametrize("found", chips(), ids=lambda chip: chip.name)
def test_every_chip_takes_the_cores_that_it_has(found: Chip) -> None:
    plan = plan_benchmark(found.name, cores=list(CORE_MASKS))
    taken = [cell.cores for cell in plan.cells]
    assert (
        taken
        == {
            1: ["auto"],
            2: ["auto", "0", "1", "0_1", "all"],
            3: ["auto", "0", "1", "2", "0_1", "0_1_2", "all"],
        }[found.npu_cores]
    )
    assert len(plan.left_out) == len(CORE_MASKS) - len(taken)
    assert all(found.name in out.reason for out in plan.left_out)


def test_core_masks_are_those_of_the_runtime() -> None:
    # rknn_core_mask: AUTO, 0, 1, 2, 0_1, 0_1_2, ALL
    assert list(CORE_MASKS.values()) == [0, 1, 2, 4, 1 | 2, 1 | 2 | 4, 0xFFFF]


def test_what_cannot_be_measured_has_a_reason() -> None:
    plan = plan_benchmark("rk3576", cores=["2", "0_1_2", "0"])
    assert [str(cell) for cell in plan.cells] == ["cores 0, batch 1, threads 1"]
    reasons = {str(out.cell): out.reason for out in plan.left_out}
    assert reasons["cores 2, batch 1, threads 1"] == "rk3576 has no core 2."
    assert reasons["cores 0_1_2, batch 1, threads 1"] == "rk3576 has no core 2."
    (out,) = plan_benchmark("rv1106", cores=["0"]).left_out
    assert out.reason == "rv1106 has one core: there is none to choose."
    (out,) = plan_benchmark("rv1106", threads=[1, 2]).left_out
    assert out.reason == "rv1106's runtime library runs a model on one thread."


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"target": "rk3589"}, "Did you mean"),
        ({"loops": 5, "seconds": 1.0}, "either"),
        ({"threads": []}, "0 points"),
        (
            {"batches": list(range(1, 100)), "threads": list(range(1, 7))},
            "594 points",
        ),
    ],
)
def test_plans_that_no_board_could_take(arguments: dict[str, object], told: str) -> None:
    given: dict[str, object] = {"target": "rk3588", **arguments}
    with pytest.raises(UsageError) as caught:
        plan_benchmark(**given)  # type: ignore[arg-type]
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loops", 0),
        ("warmup", -1),
        ("seconds", 0.0),
        ("cores", ["0_2"]),
        ("batches", [{"batch": 0, "model": "x"}]),
        ("threads", [99]),
    ],
)
def test_numbers_out_of_bounds_are_no_request(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        read_request(PerfParams, {"path": "model.rknn", name: value})


def test_seconds_in_place_of_loops() -> None:
    plan = plan_benchmark("rk3566", seconds=2.0, warmup=0)
    assert (plan.loops, plan.seconds) == (None, 2.0)
    assert loops_for(2.0, [100_000.0, 200_000.0, 150_000.0]) == 14
    assert loops_for(0.001, [5000.0]) == 1
    assert loops_for(3600.0, [1.0]) == 100_000
    assert loops_for(1.0, []) == loops_for(1.0, [0.0]) == 1


def test_points_are_measured_one_by_one() -> None:
    plan = plan_benchmark("rk3588", cores=["0", "1", "2"], threads=[1, 2])
    asked: list[Cell] = []

    def measure(cell: Cell, given: BenchmarkPlan) -> CellTimes:
        assert given is plan
        asked.append(cell)
        if cell.cores == "1":
            raise RuntimeLibraryError("rknn_set_core_mask failed.", cause="old runtime")
        return CellTimes([1000.0] * 10, elapsed=10_000.0 / cell.threads)

    steps = run_benchmark(plan, measure)
    first = next(steps)
    assert asked == [plan.cells[0]], "nothing runs ahead of who takes the results"
    results = [first, *steps]
    assert [result.cell for result in results] == list(plan.cells) == asked
    assert [bool(result.failed) for result in results] == [False, False, True, True, False, False]
    assert "old runtime" in results[2].failed
    assert results[2].timings is None
    assert results[0].frames_per_second == 1000
    assert results[1].frames_per_second == 2000


def test_a_lost_board_ends_it_and_keeps_what_there_is() -> None:
    plan = plan_benchmark("rk3588", threads=[1, 2])

    def measure(cell: Cell, _plan: BenchmarkPlan) -> CellTimes:
        if cell.threads == 2:
            raise DeviceLostError("The board is gone.")
        return CellTimes([5.0])

    steps = run_benchmark(plan, measure)
    kept = next(steps)
    with pytest.raises(DeviceLostError):
        next(steps)
    assert kept.timings is not None


def test_frames_per_second() -> None:
    times = [2000.0, 4000.0]
    assert cell_result(Cell("auto", 4, 1), CellTimes(times)).frames_per_second == pytest.approx(
        4 * 1e6 / 3000
    )
    several = Cell("auto", 1, 3)
    assert cell_result(several, CellTimes(times)).frames_per_second is None
    measured = cell_result(several, CellTimes(times, elapsed=4000.0))
    assert measured.frames_per_second == 500


def test_times_that_cannot_be() -> None:
    with pytest.raises(DeviceError, match="nothing that can be used"):
        cell_result(ONE, CellTimes([]))


def test_throttling_is_a_note_and_no_correction() -> None:
    before = Reading({"NPU": 1_000_000_000, "DDR": 2_112_000_000}, {"npu-thermal": 45.0})
    after = Reading({"NPU": 600_000_000, "DDR": 2_112_000_000}, {"npu-thermal": 88.0})
    times = [1000.0 + 10 * number for number in range(60)]
    hot = cell_result(ONE, CellTimes(times, before, after))
    cool = cell_result(ONE, CellTimes(times, before, before))
    assert hot.throttled
    assert not cool.throttled
    assert hot.timings == cool.timings
    assert hot.notes == (
        FELL,
        "npu-thermal rose from 45 to 88 °C.",
        "The last third of the runs was 37% slower than the first.",
    )
    assert cool.notes == hot.notes[2:]


def test_other_notes() -> None:
    before = Reading({"NPU": 300_000_000}, {"soc-thermal": 84.0}, (0.0, 63.0))
    after = Reading({"NPU": 1_000_000_000}, {"soc-thermal": 86.0, "gpu-thermal": 40.0})
    times = [100.0] * 39 + [900.0]
    result = cell_result(ONE, CellTimes(times, before, after))
    assert not result.throttled
    assert result.notes == (
        "The clock of NPU rose from 300 to 1000 MHz while it ran: it is not fixed.",
        "soc-thermal is at 86 °C.",
        "The NPU was 63 % busy before: something else uses it.",
        "1 of 40 runs lie far outside; they count.",
    )
    assert cell_result(ONE, CellTimes([1.0] * 5)).notes == ()


def test_a_zone_is_hot_at_its_own_trip_point() -> None:
    zones = (Temperature("soc-thermal", 86.0, 95.0), Temperature("gpu-thermal", 71.0, 70.0))
    warm = Reading.of(BoardState(temperatures=zones))
    assert changes(warm, warm) == (False, ["gpu-thermal is at 71 °C."])


STATE = BoardState(
    npu_load=(1.0, 2.0),
    npu_clock=1_000_000_000,
    cpu_clocks=(("policy0", 1_800_000_000),),
    temperatures=(Temperature("npu-thermal", 41.0),),
)


def test_a_reading_is_what_the_monitor_read() -> None:
    assert Reading.of(STATE) == Reading(
        {"NPU": 1_000_000_000, "CPU policy0": 1_800_000_000}, {"npu-thermal": 41.0}, (1.0, 2.0)
    )
    assert Reading.of(BoardState()) == Reading()


def test_clocks_as_eval_perf_lists_them() -> None:
    assert Reading.of(STATE).listed() == (
        Clocks("CPU", (1_800_000_000,)),
        Clocks("NPU", (1_000_000_000,)),
        Clocks("DDR", ()),
    )
    perf = MeasuredPerf(2, 100.0, clocks=Reading({"CPU a": 5000, "CPU b": 6000}).listed())
    assert parse_perf_text(perf.printed()).clocks[0] == Clocks("CPU", (5000, 6000))
