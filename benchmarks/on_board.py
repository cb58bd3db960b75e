"""Memory, processor and wall time of what one does on a board: the figures of docs/devices.md.

Usage: python benchmarks/on_board.py [--json]

Runs on the board too, where its figures are worth most. Memory is what the processes of a command
have together at most, worker and interface, looked at every few milliseconds: PSS, so that
pages they share count once. Each command starts in an empty home. The standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "rknntui" / "demo"
MODEL = DEMO / "digits_demo.onnx"
_PAUSE = 0.005
_SECONDS = 600


@dataclass(frozen=True)
class Taken:
    """What a command took: peak memory in MB of 2^20 bytes, seconds."""

    name: str
    peak_mb: float
    cpu_s: float
    wall_s: float


class _Watcher(threading.Thread):
    """Adds up the memory of a process and all below it, again and again."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._ended = threading.Event()
        self.peak_kb = 0

    def run(self) -> None:
        while not self._ended.wait(_PAUSE):
            self.peak_kb = max(self.peak_kb, sum(map(_pss_kb, _tree(self._pid))))

    def end(self) -> float:
        self._ended.set()
        self.join()
        return self.peak_kb / 1024


def _tree(pid: int) -> list[int]:
    tree, at = [pid], 0
    while at < len(tree):
        for tasks in Path(f"/proc/{tree[at]}/task").glob("*/children"):
            try:
                tree += map(int, tasks.read_text("ascii").split())
            except OSError:  # it ended meanwhile
                continue
        at += 1
    return tree


def _pss_kb(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    pss = re.search(r"(?m)^Pss:\s+([0-9]+) kB", text)
    return int(pss[1]) if pss else 0


def _command(words: Sequence[str | Path], environment: dict[str, str]) -> float:
    """Run a command to its end; its peak in MB."""
    process = subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    watcher = _Watcher(process.pid)
    watcher.start()
    code = process.wait(_SECONDS)
    peak = watcher.end()
    if code:
        sys.exit(f"{words} ended with {code}")
    return peak


def _workbench(sees: str) -> Callable[[Sequence[str | Path], dict[str, str]], float]:
    """The workbench in a terminal until it shows a text; its peak in MB."""

    def run(words: Sequence[str | Path], environment: dict[str, str]) -> float:
        child, terminal = pty.fork()
        if child == 0:
            terminal_facts = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
            os.execve(words[0], [*map(str, words)], environment | terminal_facts)  # noqa: S606
        watcher = _Watcher(child)
        watcher.start()
        seen, end = b"", time.monotonic() + _SECONDS
        while sees.encode() not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    seen += os.read(terminal, 1 << 16)
                except OSError:
                    break
        peak = watcher.end()
        for pid in _tree(child):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        os.close(terminal)
        os.waitpid(child, 0)
        if sees.encode() not in seen:
            sys.exit(f"the workbench did not show {sees}: {seen[-2000:]!r}")
        return peak

    return run


def measure(python: str = sys.executable) -> list[Taken]:
    """Run everything once."""
    program: list[str | Path] = [python, "-m", "rknntui"]
    folder = Path(tempfile.mkdtemp(prefix="rknntui-on-board-"))
    out, picture = folder / "demo.rknn", next((DEMO / "calibration").glob("*.png"))
    work: list[tuple[str, list[str | Path], Callable[..., float]]] = [
        ("inspect", ["inspect", MODEL], _command),
        ("build", ["build", MODEL, "--dataset", DEMO / "dataset.txt", "-o", out], _command),
        ("simulate", ["simulate", out, "--input", picture], _command),
        ("doctor", ["doctor"], _command),
        ("workbench, first paint", [], _workbench("Overview")),
        ("workbench, the model open", [MODEL], _workbench("32 nodes")),
    ]
    rows = []
    try:
        for index, (name, words, how) in enumerate(work):
            home = folder / f"home-{index}"
            home.mkdir()
            kept = {n: v for n, v in os.environ.items() if not n.startswith("XDG_")}
            environment = {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT)}
            begun, cpu = time.monotonic(), os.times()
            peak = how([*program, *words], environment)
            wall, now = time.monotonic() - begun, os.times()
            spent = now.children_user + now.children_system
            spent -= cpu.children_user + cpu.children_system
            rows.append(Taken(name, round(peak, 1), round(spent, 2), round(wall, 2)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    rows = measure()
    if as_json:
        facts = {"machine": platform.machine(), "python": platform.python_version()}
        print(json.dumps({**facts, "taken": [asdict(one) for one in rows]}, indent=1))
        return
    print(f"{platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    for one in rows:
        print(f"{one.name:32} {one.peak_mb:7.1f} MB {one.cpu_s:6.2f} s CPU {one.wall_s:6.2f} s")


if __name__ == "__main__":
    main()
