"""How one stage runs: told, timed, taken from the caches or computed and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from engine.base.errors import EngineError
from engine.base.events import Reporter, StageFinished, StageStarted
from engine.build import StageTime
from engine.jobs.cache import Memory, StageCache
from engine.jobs.memory import trim
from engine.jobs.results import Files
from engine.jobs.versions import STAGE_VERSIONS, code_digest, libraries

__all__ = ["TITLES", "StageRunner", "extra_of"]

TITLES = {
    "load": "Load the model",
    "optimise": "Optimise the graph",
    "calibrate": "Calibrate",
    "quantize": "Quantize",
    "evaluate": "Compare simulated with float",
    "container": "Pack the container",
}
"""Stage -> what a user reads while it runs."""


class _Result(Protocol):
    @property
    def key(self) -> str: ...

    def to_files(self) -> Files: ...


R = TypeVar("R", bound=_Result)


def extra_of(stage: str) -> dict[str, Any]:
    """What beside recipe and files decides a stage's result: our version and the libraries'."""
    return {"version": STAGE_VERSIONS[stage], "libraries": dict(libraries())}


def _place(key: str) -> str:
    """Where the cache on disk keeps a result: no result of other code is ever taken for ours."""
    return f"{key}-{code_digest()[:16]}"


class StageRunner:
    """Runs stages over the caches.

    Args:
        stages: that this run is going to ask for, to number them in the events.
        reporter: told of every stage.
        cache: on disk, or None.
        memory: results of a warm process.
        refresh: compute, whatever the caches hold.
    """

    def __init__(
        self,
        stages: tuple[str, ...],
        reporter: Reporter,
        cache: StageCache | None,
        memory: Memory,
        *,
        refresh: bool,
    ) -> None:
        self.stages = stages
        self.reporter = reporter
        self.cache = cache
        self.memory = memory
        self.refresh = refresh
        self.times: list[StageTime] = []

    def run_stage(
        self,
        stage: str,
        key: str,
        compute: Callable[[str], R],
        restore: Callable[[str, Mapping[str, bytes]], R],
        valid: Callable[[R], bool] = lambda _: True,
        weight: int = 0,
    ) -> R:
        """The result of a stage: kept from before, or computed and kept.

        Args:
            stage: its name.
            key: the hash of what it depends on.
            compute: makes the result.
            restore: the result from the files of the cache.
            valid: whether a kept result still holds.
            weight: bytes that the result takes in memory beside what its files hold.
        """
        self.reporter.check_cancelled()
        place = self.stages.index(stage) if stage in self.stages else 0
        self.reporter.emit(StageStarted(stage, TITLES[stage], place, len(self.stages)))
        begun = time.perf_counter()
        result = None if self.refresh else self._kept(stage, key, restore, valid, weight)
        cached = result is not None
        if result is None:
            result = compute(key)
            self.reporter.check_cancelled()
            if self.cache is not None:
                files = result.to_files()
                self.cache.put(stage, _place(key), files)
                weight += _weight(files)
            self.memory.put(key, result, weight)
            trim()
        seconds = time.perf_counter() - begun
        self.times.append(StageTime(stage, round(seconds, 4), cached))
        self.reporter.emit(StageFinished(stage, round(seconds, 4), cached))
        return result

    def is_kept(self, stage: str, key: str) -> bool:
        """Whether a result is there without computing it."""
        if self.refresh:
            return False
        known = self.memory.get(key) is not None
        return known or (self.cache is not None and self.cache.has(stage, _place(key)))

    def _kept(
        self,
        stage: str,
        key: str,
        restore: Callable[[str, Mapping[str, bytes]], R],
        valid: Callable[[R], bool],
        weight: int,
    ) -> R | None:
        result: R | None = self.memory.get(key)
        if result is not None:
            return result if valid(result) else None
        files = self.cache.get(stage, _place(key)) if self.cache is not None else None
        if files is None:
            return None
        try:
            result = restore(key, files)
        except (EngineError, ValueError, KeyError, TypeError):
            return None  # of another version, or damaged before it was written
        if not valid(result):
            return None
        self.memory.put(key, result, weight + _weight(files))
        return result


def _weight(files: Files) -> int:
    """Bytes in memory of a result: its graph is there as bytes and, once asked for, as object."""
    return 2 * sum(len(data) for data in files.values())
