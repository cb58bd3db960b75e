"""Ctrl-Z at the command line: the worker waits too, and goes on with the command."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rknntui.demo import demo_folder
from tests.cli.conftest import start

MODEL = demo_folder() / "digits_demo.onnx"
DATASET = demo_folder() / "dataset.txt"


def _cpu_ticks_of_children(pid: int) -> int:
    """User and system ticks of the processes whose parent is ``pid``."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            total += int(fields[11]) + int(fields[12])
    return total


@pytest.mark.long
def test_ctrl_z_lets_a_search_wait_and_fg_lets_it_go_on(tmp_path: Path) -> None:
    words = ("hybrid", "search", MODEL, "--dataset", DATASET, "--floor", "200")
    child = start(*words, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert child.stderr is not None
    told = []
    for line in child.stderr:
        told.append(line)
        if line.startswith("1  ") or len(told) > 30:
            break
    assert told[-1].startswith("1  "), told  # the first point of the curve: the search runs
    child.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    time.sleep(0.5)  # the worker ends what it is at
    before = _cpu_ticks_of_children(child.pid)
    time.sleep(1.0)
    assert _cpu_ticks_of_children(child.pid) - before <= 5  # it looks for its end, no more
    child.send_signal(signal.SIGCONT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert "best: step" in out
