"""The stages of hybrid step 2: those of a build, the first ones given by the files of step 1."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from engine.base.errors import DatasetError, QuantizationError, RecipeError
from engine.base.findings import Finding
from engine.hybrid import Edits, HybridData, not_applied, verify_requests
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Stage
from engine.pipeline.results import Calibration, GraphData, LoadedModel, OptimisedGraph
from engine.pipeline.samples import RecipeSamples
from engine.pipeline.stages import STAGES
from engine.pipeline.stages.calibrate import CALIBRATE
from engine.pipeline.stages.graph import LOAD, OPTIMISE
from engine.recipe import Recipe, cache_key
from engine.wire.hybrid import RequestCheck

if TYPE_CHECKING:
    from engine.dataset import Dataset, SampleStream
    from engine.graph.ir import TensorSpec


def stages_of(data: HybridData, graph: GraphData, edits: Edits) -> tuple[Stage[Any], ...]:
    """The stages of a build with nothing to load or calibrate, and ``honour`` behind them.

    The result of ``honour`` is a tuple of :class:`~engine.hybrid.Honoured`: every edit and what
    became of it.

    Args:
        data: of the ``.data`` file.
        graph: of the structure file.
        edits: of the configuration.
    """
    facts = {**OPTIMISE.versions, "hybrid": data.facts.model}
    key = cache_key(Recipe(), "optimise", extra=facts)
    replaced: dict[str, Stage[Any]] = {
        "load": replace(LOAD, run=lambda _, key: _loaded(key, data, graph), codec=None, key=key),
        "optimise": replace(
            OPTIMISE, run=lambda _, key: OptimisedGraph(key, graph, ()), codec=None, key=key
        ),
        "calibrate": replace(
            CALIBRATE,
            run=lambda _, key: _calibration(key, data),
            codec=None,
            facts=lambda _: {"seen": _digest_of_parts(data)},
        ),
    }
    honour: Stage[tuple[RequestCheck, ...]] = Stage(
        name="honour",
        run=lambda pipeline, _: verify_requests(
            quantized_of(pipeline), edits.layers, edits.ranges, edits.lines
        ),
        inputs=("quantize",),
        findings=lambda pipeline: (*edits.findings, *not_applied(pipeline.result("honour"))),
    )
    return (*(replaced.get(stage.name, stage) for stage in STAGES), honour)


def _loaded(key: str, data: HybridData, graph: GraphData) -> LoadedModel:
    """The graph of the structure file, with the source model's files."""
    from engine.frontends.loaded import SourceInfo

    facts = data.facts
    info = SourceInfo(facts.framework, "files of hybrid step 1", facts.source)
    return LoadedModel(key, graph, info, ())


def _calibration(key: str, data: HybridData) -> Calibration:
    """What step 1 saw."""
    try:
        return Calibration.from_files(key, data.part("calibration"))
    except (QuantizationError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecipeError(
            "What calibration saw cannot be read from the .data file.",
            cause="The file was damaged, or written by another program.",
            remedy="Run hybrid step 1 again.",
        ) from error


def _digest_of_parts(data: HybridData) -> str:
    files = data.part("calibration")
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(hashlib.sha256(files[name]).digest())
    return digest.hexdigest()


class _Stream(Sized, Iterable[Mapping[str, np.ndarray]]):
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


class StepSamples:
    """The samples of the dataset where it is still there, else those of the ``.data`` file."""

    is_named = True

    def __init__(self, own: RecipeSamples, data: HybridData) -> None:
        self._own, self._data = own, data

    @property
    def dataset(self) -> Dataset:
        """The dataset; EngineError where it is not there any more."""
        return self._own.dataset

    @cached_property
    def _is_there(self) -> bool:
        try:
            return self._own.is_named and len(self._own.dataset) > 0
        except (DatasetError, RecipeError):
            return False

    @property
    def digest(self) -> str:
        """Of the dataset where it is still there, else what step 1 noted."""
        return self._own.digest if self._is_there else self._data.facts.dataset

    def feeds(self, inputs: Sequence[TensorSpec], dataset: Dataset | None = None) -> SampleStream:
        """The samples of a dataset (by default the own one) for the inputs of a model."""
        if dataset is not None or self._is_there:
            return self._own.feeds(inputs, dataset)
        return cast("SampleStream", _Stream(self._data.samples))
