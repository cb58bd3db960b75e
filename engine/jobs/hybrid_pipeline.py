"""A pipeline that starts from the files of hybrid step 1."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from engine.base.errors import DatasetError, QuantizationError, RecipeError
from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.hybrid import Edits, Honoured, HybridData, unmet, verify
from engine.jobs.cache import Memory, StageCache
from engine.jobs.hybrid import quantized_of
from engine.jobs.pipeline import Pipeline
from engine.jobs.results import Calibration, GraphData, LoadedModel, OptimisedGraph
from engine.jobs.stages import extra_of
from engine.recipe import Recipe, stage_key

if TYPE_CHECKING:
    from engine.dataset import Dataset, SampleStream
    from engine.graph.ir import CustomOperators

__all__ = ["HybridPipeline"]

_STAGES = ("quantize", "evaluate", "container")


class _Kept(Sized, Iterable[Mapping[str, np.ndarray]]):
    """The samples of a ``.data`` file, as a stream of samples is used."""

    findings: tuple[Finding, ...] = ()

    def __init__(self, samples: Sequence[Mapping[str, np.ndarray]]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Mapping[str, np.ndarray]:
        return self._samples[index]

    def __iter__(self) -> Iterator[Mapping[str, np.ndarray]]:
        return iter(self._samples)


class HybridPipeline(Pipeline):
    """A pipeline that starts from the files of step 1: nothing is loaded or calibrated again.

    Args:
        data: of the ``.data`` file.
        graph: of the structure file.
        edits: of the configuration.
        recipe: with the edits in it, and the structure file as its model.
        reporter: told of stages and progress, asked whether to stop.
        cache, memory: as of :class:`Pipeline`.
        operators: gives the custom operators.
    """

    def __init__(
        self,
        data: HybridData,
        graph: GraphData,
        edits: Edits,
        recipe: Recipe,
        *,
        reporter: Reporter | None = None,
        cache: StageCache | None = None,
        memory: Memory | None = None,
        operators: Callable[[], CustomOperators] | None = None,
    ) -> None:
        super().__init__(
            recipe,
            reporter=reporter,
            cache=cache,
            memory=memory,
            stages=_STAGES,
            generation=int(data.facts.get("api", 2)),
            operators=operators,
        )
        self._data = data
        self._graph = graph
        self._edits = edits
        self._key = stage_key(
            Recipe(),
            "optimise",
            extra=extra_of("optimise") | {"hybrid": str(data.facts["model"])},
        )

    @cached_property
    def loaded(self) -> LoadedModel:
        """The graph of the structure file, with the source model's files."""
        from engine.frontends.loaded import SourceInfo

        files = tuple((str(name), str(sha)) for name, sha in self._data.facts.get("source") or ())
        framework = str(self._data.facts.get("framework", "onnx"))
        info = SourceInfo(framework, "files of hybrid step 1", 0, 0, "", files)
        return LoadedModel(self._key, self._graph, info, ())

    @cached_property
    def optimised(self) -> OptimisedGraph:
        """The graph of the structure file."""
        return OptimisedGraph(self._key, self._graph, ())

    @cached_property
    def calibration(self) -> Calibration:
        """What step 1 saw."""
        files = self._data.part("calibration")
        digest = hashlib.sha256()
        for name in sorted(files):
            digest.update(hashlib.sha256(files[name]).digest())
        extra = extra_of("calibrate") | {"seen": digest.hexdigest()}
        contents = {"dataset": self.dataset_digest}
        key = stage_key(
            self.recipe, "calibrate", contents=contents, previous=self._key, extra=extra
        )
        try:
            return Calibration.from_files(key, files)
        except (QuantizationError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RecipeError(
                "What calibration saw cannot be read from the .data file.",
                cause="The file was damaged, or written by something else.",
                remedy="Run hybrid step 1 again.",
            ) from error

    @cached_property
    def _has_dataset(self) -> bool:
        if not self.recipe.dataset.dataset:
            return False
        try:
            return len(self.dataset) > 0
        except (DatasetError, RecipeError):
            return False

    @cached_property
    def dataset_digest(self) -> str:
        """Of the dataset where it is still there, else what step 1 noted."""
        if self._has_dataset:
            return super().dataset_digest
        return str(self._data.facts.get("dataset", ""))

    def feeds(self, dataset: Dataset | None = None) -> SampleStream:
        """The samples of the dataset where it is still there, else those of the ``.data`` file."""
        if dataset is not None or self._has_dataset:
            return super().feeds(dataset)
        return cast("SampleStream", _Kept(self._data.samples))

    @cached_property
    def honoured(self) -> tuple[Honoured, ...]:
        """Every edit and what became of it."""
        edits = self._edits
        return verify(quantized_of(self), edits.layers, edits.ranges, edits.lines)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of a build, and of the edits."""
        return (*super().findings, *self._edits.findings, *unmet(self.honoured))
