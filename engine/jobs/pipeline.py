"""The stages of a build in their order, each cached by the hash of its inputs.

load -> optimise -> calibrate -> quantize -> evaluate -> container. Every stage is a function from
frozen inputs to a frozen result; changing the algorithm does not load or optimise again. The hash
covers the options of the stage, the contents of the files they name, the key of the stage before,
and the versions of this program and of the libraries that decide numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.base.events import LogLine, Reporter
from engine.base.findings import Finding
from engine.build import Provenance
from engine.jobs.cache import Memory, StageCache
from engine.jobs.quantizing import QuantizeStages, is_covered
from engine.jobs.results import (
    Evaluation,
)
from engine.jobs.stages import extra_of
from engine.jobs.versions import libraries
from engine.recipe import Recipe, option_notes, portable, stage_key

if TYPE_CHECKING:
    from engine.graph.ir.custom import CustomOperators
    from engine.jobs.deploy import Deployed

__all__ = ["BUILD_STAGES", "FLOAT_STAGES", "BuildResult", "Pipeline", "build"]

BUILD_STAGES = ("load", "optimise", "calibrate", "quantize", "evaluate", "container")
"""Stages of a quantized build."""

FLOAT_STAGES = ("load", "optimise", "container")
"""Stages of a build with ``do_quantization=False``: the others have nothing to do."""


class Pipeline(QuantizeStages):
    """The stages of one recipe; a stage runs when its result is first asked for.

    Args:
        recipe: frozen inputs of everything; paths absolute or relative to the current folder.
        reporter: told of stages and progress, asked whether to stop.
        cache: on disk; None keeps nothing.
        memory: results of a warm process.
        refresh: compute every stage, whatever the caches hold.
        stages: that this run is going to ask for, to number them in the events.
        generation: of the vendor's API whose reading of ambiguous npy shapes holds (1 or 2).
        initial_values: constants for inputs, in the place of the files of ``input_initial_val``.
        operators: gives the custom operators: those that the recipe names, or that a script
            registered. Only the former are in the keys of stages: others must not meet a cache.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        reporter: Reporter | None = None,
        cache: StageCache | None = None,
        memory: Memory | None = None,
        refresh: bool = False,
        stages: Sequence[str] | None = None,
        generation: int = 2,
        initial_values: Sequence[np.ndarray | None] | None = None,
        operators: Callable[[], CustomOperators] | None = None,
    ) -> None:
        self.generation = generation
        every = BUILD_STAGES if recipe.quantization.do_quantization else FLOAT_STAGES
        super().__init__(
            recipe,
            tuple(stages) if stages is not None else every,
            reporter=reporter,
            cache=cache,
            memory=memory,
            refresh=refresh,
            initial_values=initial_values,
            operators=operators,
        )

    # -- evaluate ------------------------------------------------------------------------------

    @cached_property
    def evaluation(self) -> Evaluation:
        """How far the simulated results are from the float ones."""
        key = stage_key(
            self.recipe, "evaluate", previous=self.quantized.key, extra=extra_of("evaluate")
        )
        return self.run_stage("evaluate", key, self._evaluate, Evaluation.from_files)

    def _evaluate(self, key: str) -> Evaluation:
        from engine.jobs.evaluate import evaluate

        outputs, layers = evaluate(
            self.reference,
            self.quantized.graph.graph,
            self.feeds(),
            self.reporter,
        )
        return Evaluation(key, outputs, layers)

    # -- container -----------------------------------------------------------------------------

    @cached_property
    def build_key(self) -> str:
        """The key of the whole build: the same for the same inputs everywhere."""
        last = self.evaluation.key if self.quantized_build else self.optimised.key
        return stage_key(self.recipe, "container", previous=last, extra=extra_of("container"))

    @cached_property
    def provenance(self) -> Provenance:
        """Where the build came from."""
        import engine

        dataset = None
        if self.quantized_build:
            name = Path(str(self.recipe.dataset.dataset)).absolute().name
            dataset = (name, self.dataset_digest)
        return Provenance(
            tool=engine.__version__,
            source=tuple(self.loaded.source.files),
            dataset=dataset,
            samples=self.calibration.samples if self.quantized_build else 0,
            libraries=libraries(),
        )

    def portable_recipe(self) -> dict[str, Any]:
        """The recipe of the container: every default written out, files as name and SHA-256."""
        recipe = self.recipe
        digests = dict(self.source.digests)
        if recipe.dataset.dataset:
            if self.quantized_build:
                digests[recipe.dataset.dataset] = self.dataset_digest
            else:  # named but not used: it must not decide a byte
                recipe = recipe.with_values(dataset=None)
        return portable(recipe, digests)

    @cached_property
    def deployed(self) -> Deployed:
        """The graphs that are simulated and packed: with their float type, shapes and batch."""
        from engine.jobs.deploy import deploy

        return deploy(self, self._again)

    def _again(self, recipe: Recipe) -> Pipeline:
        """A pipeline of the same source for another recipe, over the same caches."""
        return Pipeline(
            recipe,
            cache=self.cache,
            memory=self.memory,
            refresh=self.refresh,
            generation=self.generation,
            initial_values=self._initial_values,
            operators=self._give_operators,
        )

    @cached_property
    def container(self) -> bytes:
        """The ``.rknn`` file."""
        from engine.jobs.pack import PackedContainer, pack

        if self.quantized_build and not is_covered(self.quantized):
            return pack(self)  # not kept: another time it may be known how its layers run
        packed = self.run_stage(
            "container",
            self.build_key,
            lambda key: PackedContainer(key, pack(self)),
            PackedContainer.from_files,
        )
        return packed.data

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the stages so far noticed."""
        from engine.dataset import Preprocess
        from engine.jobs.custom import note_of
        from engine.jobs.hybrid import find_all_joins
        from engine.simulate import Simulator

        found = [*self.loaded.findings, *self.optimised.findings, *option_notes(self.recipe)]
        float_graph = self.optimised.graph.graph
        preprocess = Preprocess.from_recipe(self.recipe, self.generation)
        found += preprocess.notes(float_graph.inputs)
        custom = note_of(float_graph)
        found += [custom] if custom is not None else []
        if self.quantized_build:
            found += [*self.calibration.findings, *self.quantized.findings]
            found += find_all_joins(self)
            found += Simulator(float_graph, self.quantized.graph.graph).findings
        else:
            float_dtype = self.recipe.quantization.float_dtype
            found += Simulator(float_graph, float_dtype=float_dtype).findings
        found += self.deployed.findings
        if self.cache is not None and self.cache.finding is not None:
            found.append(self.cache.finding)
        return tuple(found)


@dataclass(frozen=True)
class BuildResult:
    """A whole build: the pipeline with every stage done, the container, and the summary."""

    pipeline: Pipeline
    container: bytes
    summary: Any

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What all stages noticed."""
        return self.pipeline.findings


def build(pipeline: Pipeline) -> BuildResult:
    """Run every stage of a recipe and sum up.

    Raises:
        EngineError: whatever a stage could not do.
    """
    from engine.jobs.summary import summarise

    container = pipeline.container
    summary = summarise(pipeline, len(container))
    for finding in summary.findings:
        if finding.severity != "info":
            pipeline.reporter.emit(LogLine(f"{finding.where}: {finding.what}", "warning"))
    return BuildResult(pipeline, container, summary)
