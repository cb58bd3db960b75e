"""The stages of a job with a board, as a front end shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from engine.base.events import Progress, Reporter, StageFinished, StageStarted

__all__ = ["BoardStages"]

_STEPS = 100


class BoardStages:
    """The stages of one job.

    Args:
        reporter: told of them.
        titles: of all, in their order.
    """

    def __init__(self, reporter: Reporter, titles: Sequence[str]) -> None:
        self._reporter, self._titles = reporter, tuple(titles)

    @contextmanager
    def stage(self, title: str) -> Iterator[str]:
        """One of them, for the time of the block; gives its name in the events."""
        index = self._titles.index(title)
        name = f"board-{index}"
        begun = time.perf_counter()
        self._reporter.emit(StageStarted(name, title, index, len(self._titles)))
        yield name
        self._reporter.emit(StageFinished(name, round(time.perf_counter() - begun, 3)))

    def sending(self, stage: str) -> Callable[[int, int], None]:
        """Takes how many bytes of how many are on the board, and tells each hundredth of them."""
        told = -1

        def moved(done: int, total: int) -> None:
            nonlocal told
            step = _STEPS if done >= total else done * _STEPS // total
            if step != told:
                told = step
                self._reporter.emit(Progress(stage, done, total, "bytes"))

        return moved
