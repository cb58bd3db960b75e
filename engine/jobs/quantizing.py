"""The stages between the loaded model and its quantized form: optimise, calibrate, quantize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.base.errors import (
    QuantizationError,
    RecipeError,
    ShortOfMemoryError,
    SimulationError,
    UsageError,
)
from engine.base.findings import Finding
from engine.base.text import printable
from engine.jobs.digests import digest_of_dataset
from engine.jobs.loading import LoadStage
from engine.jobs.results import Calibration, GraphData, OptimisedGraph, PassNote, QuantizedGraph
from engine.jobs.stages import extra_of
from engine.recipe import stage_key

if TYPE_CHECKING:
    from engine.dataset import Dataset, SampleStream
    from engine.graph.ir import Graph
    from engine.quantize import Observations, Quantized, QuantizeSettings

__all__ = ["QuantizeStages", "is_covered"]

T = TypeVar("T")

_UNFINISHED = "calibrating"
_UNCOVERED = "coverage-unknown"
"""What the cache calls observations of a calibration that is not done."""


class QuantizeStages(LoadStage):
    """The second part of a pipeline.

    Attributes:
        generation: of the vendor's API whose reading of ambiguous npy shapes holds (1 or 2).
    """

    generation = 2

    @property
    def quantized_build(self) -> bool:
        """Whether the recipe asks for quantization."""
        return bool(self.recipe.quantization.do_quantization)

    # -- optimise ------------------------------------------------------------------------------

    @cached_property
    def optimised(self) -> OptimisedGraph:
        """The float graph after the passes of its optimization level."""
        key = stage_key(
            self.recipe, "optimise", previous=self.loaded.key, extra=extra_of("optimise")
        )
        return self.run_stage(
            "optimise",
            key,
            self._optimise,
            lambda key, files: OptimisedGraph.from_files(key, files, self.operators),
        )

    def _optimise(self, key: str) -> OptimisedGraph:
        from engine.graph.passes import optimise, rewrite_as_wished

        options = self.recipe.quantization
        done = optimise(self.loaded.graph.graph, options.optimization_level, self.reporter)
        wished = rewrite_as_wished(
            done.graph,
            model_pruning=options.model_pruning,
            remove_reshape=options.remove_reshape,
            reporter=self.reporter,
        )
        log = tuple(PassNote(r.name, int(r.modified)) for r in (*done.log, *wished.log))
        return OptimisedGraph(key, GraphData(wished.graph), log, wished.findings)

    # -- calibrate -----------------------------------------------------------------------------

    @cached_property
    def dataset(self) -> Dataset:
        """The calibration dataset; RecipeError where the recipe names none."""
        from engine.dataset import read_dataset

        part = self.recipe.dataset
        if not part.dataset:
            raise RecipeError(
                "Quantization needs a calibration dataset, and none is set.",
                remedy="Set dataset to a dataset.txt or a folder of pictures, "
                "or do_quantization to no.",
            )
        return read_dataset(
            Path(part.dataset),
            count=part.dataset_count,
            seed=part.dataset_seed,
            reporter=self.reporter,
        )

    @cached_property
    def dataset_digest(self) -> str:
        """SHA-256 of the samples' contents in order."""
        return digest_of_dataset(self.dataset)

    def feeds(self, dataset: Dataset | None = None) -> SampleStream:
        """The samples of a dataset (by default the calibration's) as inputs of the model."""
        from engine.dataset import Preprocess, samples

        return samples(
            dataset or self.dataset,
            self.optimised.graph.graph.inputs,
            Preprocess.from_recipe(self.recipe, self.generation),
            self.reporter,
        )

    @cached_property
    def calibration(self) -> Calibration:
        """What the calibration samples showed of every tensor."""
        previous = self.optimised.key
        if not self.quantized_build:
            raise UsageError("A build without quantization has no calibration.")
        key = self._calibration_key(previous)
        return self.run_stage("calibrate", key, self._calibrate, Calibration.from_files)

    def _calibration_key(self, previous: str) -> str:
        return stage_key(
            self.recipe,
            "calibrate",
            contents={"dataset": self.dataset_digest},
            previous=previous,
            extra=extra_of("calibrate") | {"generation": self.generation},
        )

    @property
    def is_calibrated(self) -> bool:
        """Whether the calibration is there without running it."""
        if "calibration" in self.__dict__:
            return True
        if not self.quantized_build or not self.recipe.dataset.dataset:
            return False
        return self.is_kept("calibrate", self._calibration_key(self.optimised.key))

    def _calibrate(self, key: str) -> Calibration:
        from engine.quantize import calibrate, samples_wanted

        options = self.recipe.dataset
        feeds = self.feeds()
        seen = calibrate(
            self.optimised.graph.graph,
            feeds,
            reporter=self.reporter,
            limit=samples_wanted(options.batch_size, options.epochs),
            resume=self._left_off(key),
            checkpoint=lambda seen: self._keep(key, seen),
        )
        if self.cache is not None:
            self.cache.drop(_UNFINISHED, key)
        found = list(feeds.findings)
        if self.dataset.skipped:
            names = ", ".join(path.name for path, _ in self.dataset.skipped[:3])
            found.append(
                Finding(
                    "pictures-skipped",
                    "warning",
                    "dataset",
                    f"{len(self.dataset.skipped)} pictures could not be used, such as {names}.",
                    cause=self.dataset.skipped[0][1],
                    remedy="Repair or remove them.",
                )
            )
        return Calibration(key, seen, seen.samples, tuple(found))

    def _keep(self, key: str, seen: Observations) -> None:
        """Keep what a calibration saw so far, for the case that it is killed."""
        if self.cache is not None:
            self.cache.put(_UNFINISHED, key, seen.to_files())

    def _left_off(self, key: str) -> Observations | None:
        """What an earlier run of this calibration saw before it was killed."""
        from engine.quantize import Observations

        files = None if self.cache is None or self.refresh else self.cache.get(_UNFINISHED, key)
        if files is None:
            return None
        try:
            return Observations.from_files(files)
        except QuantizationError:
            return None

    # -- quantize ------------------------------------------------------------------------------

    def quantize_settings(self) -> QuantizeSettings:
        """How the recipe wants the model quantized.

        Raises:
            QuantizationError: the target does not have the dtype, or that of a layer (names the
                chips that do).
        """
        from engine.quantize import (
            QuantizeSettings,
            check_dtype,
            check_layer_dtype,
            layers_of_targets,
            resolve_dtype,
        )

        options, target = self.recipe.quantization, self.recipe.target.target_platform
        check_dtype(options.quantized_dtype, target)
        layers = self.by_tensor(options.quantized_layers or {})
        for dtype in dict.fromkeys(layers.values()):
            check_layer_dtype(dtype, target)
        if options.op_target:
            layers = layers_of_targets(self.optimised.graph.graph, options.op_target) | layers
        return QuantizeSettings(
            dtype=resolve_dtype(options.quantized_dtype, target),
            algorithm=options.quantized_algorithm,
            granularity=options.quantized_method,
            bias_correction=options.bias_correction,
            layers=layers,
            ranges={
                name: (low, high)
                for name, (low, high) in self.by_tensor(options.quantized_ranges or {}).items()
            },
        )

    def by_tensor(self, entries: Mapping[str, T]) -> dict[str, T]:
        """Entries for layers, by the tensors that the layers write.

        Args:
            entries: by any name of a layer: a tensor, a node, a layer of the source model. Names
                that are nobody's stay, for those who tell what is wrong with them.

        Raises:
            QuantizationError: two names of one layer have different entries.
        """
        from engine.quantize import find_layer, layer_names

        values = self.optimised.graph.graph.values if entries else {}
        others = any(name not in values for name in entries)
        layers = layer_names(self.optimised.graph.graph) if others else ()
        found: dict[str, T] = {}
        said: dict[str, str] = {}
        for name, entry in entries.items():
            named = None if name in values else find_layer(name, layers)
            tensor = name if named is None else named.tensor
            if tensor in found and found[tensor] != entry:
                raise QuantizationError(
                    f"{printable(said[tensor], 120)!r} and {printable(name, 120)!r} are one layer "
                    "and are given two values.",
                    remedy="Give the layer one entry.",
                )
            found[tensor], said[tensor] = entry, name
        return found

    @cached_property
    def quantized(self) -> QuantizedGraph:
        """The QDQ graph and its quant table."""
        key = stage_key(
            self.recipe,
            "quantize",
            previous=self.calibration.key,
            # the dtypes that names mean depend on the target
            extra=extra_of("quantize")
            | {"dtype": self.quantize_settings().dtype, "lift": self._lift_dtype},
        )
        return self.run_stage(
            "quantize",
            key,
            self._quantize,
            lambda key, files: QuantizedGraph.from_files(key, files, self.operators),
            valid=is_covered,
        )

    def _quantize(self, key: str) -> QuantizedGraph:
        from engine.quantize import quantize
        from engine.simulate import integer_coverage

        def run(settings: QuantizeSettings) -> Quantized:
            return quantize(
                self.optimised.graph.graph,
                self.calibration.observations,
                settings,
                feeds=self.feeds,
                reporter=self.reporter,
            )

        settings = self.quantize_settings()
        done = run(settings)
        lifted = self._auto_hybrid(done)
        if lifted:
            done = run(replace(settings, layers={**lifted, **settings.layers}))
        found = [*done.findings, *_lifted_note(lifted)]
        try:
            coverage = integer_coverage(done.graph)
        except ShortOfMemoryError:
            raise  # it says nothing of the build, and must not be kept as if it did
        except SimulationError as error:
            # a graph that does not run fails in the next stage, where there is one
            coverage = ()
            found.append(_uncovered(error))
        own = done.reference is not self.optimised.graph.graph
        return QuantizedGraph(
            key,
            GraphData(done.graph),
            done.table,
            coverage,
            tuple(found),
            GraphData(done.reference) if own else None,
        )

    def _auto_hybrid(self, done: Quantized) -> dict[str, str]:
        """The layers that ``auto_hybrid`` lifts: tensor -> dtype."""
        from engine.hybrid import auto_layers, some_of

        options = self.recipe.quantization
        dtype = self._lift_dtype
        if not dtype:
            return {}
        return auto_layers(
            done,
            some_of(self.feeds()),
            cosine=options.auto_hybrid_cos_thresh,
            euclidean=options.auto_hybrid_euc_thresh,
            dtype=dtype,
            reporter=self.reporter,
        )

    @cached_property
    def _lift_dtype(self) -> str:
        """What ``auto_hybrid`` lifts layers to, by the name of the target's generation; empty
        without it.

        Raises:
            QuantizationError: the target has no half precision for single layers.
        """
        from engine.hybrid import lift_dtype

        if not self.recipe.quantization.auto_hybrid:
            return ""
        target = self.recipe.target.target_platform
        dtype = lift_dtype(self.quantize_settings().dtype, target)
        if not dtype:
            raise QuantizationError(
                f"auto_hybrid has nothing to lift layers to on {target}.",
                cause="Its chips compute in integers only.",
                remedy="Switch auto_hybrid off, or choose another target, or none to simulate.",
            )
        return dtype

    @property
    def reference(self) -> Graph:
        """The float graph whose layers those of the quantized one are compared with.

        Its outputs are the optimised graph's; inner tensors may be scaled by an equalization.
        """
        reference = self.quantized.reference or self.optimised.graph
        return reference.graph


def _lifted_note(lifted: Mapping[str, str]) -> list[Finding]:
    if not lifted:
        return []
    names = ", ".join(printable(name, 60) for name in list(lifted)[:5])
    return [
        Finding(
            "auto-hybrid-lifted",
            "info",
            "auto_hybrid",
            f"{len(lifted)} layers are float16, such as {names}.",
            cause="Their own error passes auto_hybrid_cos_thresh or auto_hybrid_euc_thresh.",
            remedy="A search (rknntui hybrid search) finds fewer layers that gain more.",
        )
    ]


def is_covered(result: QuantizedGraph) -> bool:
    """Whether a kept result says how its layers run: else that is found out anew."""
    return all(finding.code != _UNCOVERED for finding in result.findings)


def _uncovered(error: SimulationError) -> Finding:
    return Finding(
        _UNCOVERED,
        "warning",
        "simulator",
        f"Which layers run in integers could not be read: {error.what}",
        cause="ONNX Runtime does not run the quantized graph.",
        remedy="Leave the layer that it names in float (quantized_layers), or report it.",
    )
