"""The plan that fixes a board's clocks."""

from __future__ import annotations

import pytest

from engine.devices.probe.clocks import chip_clocks, clock_paths, clock_plan
from engine.devices.transport import Transport
from engine.facts import chips
from tests.devices.probe.boards import Board, rk3588

CPU = "/sys/devices/system/cpu"
DEVFREQ = "/sys/class/devfreq"


def values_of(board: Transport, chip: str) -> dict[str, str | None]:
    texts = {path: board.read(path) for path in clock_paths(chip)}
    return {path: None if text is None else text.decode() for path, text in texts.items()}


def everything(chip: str) -> dict[str, str | None]:
    return dict.fromkeys(clock_paths(chip), "userspace performance")


@pytest.mark.parametrize(
    ("chip", "cpu", "npu", "ddr"),
    [
        ("rv1126", {"policy0": 1512000}, 934_000_000, 924_000_000),
        ("rv1109", {"policy0": 1512000}, 594_000_000, 924_000_000),
        ("rk1808", {"policy0": 1200000}, 792_000_000, 924_000_000),
        ("rk3562", {"policy0": 2000000}, 1_000_000_000, 1_560_000_000),
        ("rk3566", {"policy0": 1800000}, 1_000_000_000, 1_056_000_000),
        ("rk3568", {"policy0": 1800000}, 1_000_000_000, 1_560_000_000),
        ("rk3576", {"policy0": 1800000, "policy4": 2016000}, 1_000_000_000, 2_112_000_000),
        (
            "rk3588",
            {"policy0": 1800000, "policy4": 2256000, "policy6": 2256000},
            1_000_000_000,
            2_112_000_000,
        ),
        ("rv1103", {"policy0": 1608000}, 500_000_000, 924_000_000),
        ("rv1106", {"policy0": 1608000}, 500_000_000, 924_000_000),
        ("rv1126b", {"policy0": 1608000}, 950_000_000, None),
    ],
)
def test_the_frequencies_of_the_vendors_script(
    chip: str, cpu: dict[str, int], npu: int, ddr: int | None
) -> None:
    (row,) = chip_clocks(chip)
    assert (dict(row.cpu_khz), row.npu_hz, row.ddr_hz) == (cpu, npu, ddr)
    assert row.source


def test_every_row_is_of_a_known_chip() -> None:
    assert {row.chip for row in chip_clocks()} <= {facts.name for facts in chips()}


def test_the_order_of_writing_is_the_vendors() -> None:
    values = everything("rk3576")
    plan = clock_plan("rk3576", values)
    assert plan.not_adjustable == ()
    assert [path for path, _ in plan.values[:8]] == [
        f"{CPU}/cpu{number}/cpuidle/state1/disable" for number in range(8)
    ]
    assert plan.values[8:] == (
        (f"{CPU}/cpufreq/policy0/scaling_governor", "userspace"),
        (f"{CPU}/cpufreq/policy0/scaling_setspeed", "1800000"),
        (f"{CPU}/cpufreq/policy4/scaling_governor", "userspace"),
        (f"{CPU}/cpufreq/policy4/scaling_setspeed", "2016000"),
        (f"{DEVFREQ}/27700000.npu/governor", "userspace"),
        (f"{DEVFREQ}/27700000.npu/userspace/set_freq", "1000000000"),
        (f"{DEVFREQ}/dmc/governor", "userspace"),
        (f"{DEVFREQ}/dmc/userspace/set_freq", "2112000000"),
    )


def test_a_board_without_the_memorys_node_is_not_adjustable_there() -> None:
    values = values_of(rk3588(), "rk3588")
    values[f"{DEVFREQ}/dmc/governor"] = None
    plan = clock_plan("rk3588", values)
    assert plan.not_adjustable == (("DDR", f"this kernel has no {DEVFREQ}/dmc/governor"),)
    assert (f"{DEVFREQ}/fdab0000.npu/userspace/set_freq", "1000000000") in plan.values


def test_a_kernel_without_the_governor_is_not_adjustable() -> None:
    values = values_of(rk3588(), "rk3588")
    values[f"{CPU}/cpufreq/policy0/scaling_available_governors"] = "schedutil performance\n"
    plan = clock_plan("rk3588", values)
    assert ("CPU policy0", "this kernel has no governor userspace") in plan.not_adjustable
    assert not any("policy0" in path for path, _ in plan.values)


def test_the_npu_of_a_kernel_that_gives_it_no_name() -> None:
    node = f"{DEVFREQ}/devfreq0"
    values = {f"{node}/governor": "x", f"{node}/device/uevent": "OF_NAME=npu"}
    assert (f"{node}/governor", "performance") in clock_plan("rk3588", {**values}).values
    gpu = {**values, f"{node}/device/uevent": "OF_NAME=gpu"}
    assert "NPU" in dict(clock_plan("rk3588", {**gpu}).not_adjustable)


def test_a_clock_without_devfreq_is_written_itself() -> None:
    path = "/sys/kernel/debug/clk/clk_500m_src/clk_rate"
    assert (path, "500000000") in clock_plan("rv1106", everything("rv1106")).values
    assert "only root sees it" in dict(clock_plan("rv1106", {}).not_adjustable)["NPU"]


@pytest.mark.parametrize("chip", ["rk3399pro", "rk2118", None])
def test_a_chip_without_frequencies_has_an_empty_plan_with_reasons(chip: str | None) -> None:
    plan = clock_plan(chip, {})
    assert plan.values == ()
    assert [what for what, _ in plan.not_adjustable] == ["CPU", "NPU", "DDR"]


def test_a_bare_board_gives_reasons_for_all() -> None:
    for facts in chips():
        plan = clock_plan(facts.name, values_of(Board(), facts.name))
        assert plan.values == ()
        assert plan.not_adjustable
