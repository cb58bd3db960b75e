"""A net under what might hang: a test that would wait for ever fails in the end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

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
