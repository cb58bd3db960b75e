"""The first stage: a source model becomes a graph."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.base.errors import EngineError
from engine.base.events import NullReporter, Reporter
from engine.graph.ir.custom import CustomOperators
from engine.jobs.cache import Memory, StageCache
from engine.jobs.digests import digest_of
from engine.jobs.results import GraphData, LoadedModel
from engine.jobs.source import CONVERTED, RecipeSource
from engine.jobs.stages import StageRunner, extra_of
from engine.recipe import Recipe, stage_key

if TYPE_CHECKING:
    from engine.frontends.loaded import Loaded

__all__ = ["LoadStage"]


class LoadStage(StageRunner):
    """The recipe's source model, its custom operators, and the graph that it is loaded as.

    Args:
        recipe: names the files.
        stages: that this run is going to ask for, to number them in the events.
        reporter: told of stages and progress, asked whether to stop.
        cache: on disk; None keeps nothing.
        memory: results of a warm process.
        refresh: compute every stage, whatever the caches hold.
        initial_values: constants for inputs, in the place of the files of ``input_initial_val``.
        operators: gives the custom operators: those that the recipe names, or that a script
            registered. Only the former are in the keys of stages: others must not meet a cache.
    """

    def __init__(
        self,
        recipe: Recipe,
        stages: tuple[str, ...],
        *,
        reporter: Reporter | None,
        cache: StageCache | None,
        memory: Memory | None,
        refresh: bool,
        initial_values: Sequence[np.ndarray | None] | None,
        operators: Callable[[], CustomOperators] | None,
    ) -> None:
        self.recipe = recipe
        self._give_operators = operators
        self._initial_values = initial_values
        super().__init__(
            stages,
            reporter or NullReporter(),
            cache,
            memory if memory is not None else Memory(),
            refresh=refresh,
        )

    @cached_property
    def operators(self) -> CustomOperators | None:
        """The custom operators; their Python is run at the first question.

        Raises:
            RecipeError: nobody allowed it to run, or it does not run.
        """
        return None if self._give_operators is None else self._give_operators()

    @cached_property
    def source(self) -> RecipeSource:
        """The source model's files; a look at them does without operators that may not run."""
        try:
            operators = self.operators
        except EngineError:
            operators = None
        return RecipeSource(self.recipe, self._initial_values, operators)

    @property
    def model_path(self) -> Path:
        """The model file; RecipeError where the recipe names none."""
        return self.source.path

    @cached_property
    def _load_key(self) -> str:
        # every stage asks for this key: none gives results of code that may not run
        _ = self.operators
        given = self._initial_values
        arrays: list[str | None] | None = None
        if given is not None:
            arrays = [None if v is None else _array_digest(v) for v in given]
        contents = self.source.contents()
        if arrays is not None:
            contents["input_initial_val"] = arrays
        extra = extra_of("load") | self.source.extra() | {"given": arrays}
        return stage_key(self.recipe, "load", contents=contents, extra=extra)

    @property
    def loads_at_once(self) -> bool:
        """Whether the graph is there in milliseconds: no other program has to convert it first."""
        if self.source.model.framework not in CONVERTED:
            return True
        return self.is_kept("load", self._load_key)

    @cached_property
    def loaded(self) -> LoadedModel:
        """The source model as graph."""
        return self.run_stage(
            "load",
            self._load_key,
            self._load,
            lambda key, files: LoadedModel.from_files(
                key, files, lambda: self._read().graph, self.operators
            ),
            self._still_there,
            weight=self.model_path.stat().st_size,
        )

    def _load(self, key: str) -> LoadedModel:
        loaded = self._read()
        return LoadedModel(key, GraphData(loaded.graph), loaded.source, loaded.findings)

    def _read(self) -> Loaded:
        from engine.frontends.load import load_source

        return load_source(self.source.model, self.reporter)

    def _still_there(self, loaded: LoadedModel) -> bool:
        """Whether external data of the model is what it was; what else it has is in the key."""
        if loaded.source.framework != "onnx":
            return True
        folder = self.model_path.parent
        try:
            return all(digest_of(folder / name) == sha for name, sha in loaded.source.files[1:])
        except EngineError:
            return False


def _array_digest(array: np.ndarray) -> str:
    head = f"{array.dtype.str} {array.shape} ".encode("ascii")
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()
