"""Stages as values, and the pipeline that they are composed to.

A stage is a function from frozen inputs to a frozen result. Its result is kept by the hash of what
it depends on: the options of the stage, the contents of the files they name, the keys of its
inputs, and the versions of this program and of the libraries that decide numbers. So changing the
algorithm does not load or optimise again. Nothing here knows what a stage does; those of a build
are listed in :mod:`engine.pipeline.stages`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.base.cache import LruCache, StageCache
from engine.base.errors import EngineError, UsageError
from engine.base.events import NullReporter, Reporter, StageFinished, StageStarted
from engine.base.findings import Finding
from engine.base.peers.limits import trim
from engine.base.plain import JsonObject
from engine.base.version import __version__
from engine.build import StageTime
from engine.pipeline.fingerprints import code_fingerprint, library_versions
from engine.pipeline.results import (
    Calibration,
    Deployed,
    Evaluation,
    Files,
    LoadedModel,
    OptimisedGraph,
    PackedContainer,
    QuantizedGraph,
)
from engine.pipeline.samples import RecipeSamples
from engine.pipeline.source import RecipeSource
from engine.recipe import Recipe, cache_key

if TYPE_CHECKING:
    from engine.dataset import Dataset, SampleStream
    from engine.graph.ir import Graph

R = TypeVar("R")


@dataclass(frozen=True)
class Codec(Generic[R]):
    """How a result becomes files of the cache, and how it is read back under its key."""

    to_files: Callable[[R], Files]
    from_files: Callable[[Pipeline, str, Mapping[str, bytes]], R]


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[R]):
    """One step of a pipeline.

    Attributes:
        name: in events, in the cache, and what other stages call it.
        title: what a user reads while it runs.
        run: the result, from a pipeline and the key of the stage.
        inputs: names of the stages whose keys are part of this one's; ``run`` may ask for them and
            for all before them.
        codec: None where the result is there at once: it is neither told nor kept.
        quantized_only: a build without quantization leaves the stage out, and those that have it
            as input take its inputs instead.
        on_request: a whole build leaves the stage out: it runs only where its result is asked for.
        options: the stage whose options (``Option.stage``) decide the result; empty: its own name.
        version: raised where the code gives another result for the same inputs.
        contents: for each option that names files, the hash of what they hold.
        facts: what else decides the result.
        key: of a result that is given from elsewhere, in the place of the hash of all these.
        is_valid: whether a result out of the cache still holds.
        is_cached: whether the result may be kept, or taken from the cache.
        weight: bytes that the result takes in memory beside what its files hold.
        findings: what a user should know once the result is there.
    """

    name: str
    run: Callable[[Pipeline, str], R]
    title: str = ""
    inputs: tuple[str, ...] = ()
    codec: Codec[R] | None = None
    quantized_only: bool = False
    on_request: bool = False
    options: str = ""
    version: int = 1
    contents: Callable[[Pipeline], JsonObject] = lambda _: {}
    facts: Callable[[Pipeline], JsonObject] = lambda _: {}
    key: str = ""
    is_valid: Callable[[Pipeline, R], bool] = lambda _, __: True
    is_cached: Callable[[Pipeline], bool] = lambda _: True
    weight: Callable[[Pipeline], int] = lambda _: 0
    findings: Callable[[Pipeline], Iterable[Finding]] = lambda _: ()

    @property
    def versions(self) -> JsonObject:
        """The versions of our code and of the libraries that decide the result."""
        return {"version": f"{__version__}.{self.version}", "libraries": dict(library_versions())}


def reported_stages(
    stages: Sequence[Stage[Any]], last: str | None = None, *, quantized: bool = True
) -> tuple[str, ...]:
    """Names of the stages that a user is told of, in order.

    Args:
        stages: of a pipeline.
        last: only this one and what it takes; None: all; empty: none.
        quantized: whether the build quantizes.
    """
    named = {stage.name: stage for stage in stages}

    def taken(name: str) -> set[str]:
        return {name}.union(*map(taken, named[name].inputs))

    usual = {stage.name for stage in stages if not stage.on_request}
    names = usual if last is None else taken(last) if last else set()
    return tuple(
        stage.name
        for stage in stages
        if stage.name in names
        and stage.codec is not None
        and (quantized or not stage.quantized_only)
    )


class _Result(Generic[R]):
    """An attribute of a pipeline: the result of the stage of a name."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def __get__(self, pipeline: Pipeline, owner: type[Pipeline]) -> R:
        result: R = pipeline.result(self._stage)
        return result


class Pipeline:
    """Stages over one recipe; a stage runs when its result is first asked for.

    Args:
        recipe: frozen inputs of everything; paths absolute or relative to the current folder.
        stages: each behind its inputs.
        reporter: told of stages and progress, asked whether to stop.
        cache: on disk; None keeps nothing.
        memory: results of a warm process.
        refresh: compute every stage, whatever the caches hold.
        generation: of the vendor's API whose reading of ambiguous npy shapes holds (1 or 2).
        source: the source model; by default as the recipe names it.
        samples: the calibration samples; by default those that the recipe names.
        last: the last stage that this run is going to ask for, to number them in the events; None:
            the last of all; empty: nobody knows.
        then: names of the caller's own steps behind it (see :meth:`step`).

    Raises:
        ValueError: a stage stands before one of its inputs, or two have one name.
    """

    loaded = _Result[LoadedModel]("load")
    optimised = _Result[OptimisedGraph]("optimise")
    calibration = _Result[Calibration]("calibrate")
    quantized = _Result[QuantizedGraph]("quantize")
    evaluation = _Result[Evaluation]("evaluate")
    deployed = _Result[Deployed]("deploy")
    packed = _Result[PackedContainer]("container")

    def __init__(
        self,
        recipe: Recipe,
        stages: Sequence[Stage[Any]],
        *,
        reporter: Reporter | None = None,
        cache: StageCache | None = None,
        memory: LruCache | None = None,
        refresh: bool = False,
        generation: int = 2,
        source: RecipeSource | None = None,
        samples: RecipeSamples | None = None,
        last: str | None = None,
        then: Sequence[str] = (),
    ) -> None:
        self.recipe = recipe
        self.reporter = reporter or NullReporter()
        self.cache = cache
        self.memory = memory if memory is not None else LruCache()
        self.refresh = refresh
        self.generation = generation
        self.source = source or RecipeSource(recipe)
        self.samples = samples or RecipeSamples(recipe, generation, self.reporter)
        self.times: list[StageTime] = []
        self._stages: dict[str, Stage[Any]] = {}
        for stage in stages:
            if stage.name in self._stages or not self._stages.keys() >= {*stage.inputs}:
                raise ValueError(f"Stage {stage.name} stands twice, or before its inputs.")
            self._stages[stage.name] = stage
        self.told = (*reported_stages(stages, last, quantized=self.quantized_build), *then)
        self._keys: dict[str, str] = {}
        self._results: dict[str, object] = {}

    # -- what stages work on -------------------------------------------------------------------

    @property
    def quantized_build(self) -> bool:
        """Whether the recipe asks for quantization."""
        return bool(self.recipe.quantization.do_quantization)

    @property
    def dataset(self) -> Dataset:
        """The calibration dataset; RecipeError where the recipe names none."""
        return self.samples.dataset

    def feeds(self, dataset: Dataset | None = None) -> SampleStream:
        """The samples of a dataset (by default the calibration's) as inputs of the model."""
        return self.samples.feeds(self.optimised.graph.graph.inputs, dataset)

    @property
    def reference(self) -> Graph:
        """The float graph whose layers those of the quantized one are compared with.

        Its outputs are the optimised graph's; inner tensors may be scaled by an equalization.
        """
        return (self.quantized.reference or self.optimised.graph).graph

    def with_recipe(self, recipe: Recipe) -> Pipeline:
        """The same stages of the same source for another recipe, over the same caches."""
        return self._like(recipe, self._stages, source=replace(self.source, recipe=recipe))

    def with_stage(self, stage: Stage[Any]) -> Pipeline:
        """The same recipe with another stage of the same name, over the same caches."""
        stages = {**self._stages, stage.name: stage}
        more = {"reporter": self.reporter, "source": self.source, "last": stage.name}
        return self._like(self.recipe, stages, **more)

    def _like(self, recipe: Recipe, stages: Mapping[str, Stage[Any]], **more: Any) -> Pipeline:
        return Pipeline(
            recipe,
            tuple(stages.values()),
            cache=self.cache,
            memory=self.memory,
            refresh=self.refresh,
            generation=self.generation,
            **more,
        )

    # -- results -------------------------------------------------------------------------------

    def get(self, stage: Stage[R]) -> R:
        """The result of a stage of this name.

        Raises:
            EngineError: whatever the stage, or one before it, could not do.
        """
        result: R = self.result(stage.name)
        return result

    def result(self, name: str) -> Any:
        """As :meth:`get`, by the name of the stage."""
        if name not in self._results:
            stage = self._stages[name]
            if stage.quantized_only and not self.quantized_build:
                raise UsageError(f"A build without quantization has no stage {name!r}.")
            for before in self._inputs(stage):
                self.result(before)
            key = self.key(name)
            result = stage.run(self, key) if stage.codec is None else self._told(stage, key)
            self._results[name] = result
        return self._results[name]

    def key(self, name: str) -> str:
        """The hash of what a stage depends on: the same for the same inputs everywhere."""
        if name not in self._keys:
            stage = self._stages[name]
            self._keys[name] = stage.key or cache_key(
                self.recipe,
                stage.options or name,
                contents=stage.contents(self),
                previous=" ".join(map(self.key, self._inputs(stage))),
                extra={**stage.versions, **stage.facts(self)},
            )
        return self._keys[name]

    def has(self, name: str) -> bool:
        """Whether the result of a stage is there without computing it."""
        stage = self._stages[name]
        if name in self._results or stage.codec is None:
            return True
        if self.refresh:
            return False
        key = self.key(name)
        if self.memory.get(key) is not None:
            return True
        return self.cache is not None and self.cache.has(name, _place(key))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the stages noticed; those that are needed for it run."""
        findings: list[Finding] = []
        for stage in self._stages.values():
            if not stage.on_request and (self.quantized_build or not stage.quantized_only):
                findings += stage.findings(self)
        if self.cache is not None and self.cache.finding is not None:
            findings.append(self.cache.finding)
        return tuple(findings)

    # -- telling -------------------------------------------------------------------------------

    @contextmanager
    def step(self, name: str, title: str) -> Iterator[None]:
        """Tell the last step of a job as the stages are told; its result is the caller's."""
        self.reporter.emit(StageStarted(name, title, max(0, len(self.told) - 1), len(self.told)))
        begun = time.perf_counter()
        yield
        self.reporter.emit(StageFinished(name, round(time.perf_counter() - begun, 4)))

    def _told(self, stage: Stage[R], key: str) -> R:
        self.reporter.check_cancelled()
        place = self.told.index(stage.name) if stage.name in self.told else 0
        self.reporter.emit(StageStarted(stage.name, stage.title, place, len(self.told)))
        begun = time.perf_counter()
        kept = stage.is_cached(self)
        result = self._from_caches(stage, key) if kept and not self.refresh else None
        cached = result is not None
        if result is None:
            result = stage.run(self, key)
            self.reporter.check_cancelled()
            if kept:
                self._keep(stage, key, result)
            trim()
        seconds = round(time.perf_counter() - begun, 4)
        self.times.append(StageTime(stage.name, seconds, cached))
        self.reporter.emit(StageFinished(stage.name, seconds, cached))
        return result

    def _inputs(self, stage: Stage[Any]) -> Iterator[str]:
        """The inputs of a stage in this build."""
        for name in stage.inputs:
            before = self._stages[name]
            if before.quantized_only and not self.quantized_build:
                yield from self._inputs(before)
            else:
                yield name

    # -- caches --------------------------------------------------------------------------------

    def _keep(self, stage: Stage[R], key: str, result: R) -> None:
        weight = stage.weight(self)
        if self.cache is not None and stage.codec is not None:
            files = stage.codec.to_files(result)
            self.cache.put(stage.name, _place(key), files)
            weight += _weight(files)
        self.memory.put(key, result, weight)

    def _from_caches(self, stage: Stage[R], key: str) -> R | None:
        result: R | None = self.memory.get(key)
        if result is not None:
            return result if stage.is_valid(self, result) else None
        files = None if self.cache is None else self.cache.get(stage.name, _place(key))
        if files is None or stage.codec is None:
            return None
        try:
            result = stage.codec.from_files(self, key, files)
        except (EngineError, ValueError, KeyError, TypeError):
            return None  # of another version, or damaged before it was written
        if not stage.is_valid(self, result):
            return None
        self.memory.put(key, result, stage.weight(self) + _weight(files))
        return result


def _place(key: str) -> str:
    """Where the cache on disk keeps a result: no result of other code is ever taken for ours."""
    return f"{key}-{code_fingerprint()[:16]}"


def _weight(files: Files) -> int:
    """Bytes in memory of a result: its graph is there as bytes and, once asked for, as object."""
    return 2 * sum(len(data) for data in files.values())
