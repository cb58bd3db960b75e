"""Load, clocks, temperatures and memory, as boards tell them."""

from __future__ import annotations

import pytest

from engine.base.errors import DeviceTimeoutError
from engine.devices.probe.state import once_paths, parse, read_state, watch_paths
from engine.facts import chips
from engine.wire.board import Power, Temperature
from tests.devices.probe.boards import Board, rk1808, rk3588

LOAD = "/sys/kernel/debug/rknpu/load"
MOUNTED = {"/proc/mounts": "none /sys/kernel/debug debugfs rw 0 0\n"}


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("NPU load:  0%\n", (0.0,)),
        ("NPU load:  37%", (37.0,)),
        ("NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,\n", (63.0, 65.0, 64.0)),
        ("NPU load:  Core0:  0%, Core1:  0%,", (0.0, 0.0)),
        ("NPU load:  164%", None),
        ("NPU load:  Core0: 101%, Core1: 5%,", None),
        ("NPU load:  -3%", None),
        ("", None),
        ("100@1000000000Hz", None),
        ("NPU load:  Core9: 3%,", None),
    ],
)
def test_the_load_of_each_core(text: str, load: tuple[float, ...] | None) -> None:
    assert parse({LOAD: text}).npu_load == load
    assert parse({LOAD: None, "/proc/rknpu/load": text}).npu_load == load


def test_the_load_of_devfreq_is_never_believed_nor_read() -> None:
    files = {"/sys/class/devfreq/fdab0000.npu/load": "100@1000000000Hz"}
    assert parse(files).npu_load is None
    for facts in chips():
        paths = (*watch_paths(facts.name), *once_paths(facts.name))
        assert not any("devfreq" in path and path.endswith("/load") for path in paths)
        assert not any(path.endswith("rknpu/freq") for path in paths), "it wakes the NPU"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({LOAD: None, "/proc/mounts": "proc /proc proc rw 0 0"}, "debugfs is not mounted"),
        ({LOAD: None, **MOUNTED, "/proc/self/status": "Uid:\t1000\t1000\t1000\t1000"}, "root only"),
        (
            {LOAD: None, **MOUNTED, "/proc/self/status": "Uid:\t0\t0\t0\t0"},
            "this kernel has no such node",
        ),
        ({LOAD: "hello\x1b[2J"}, f"{LOAD} says 'hello[2J'"),
        ({LOAD: ""}, f"{LOAD} is empty"),
        ({LOAD: "NPU load:  164%"}, f"{LOAD} says 'NPU load:  164%'"),
    ],
)
def test_why_there_is_no_load(values: dict[str, str | None], reason: str) -> None:
    state = parse(values, "rk3588")
    assert state.npu_load is None
    assert state.reason("npu_load") == reason


def test_a_file_of_debugfs_proves_that_it_is_mounted() -> None:
    values = {LOAD: None, "/proc/mounts": "", "/sys/kernel/debug/rknpu/version": "x"}
    assert parse(values, "rk3588").reason("npu_load") == "this kernel has no such node"


def test_the_npu_of_rk3399pro_is_a_chip_of_its_own() -> None:
    assert parse({}, "rk3399pro").reason("npu_clock") == "the NPU is a chip of its own"


def test_what_the_system_refused_is_for_root_only() -> None:
    reasons = {LOAD: f"{LOAD} could not be read: Permission denied."}
    assert parse({LOAD: None}, "rk3588", reasons).reason("npu_load") == "root only"


def test_generation_1_tells_no_load() -> None:
    assert parse({}, "rv1126").reason("npu_load") == "the driver of this chip tells no load"


def test_clocks() -> None:
    node = "/sys/class/devfreq/fdab0000.npu"
    state = parse(
        {
            f"{node}/cur_freq": "1000000000\n",
            f"{node}/governor": "rknpu_ondemand\n",
            "/sys/class/devfreq/dmc/cur_freq": "2112000000\n",
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "1800000\n",
            "/sys/devices/system/cpu/cpufreq/policy4/scaling_cur_freq": "2256000\n",
        }
    )
    assert (state.npu_clock, state.npu_governor) == (1_000_000_000, "rknpu_ondemand")
    assert state.ddr_clock == 2_112_000_000
    assert state.cpu_clocks == (("policy0", 1_800_000_000), ("policy4", 2_256_000_000))


def test_the_npus_clock_without_an_address_in_its_name() -> None:
    node = "/sys/class/devfreq/devfreq0"
    npu = {f"{node}/cur_freq": "900000000", f"{node}/device/uevent": "OF_NAME=npu\n"}
    assert parse(npu).npu_clock == 900_000_000
    gpu = {**npu, f"{node}/device/uevent": "OF_NAME=gpu\n"}
    assert parse(gpu).npu_clock is None


def test_the_npus_clock_where_there_is_no_devfreq() -> None:
    assert parse({"/sys/kernel/debug/clk/aclk_npu_root/clk_rate": "500000000\n"}).npu_clock == 5e8


OLD_SUMMARY = """\
   clock                         enable_cnt  prepare_cnt        rate   accuracy   phase
----------------------------------------------------------------------------------------
 xin24m                                  9           10    24000000          0 0
    pll_dpll                             1            1   462000000          0 0
"""
NEW_SUMMARY = """\
                                 enable  prepare  protect                                duty
   clock                          count    count    count        rate   accuracy phase  cycle
---------------------------------------------------------------------------------------------
 xin24m                              22       23        0    24000000          0     0  50000
    pll_dpll                          1        1        0   462000000          0     0  50000
"""


@pytest.mark.parametrize("text", [OLD_SUMMARY, NEW_SUMMARY])
def test_the_memorys_clock_in_the_summary_of_old_and_new_kernels(text: str) -> None:
    assert parse({"/sys/kernel/debug/clk/clk_summary": text}).ddr_clock == 924_000_000


def test_temperatures_by_type() -> None:
    zone = "/sys/class/thermal/thermal_zone"
    values = {
        f"{zone}0/type": "soc-thermal\n",
        f"{zone}0/temp": "41615\n",
        f"{zone}10/type": "npu-thermal\n",
        f"{zone}10/temp": "42538\n",
        f"{zone}2/type": "gpu-thermal\n",
        f"{zone}2/temp": "-2147483648\n",
        f"{zone}3/temp": "-1500",
    }
    state = parse(values)
    assert state.temperatures == (
        Temperature("soc-thermal", 41.615),
        Temperature("zone 3", -1.5),
        Temperature("npu-thermal", 42.538),
    )
    assert state.npu_celsius == 42.538
    old = parse({f"{zone}0/type": "soc_thermal", f"{zone}0/temp": "50000"})
    assert old.npu_celsius == 50.0
    assert parse({}).npu_celsius is None


def test_memory_of_new_and_old_kernels() -> None:
    new = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 700 kB\nCached: 200 kB\n"
    new += "CmaTotal: 64 kB\nCmaFree: 32 kB\nSwapTotal: 10 kB\nSwapFree: 5 kB\n"
    memory = parse({"/proc/meminfo": new}).memory
    assert memory is not None
    assert (memory.total, memory.available) == (1000 << 10, 700 << 10)
    assert (memory.cma_total, memory.cma_free) == (64 << 10, 32 << 10)
    assert (memory.swap_total, memory.swap_free) == (10 << 10, 5 << 10)
    old = parse({"/proc/meminfo": "MemTotal: 1000 kB\nMemFree: 100 kB\nCached: 200 kB\n"}).memory
    assert old is not None
    assert (old.available, old.cma_total) == (300 << 10, None)


def test_limits_and_power_of_nonsense() -> None:
    zone, supply = "/sys/class/thermal/thermal_zone", "/sys/class/power_supply/battery"
    values = {f"{zone}0/type": "npu-thermal", f"{zone}0/temp": "40000"}
    for trip, limit in enumerate(("900000", "-5", "x", "90000")):
        values[f"{zone}0/trip_point_{trip}_type"] = "passive\n"
        values[f"{zone}0/trip_point_{trip}_temp"] = limit
    assert parse(values).hot == (90.0, "npu-thermal")
    values[f"{zone}0/trip_point_3_type"] = "hot\x1b[2J"
    assert parse(values).hot == (85.0, "")
    power = {f"{supply}/voltage_now": "3800000\n", f"{supply}/current_now": "-500000\n"}
    assert parse(power).powers == (Power("battery", 1.9),)
    power["/sys/class/hwmon/hwmon3/power1_input"] = "-3"
    assert parse(power).powers == (Power("battery", 1.9),)


def test_everything_that_is_missing_has_a_reason() -> None:
    state = parse({}, "rk3588")
    attributes = {"npu_load", "npu_clock", "npu_governor", "ddr_clock", "cpu_clocks"}
    assert {name for name, _ in state.missing} == attributes | {"temperatures", "memory", "powers"}
    assert all(why for _, why in state.missing)
    full = read_state(rk3588(), "rk3588")
    assert full.missing == ()
    assert full.reason("npu_load") == ""


def test_a_board_is_read_without_an_agent() -> None:
    state = read_state(rk3588(), "rk3588")
    assert state.npu_load == (63.0, 65.0, 64.0)
    assert state.npu_clock == 1_000_000_000
    assert state.npu_celsius == 40.692
    assert state.hot == (95.0, "soc-thermal"), "the NPU's own zone has none"
    assert state.powers == (Power("ina226", 5.12),)
    assert state.memory is not None
    assert state.memory.cma_free == 8192 << 10
    old = read_state(rk1808(), "rk1808")
    assert old.npu_clock == 792_000_000
    assert old.npu_celsius == 51.0
    assert old.hot == (85.0, "")


def test_a_file_that_is_closed_is_for_root_only() -> None:
    state = read_state(rk3588(denied=frozenset({LOAD})), "rk3588")
    assert state.reason("npu_load") == "root only"


def test_names_that_a_board_lists_are_not_taken_over() -> None:
    evil = b"thermal_zone0\nfdab0000.npu;reboot\n../../etc/shadow\n$(x).npu\npolicy0\n"
    board = rk3588(programs={"ls": evil})
    read_state(board, "rk3588")
    assert not any("reboot" in w or "shadow" in w or "$" in w for a in board.asked for w in a)


def test_a_board_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(DeviceTimeoutError):
        read_state(Board(lost=DeviceTimeoutError("no answer")), "rk3588")
