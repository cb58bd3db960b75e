"""Clocks that a benchmark fixes, as a plan: what to write where, and what cannot be adjusted.

The frequencies are those of the vendor's script for benchmarks (``data/clocks.csv``). Nothing is
written here; who writes keeps the old values first and writes them back in the opposite order.
Clocks at their highest need a power supply that holds: only on the user's demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from engine.facts import rows

CPUS = 8
"""Processor cores of the largest chip."""

_CPU = "/sys/devices/system/cpu"
_DEVFREQ = "/sys/class/devfreq"
_DDR = f"{_DEVFREQ}/dmc"
_GENERAL_NPU = f"{_DEVFREQ}/devfreq0"
"""The NPU's node on some kernels of RK3588, which has no governor for given frequencies."""


@dataclass(frozen=True)
class ChipClocks:
    """A row of the data file.

    Attributes:
        chip: its name in :mod:`engine.facts`.
        npu_node: folder of the NPU in ``/sys/class/devfreq``, or the whole path of a clock.
        cpu_khz: (policy, kHz) of each group of cores.
        npu_hz, ddr_hz: Hz; None where the vendor's script sets none.
        ddr_adjustable: whether that script sets the memory's clock or only shows it.
        source: of these figures.
    """

    chip: str
    npu_node: str
    cpu_khz: tuple[tuple[str, int], ...]
    npu_hz: int
    ddr_hz: int | None
    ddr_adjustable: bool
    source: str

    @property
    def npu_path(self) -> str:
        """The file or the folder of the NPU's clock."""
        return self.npu_node if self.npu_node.startswith("/") else f"{_DEVFREQ}/{self.npu_node}"


@dataclass(frozen=True)
class ClockPlan:
    """What fixes the clocks of a board.

    Attributes:
        values: (path, text) in the order of writing.
        not_adjustable: (what, why) of the clocks that stay as they are.
    """

    values: tuple[tuple[str, str], ...]
    not_adjustable: tuple[tuple[str, str], ...]


@cache
def _table() -> Mapping[str, ChipClocks]:
    clocks = {}
    for row in rows("engine.devices.probe", "data/clocks.csv"):
        pairs = (pair.partition("=") for pair in row["cpu_khz"].split())
        clocks[row["chip"]] = ChipClocks(
            chip=row["chip"],
            npu_node=row["npu_node"],
            cpu_khz=tuple((policy, int(khz)) for policy, _, khz in pairs),
            npu_hz=int(row["npu_hz"]),
            ddr_hz=int(row["ddr_hz"]) if row["ddr_hz"] else None,
            ddr_adjustable=row["ddr_adjustable"] == "yes",
            source=row["source"],
        )
    return clocks


def chip_clocks(chip: str | None = None) -> tuple[ChipClocks, ...]:
    """The row of a chip, none where it has none; all rows without a name."""
    table = _table()
    if chip is None:
        return tuple(table.values())
    return (table[chip],) if chip in table else ()


def clock_paths(chip: str) -> tuple[str, ...]:
    """What has to be read before :func:`clock_plan` can be made."""
    paths = [f"{_CPU}/cpu{number}/cpuidle/state1/disable" for number in range(CPUS)]
    for row in chip_clocks(chip):
        for policy, _ in row.cpu_khz:
            folder = f"{_CPU}/cpufreq/{policy}"
            paths += [f"{folder}/scaling_governor", f"{folder}/scaling_available_governors"]
        if row.npu_node.startswith("/"):
            paths.append(row.npu_path)
        else:
            paths += _governors(row.npu_path) + _governors(_GENERAL_NPU)
            paths.append(f"{_GENERAL_NPU}/device/uevent")
        if row.ddr_adjustable:
            paths += _governors(_DDR)
    return tuple(paths)


def _governors(folder: str) -> list[str]:
    return [f"{folder}/governor", f"{folder}/available_governors"]


def clock_plan(chip: str | None, values: Mapping[str, str | None]) -> ClockPlan:
    """What to write on a board, in the vendor's order: idle states, processor, NPU, memory.

    Args:
        chip: its name in :mod:`engine.facts`.
        values: what was read of :func:`clock_paths`; None or missing where there is no such file.
    """
    known = chip_clocks(chip) if chip else ()
    if not known:
        why = f"no frequencies of {chip or 'this chip'} are known"
        if chip == "rk3399pro":
            why = "the NPU is a chip of its own with fixed clocks"
        return ClockPlan((), tuple((what, why) for what in ("CPU", "NPU", "DDR")))
    row = known[0]
    plan = _Planner(values)
    for number in range(CPUS):
        path = f"{_CPU}/cpu{number}/cpuidle/state1/disable"
        if values.get(path) is not None:
            plan.writes.append((path, "1"))
    for policy, khz in row.cpu_khz:
        folder = f"{_CPU}/cpufreq/{policy}"
        names = ("scaling_governor", "scaling_available_governors", "scaling_setspeed")
        plan.fix(f"CPU {policy}", folder, names, khz)
    _fix_npu(plan, row)
    if row.ddr_adjustable and row.ddr_hz is not None:
        plan.fix("DDR", _DDR, _DEVFREQ_NAMES, row.ddr_hz)
    else:
        plan.left.append(("DDR", "the memory's clock of this chip cannot be set"))
    return ClockPlan(tuple(plan.writes), tuple(plan.left))


_DEVFREQ_NAMES = ("governor", "available_governors", "userspace/set_freq")


def _fix_npu(plan: _Planner, row: ChipClocks) -> None:
    values = plan.values
    if row.npu_node.startswith("/"):
        if values.get(row.npu_path) is None:
            plan.left.append(("NPU", f"there is no {row.npu_path}, or only root sees it"))
        else:
            plan.writes.append((row.npu_path, str(row.npu_hz)))
    elif values.get(f"{row.npu_path}/governor") is None and _is_npu(values):
        plan.writes.append((f"{_GENERAL_NPU}/governor", "performance"))
    else:
        plan.fix("NPU", row.npu_path, _DEVFREQ_NAMES, row.npu_hz)


def _is_npu(values: Mapping[str, str | None]) -> bool:
    """Whether the node without an address in its name is the NPU's, and not the GPU's."""
    governor = values.get(f"{_GENERAL_NPU}/governor")
    return governor is not None and "npu" in (values.get(f"{_GENERAL_NPU}/device/uevent") or "")


class _Planner:
    """The writes of a plan while it is made, and what was left out of it."""

    def __init__(self, values: Mapping[str, str | None]) -> None:
        self.values = values
        self.writes: list[tuple[str, str]] = []
        self.left: list[tuple[str, str]] = []

    def fix(self, what: str, folder: str, names: tuple[str, str, str], frequency: int) -> None:
        """Governor ``userspace``, then the frequency; the second file appears with the first."""
        governor, available, speed = (f"{folder}/{name}" for name in names)
        offered = self.values.get(available)
        if self.values.get(governor) is None:
            self.left.append((what, f"this kernel has no {governor}"))
        elif offered is not None and "userspace" not in offered.split():
            self.left.append((what, "this kernel has no governor userspace"))
        else:
            self.writes += [(governor, "userspace"), (speed, str(frequency))]
