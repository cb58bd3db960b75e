"""The clocks of an emulated board: what runs follows what a program writes, as in a kernel.

Nodes are those of devfreq (NPU, memory, in Hz) and cpufreq (in kHz), with the governors that the
manuals' ``scaling_frequency.sh`` sets. Under ``userspace`` a clock has the value that was written,
under ``performance`` and ``powersave`` the highest and the lowest, else its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rknntui_emulator.boards import Board
from rknntui_emulator.sandbox import Sandbox

__all__ = ["Clocks"]

_DEVFREQ = "/sys/class/devfreq"
_CPUFREQ = "/sys/devices/system/cpu/cpufreq"


@dataclass
class _Node:
    """One clock: the folder of its files, and the names of the files there."""

    folder: str
    values: dict[str, str]
    governor: str
    wanted: str
    running: tuple[str, ...]
    lowest: int
    highest: int
    busy: int = 0
    seen: tuple[str, str] | None = field(default=None, compare=False)

    def hertz(self, governor: str, wanted: str, before: int) -> int:
        """What the clock runs at."""
        if governor == "userspace" and wanted.isascii() and wanted.isdigit():
            return min(max(int(wanted), self.lowest), self.highest)
        fixed = {"performance": self.highest, "powersave": self.lowest}
        return fixed.get(governor, before)


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
        self._report(self._board.hertz)

    def set_npu(self, hertz: int) -> None:
        """Let the NPU run at a frequency until a program asks for another."""
        for node in self._nodes:
            if node.folder == f"{_DEVFREQ}/{self._board.node}":
                self._run(node, hertz)
        self._report(hertz)

    def follow(self) -> None:
        """Do what was asked for since the last time."""
        for node in self._nodes:
            asked = self._asked(node)
            if asked != node.seen:
                node.seen = asked
                hertz = node.hertz(*asked, node.highest)
                self._run(node, hertz)
                if node.folder == f"{_DEVFREQ}/{self._board.node}":
                    self._report(hertz)

    def _asked(self, node: _Node) -> tuple[str, str]:
        return self._read(f"{node.folder}/{node.governor}"), self._read(
            f"{node.folder}/{node.wanted}"
        )

    def _read(self, path: str) -> str:
        try:
            return self._sandbox.path(path).read_text("utf-8", "replace").strip()
        except OSError:
            return ""

    def _run(self, node: _Node, value: int) -> None:
        for name in node.running:
            self._sandbox.write(f"{node.folder}/{name}", f"{value}\n")
        if "load" in node.values:
            self._sandbox.write(f"{node.folder}/load", f"{node.busy}@{value}Hz\n")

    def _report(self, hertz: int) -> None:
        if self._board.generation == 2:
            for folder in ("/sys/kernel/debug/rknpu", "/proc/rknpu"):
                self._sandbox.write(f"{folder}/freq", f"{hertz}\n")


def _nodes(board: Board) -> list[_Node]:
    nodes = []
    if board.node:
        own = "simple_ondemand" if board.generation == 1 else "rknpu_ondemand"
        node = _devfreq(board.node, board.hertz, own)
        # the kernel's value is 100 under its own governor, busy or not
        node.busy = 100 if board.generation == 2 else 0
        nodes.append(node)
    if board.ddr_hertz:
        nodes.append(_devfreq("dmc", board.ddr_hertz, "dmc_ondemand"))
    return nodes + [_cpufreq(number, kilohertz) for number, kilohertz in board.policies]


def _devfreq(name: str, hertz: int, governor: str) -> _Node:
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
    return _Node(
        folder=f"{_DEVFREQ}/{name}",
        values=values,
        governor="governor",
        wanted="userspace/set_freq",
        running=("cur_freq", "target_freq"),
        lowest=lowest,
        highest=hertz,
    )


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
    return _Node(
        folder=f"{_CPUFREQ}/policy{number}",
        values=values,
        governor="scaling_governor",
        wanted="scaling_setspeed",
        running=("scaling_cur_freq",),
        lowest=lowest,
        highest=kilohertz,
    )
