"""A net under what might hang: a test that would wait for ever fails in the end; and programs of
tests, whose crash is a failure, and disks that are soon full.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 120
"""Seconds after which something hangs, on any machine that is not broken."""


@contextmanager
def ends(seconds: float = PATIENCE) -> Iterator[None]:
    """Interrupt the block where it does not end by itself; says nothing about how fast it is.

    For the main thread, where nothing else uses SIGALRM.
    """

    def stop(_number: int, _frame: object) -> None:
        raise AssertionError(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Every test ends, of a module or a folder that imports this."""
    with ends():
        yield


def ran(*words: object, check: bool = False, **more: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, and what it said."""
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, check=check, **more)


def printed(code: str, *words: object) -> list[str]:
    """The words that a program of Python prints, in a process of its own."""
    return ran(sys.executable, "-P", "-c", code, *words, check=True).stdout.split()


def told_by(
    root: Path, module: str, *words: object, at: Path | None = None, **variables: str
) -> list[Any]:
    """What a program of the tests prints: lines of JSON, beside what native code prints.

    Args:
        root: the checkout.
        module, words: after ``python -m``.
        at: where it notes what it does, for a crash of native code.
        variables: of its environment.
    """
    done = ran(
        sys.executable, "-m", module, *words, cwd=root, env=os.environ | variables, timeout=1500
    )
    where = at.read_text() if at is not None and at.exists() else done.stdout[-300:]
    assert done.returncode == 0, f"{module}: {done.returncode} at {where}:\n{done.stderr[-3000:]}"
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own, for the time of the block."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "rknntui-test", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
