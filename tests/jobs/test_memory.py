"""Memory that a job leaves behind."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from engine.jobs.memory import give_back


class _Circle:
    def __init__(self) -> None:
        self.me = self
        self.data = np.zeros(1000)


def test_circles_are_gone() -> None:
    gc.collect()
    gc.disable()
    try:
        circle = weakref.ref(_Circle())
        assert circle() is not None
        give_back()
        assert circle() is None
    finally:
        gc.enable()
