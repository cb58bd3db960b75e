"""What the kernel of an emulated board says of its clocks, its load and its temperatures.

What runs follows what a program writes, as in a kernel. Nodes are those of devfreq (NPU, memory, in
Hz) and cpufreq (in kHz), with the governors that the manuals' ``scaling_frequency.sh`` sets. Under
``userspace`` a clock has the value that was written, under ``performance`` and ``powersave`` the
highest and the lowest, else its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rknntui_emulator.boards import Board
from rknntui_emulator.sandbox import Sandbox

_DEVFREQ = "/sys/class/devfreq"
_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_LOAD_SECONDS = 1.0
"""The kernel's driver counts its load over a second."""


def tell_npu(sandbox: Sandbox, board: Board, name: str, value: object) -> None:
    """Write a file of the NPU's driver; generation 1 has none of them."""
    if board.generation == 2:
        for folder in ("/sys/kernel/debug/rknpu", "/proc/rknpu"):
            sandbox.write(f"{folder}/{name}", f"{value}\n")


@dataclass
class _Node:
    """One clock: the folder of its files, and the names of the files there."""

    folder: str
    values: dict[str, str]
    governor: str
    setting: str
    running: tuple[str, ...]
    lowest: int
    highest: int
    busy: int = 0
    seen: tuple[str, str] | None = field(default=None, compare=False)

    def rate(self, governor: str, setting: str) -> int:
        """What the clock runs at."""
        if governor == "userspace" and setting.isascii() and setting.isdigit():
            return min(max(int(setting), self.lowest), self.highest)
        return self.lowest if governor == "powersave" else self.highest


class Clocks:
    """All clocks of a board that a program can read; :meth:`start` makes them.

    Args:
        sandbox: where their files are.
        board: which they are.
    """

    def __init__(self, sandbox: Sandbox, board: Board) -> None:
        self._sandbox, self._board = sandbox, board
        self._nodes = _nodes(board)

    def start(self) -> None:
        """Every clock as after a start."""
        for node in self._nodes:
            for name, value in node.values.items():
                self._sandbox.write(f"{node.folder}/{name}", f"{value}\n")
            self._run(node, node.highest)
            node.seen = self._asked(node)
        tell_npu(self._sandbox, self._board, "freq", self._board.hertz)

    def set_npu(self, hertz: int) -> None:
        """Let the NPU run at a frequency until a program asks for another."""
        for node in self._nodes:
            if self._is_npu(node):
                self._run(node, hertz)
        tell_npu(self._sandbox, self._board, "freq", hertz)

    def follow(self) -> None:
        """Do what was asked for since the last time."""
        for node in self._nodes:
            asked = self._asked(node)
            if asked != node.seen:
                node.seen = asked
                rate = node.rate(*asked)
                self._run(node, rate)
                if self._is_npu(node):
                    tell_npu(self._sandbox, self._board, "freq", rate)

    def _is_npu(self, node: _Node) -> bool:
        return node.folder == f"{_DEVFREQ}/{self._board.node}"

    def _asked(self, node: _Node) -> tuple[str, str]:
        return self._read(node, node.governor), self._read(node, node.setting)

    def _read(self, node: _Node, name: str) -> str:
        try:
            path = self._sandbox.path(f"{node.folder}/{name}")
            return path.read_text("utf-8", "replace").strip()
        except OSError:
            return ""

    def _run(self, node: _Node, rate: int) -> None:
        for name in node.running:
            self._sandbox.write(f"{node.folder}/{name}", f"{rate}\n")
        if "load" in node.values:
            self._sandbox.write(f"{node.folder}/load", f"{node.busy}@{rate}Hz\n")


def _nodes(board: Board) -> list[_Node]:
    nodes = []
    if board.node:
        first = board.generation == 1
        governor = "simple_ondemand" if first else "rknpu_ondemand"
        # the kernel's value is 100 under its own governor, busy or not
        nodes.append(_devfreq(board.node, board.hertz, governor, busy=0 if first else 100))
    if board.ddr_hertz:
        nodes.append(_devfreq("dmc", board.ddr_hertz, "dmc_ondemand"))
    return nodes + [_cpufreq(number, kilohertz) for number, kilohertz in board.policies]


def _devfreq(name: str, hertz: int, governor: str, busy: int = 0) -> _Node:
    lowest = hertz // 4
    values = {
        "available_frequencies": f"{lowest} {hertz // 2} {hertz}",
        "available_governors": f"{governor} userspace powersave performance",
        "governor": governor,
        "load": "",
        "max_freq": f"{hertz}",
        "min_freq": f"{lowest}",
        "userspace/set_freq": f"{hertz}",
    }
    running = ("cur_freq", "target_freq")
    folder, setting = f"{_DEVFREQ}/{name}", "userspace/set_freq"
    return _Node(folder, values, "governor", setting, running, lowest, hertz, busy)


def _cpufreq(number: int, kilohertz: int) -> _Node:
    lowest = 408_000
    values = {
        "cpuinfo_max_freq": f"{kilohertz}",
        "cpuinfo_min_freq": f"{lowest}",
        "scaling_available_frequencies": f"{lowest} {kilohertz}",
        "scaling_available_governors": "ondemand userspace powersave performance",
        "scaling_governor": "ondemand",
        "scaling_max_freq": f"{kilohertz}",
        "scaling_min_freq": f"{lowest}",
        "scaling_setspeed": "<unsupported>",
    }
    names = ("scaling_governor", "scaling_setspeed", ("scaling_cur_freq",))
    return _Node(f"{_CPUFREQ}/policy{number}", values, *names, lowest, kilohertz)


class LoadMeter:
    """Percent of each core over the last second.

    Args:
        cores: of the NPU.
    """

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._seen: deque[tuple[float, tuple[int, ...]]] = deque()

    def take(self, at: float, busy: Sequence[int]) -> list[int]:
        """The load now.

        Args:
            at: seconds of a clock that only goes on.
            busy: microseconds that each core has been busy since some start.
        """
        self._seen.append((at, tuple(busy[: self._cores])))
        while len(self._seen) > 2 and at - self._seen[1][0] >= _LOAD_SECONDS:
            self._seen.popleft()
        begun, before = self._seen[0]
        seconds = at - begun
        if seconds <= 0:
            return [0] * self._cores
        return [
            max(0, min(100, round((now - then) / 1e4 / seconds)))
            for now, then in zip(self._seen[-1][1], before, strict=True)
        ]
