"""Hybrid quantization in two steps over files, as both generations of the vendor's API have it."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from engine.base.cache import LruCache, StageCache
from engine.base.errors import DatasetError, QuantizationError, RecipeError, UsageError
from engine.base.events import ArtifactWritten, NullReporter, Reporter
from engine.base.files import atomic_write_all, output_errors, refuse_existing, sha256_of
from engine.base.findings import Finding
from engine.base.peers.limits import trim_heap
from engine.base.text import sanitize
from engine.hybrid import (
    Edits,
    Facts,
    HybridData,
    Layers,
    build_config,
    edits_of,
    not_applied,
    parse_config,
    propose,
    read_config,
    read_data,
    read_structure,
    remark_of,
    render_config,
    structure_json,
    subgraph_layers,
    subsample,
    verify_requests,
    write_data,
)
from engine.options import OPTIONS
from engine.pipeline.build import BuildResult, build
from engine.pipeline.layers import (
    quantize_as,
    quantize_settings,
    quantized_of,
    resolve_promotion_dtype,
)
from engine.pipeline.pipeline import Pipeline, Stage
from engine.pipeline.results import Calibration, GraphData, LoadedModel, OptimisedGraph
from engine.pipeline.samples import RecipeSamples
from engine.pipeline.source import RecipeSource
from engine.pipeline.stages import STAGES
from engine.pipeline.stages.graph import LOAD, OPTIMISE
from engine.pipeline.stages.quantize import CALIBRATE
from engine.quantize.dtypes.formats import scheme_of
from engine.recipe import Recipe, cache_key
from engine.wire.hybrid import Proposal, RequestCheck

if TYPE_CHECKING:
    from engine.dataset import Dataset, SampleStream
    from engine.graph.ir import CustomOperators, TensorSpec

# The stages of hybrid step 2: those of a build, the first ones given by the files of step 1.


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


class _Stream(list[Mapping[str, np.ndarray]]):
    """The samples of a ``.data`` file, as a stream of samples is used."""

    findings: tuple[Finding, ...] = ()


class StepSamples(RecipeSamples):
    """The samples of the dataset where it is still there, else those of the ``.data`` file."""

    def __init__(
        self, recipe: Recipe, generation: int, reporter: Reporter, data: HybridData
    ) -> None:
        super().__init__(recipe, generation, reporter)
        self._data = data

    @property
    def is_named(self) -> bool:
        """There always are samples."""
        return True

    @cached_property
    def _is_there(self) -> bool:
        try:
            return super().is_named and len(self.dataset) > 0
        except (DatasetError, RecipeError):
            return False

    @cached_property
    def digest(self) -> str:
        """Of the dataset where it is still there, else what step 1 noted."""
        return super().digest if self._is_there else self._data.facts.dataset

    def feeds(self, inputs: Sequence[TensorSpec], dataset: Dataset | None = None) -> SampleStream:
        """The samples of a dataset (by default the own one) for the inputs of a model."""
        if dataset is not None or self._is_there:
            return super().feeds(inputs, dataset)
        return cast("SampleStream", _Stream(self._data.samples))


_STRUCTURE = {1: "json", 2: "model"}
_KEPT_SAMPLES = 4


@dataclass(frozen=True)
class StepFiles:
    """The three files of step 1: structure, data and configuration."""

    model: Path
    data: Path
    config: Path

    @classmethod
    def of(cls, folder: Path, stem: str, generation: int) -> StepFiles:
        """As the vendor names them."""
        return cls(
            folder / f"{stem}.{_STRUCTURE[generation]}",
            folder / f"{stem}.data",
            folder / f"{stem}.quantization.cfg",
        )


def write_step1(
    pipeline: Pipeline,
    folder: Path,
    *,
    proposal: bool = False,
    proposal_dataset_size: int = 1,
    custom_hybrid: Sequence[Sequence[str]] | None = None,
    overwrite: bool = False,
    name: str | None = None,
) -> tuple[StepFiles, Proposal | None]:
    """Calibrate, quantize, and write structure, data and configuration.

    Args:
        pipeline: of the model; its own lifted layers stand in the configuration.
        folder: where the files go, under the model's name.
        proposal: lift the layers that :func:`engine.hybrid.propose` chooses.
        proposal_dataset_size: how many samples it looks at.
        custom_hybrid: pairs of names; every layer between them is lifted.
        overwrite: whether files that exist may be replaced.
        name: of the files, without what they end with; None: as the model's file.

    Returns:
        the files, and what was proposed, where that was asked for.

    Raises:
        OutputExistsError, OutputError: before anything is computed, where they can be foreseen.
        EngineError: the model cannot be quantized, a name of ``custom_hybrid`` does not exist.
    """
    if not pipeline.quantized_build:
        raise UsageError(
            "Hybrid quantization needs a quantized build.", remedy="Set do_quantization to yes."
        )
    if len(pipeline.recipe.source.dynamic_input or ()) > 1:
        raise UsageError(
            "The files of hybrid step 1 hold one set of input shapes.",
            cause="dynamic_input names several.",
            remedy="Set quantized_layers in the recipe instead; it works with dynamic_input.",
        )
    generation = scheme_of(quantize_settings(pipeline).dtype).generation
    files = StepFiles.of(folder, name or pipeline.source.path.stem, generation)
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path in vars(files).values():
        refuse_existing(path, overwrite=overwrite)
    graph = pipeline.optimised.graph.graph
    settings = quantize_settings(pipeline)
    # the stage's own result, which looks at kernels too, is not needed
    quantized = quantize_as(pipeline, settings)
    layers = Layers(graph)
    lifted = dict(settings.layers)
    dtype = resolve_promotion_dtype(pipeline) if proposal or custom_hybrid else ""
    chosen = subgraph_layers(layers, custom_hybrid or ())
    lifted |= dict.fromkeys(chosen, dtype)
    proposed = None
    if proposal:
        samples = subsample(pipeline.feeds(), max(1, proposal_dataset_size))
        trim_heap()
        proposed = propose(quantized, samples, dtype=dtype, reporter=pipeline.reporter)
        trim_heap()
        lifted |= proposed.layers
    remark = "" if proposed is None else remark_of(proposed)
    config = render_config(build_config(layers, quantized.table, generation, lifted), remark)
    structure, weights = structure_json(layers) if generation == 1 else (graph.to_bytes(), {})
    data = _data_of(pipeline, structure, config, weights)
    contents = ((files.model, structure), (files.data, data), (files.config, config.encode()))
    sizes = atomic_write_all(contents, overwrite=overwrite)
    for (path, _), size in zip(contents, sizes, strict=True):
        pipeline.reporter.emit(ArtifactWritten(str(path), "hybrid", size))
    return files, proposed


def _data_of(
    pipeline: Pipeline,
    structure: bytes,
    config: str,
    weights: Mapping[str, bytes],
) -> bytes:
    recipe = {
        name: value
        for name, value in pipeline.recipe.to_values().items()
        if name not in _IN_THE_FILES
    }
    facts = Facts(
        generation=scheme_of(quantize_settings(pipeline).dtype).generation,
        api=pipeline.generation,
        recipe=recipe,
        model=hashlib.sha256(structure).hexdigest(),
        source=tuple(pipeline.loaded.source.files),
        framework=pipeline.loaded.source.framework,
        dataset=pipeline.samples.digest,
    )
    seen = pipeline.calibration.to_files()
    files = {"written.cfg": config.encode("utf-8"), **weights}
    files |= {f"calibration/{name}": content for name, content in seen.items()}
    samples = subsample(pipeline.feeds(), _KEPT_SAMPLES)
    return write_data(HybridData(facts, files, tuple(samples)))


# what the files hold in their own way; the structure file takes the place of the source model
_IN_THE_FILES = frozenset({"optimization_level", "quantized_layers", "quantized_ranges"}) | {
    option.name for option in OPTIONS if option.section == "source"
}


@dataclass(frozen=True)
class StepTwo:
    """A build of step 2, and what became of every edit."""

    result: BuildResult
    honoured: tuple[RequestCheck, ...]


def build_step2(
    model: Path,
    data: Path,
    config: Path,
    *,
    dataset: Path | None = None,
    reporter: Reporter | None = None,
    memory: LruCache | None = None,
    operators: CustomOperators | None = None,
) -> StepTwo:
    """Build from the files of step 1, the configuration edited.

    Args:
        model, data, config: the three files.
        dataset: in the place of the one that step 1 had; ranges stay those of step 1.
        reporter: told of stages and progress, asked whether to stop.
        memory: results of a warm process.
        operators: the custom operators, whose code no file holds.

    Raises:
        RecipeError: a file is missing, damaged, foreign, or belongs to other ones; names, dtypes
            or ranges of the configuration that cannot be, with their lines.
        EngineError: whatever a stage could not do.
    """
    held = read_data(data)
    if sha256_of_structure(model) != held.facts.model:
        raise RecipeError(
            f"{sanitize(str(model), 200)} and {sanitize(str(data), 200)} do not belong together.",
            cause="One of them was changed, or they come from two runs of step 1.",
            remedy="Run step 1 again; edit the .quantization.cfg alone.",
        )
    if "written.cfg" not in held.files or not held.part("calibration"):
        raise RecipeError(
            f"{sanitize(str(data), 300)} lacks what step 1 wrote.",
            cause="It was damaged, or written by another program.",
            remedy="Run hybrid step 1 again.",
        )
    edited = read_config(config)
    graph = read_structure(model, held.part("weights"), operators)
    written, _ = parse_config(held.files["written.cfg"])
    if edited.generation != held.facts.generation:
        raise RecipeError(
            f"{sanitize(str(config), 300)} is of generation {edited.generation}, the other files "
            f"are of generation {held.facts.generation}.",
            remedy="Give the three files of one run of step 1.",
        )
    layers = Layers(graph)
    edits = edits_of(edited, written, layers, str(config))
    values = {**held.facts.recipe, "model": str(model.absolute())}
    if dataset is not None:
        values["dataset"] = str(dataset.absolute())
    spans = layers.map.by_id(edits.ranges)
    values["quantized_layers"] = dict(edits.layers) or None
    values["quantized_ranges"] = {name: list(span) for name, span in spans.items()} or None
    recipe = Recipe.from_values({k: v for k, v in values.items() if v is not None})
    reporter = reporter or NullReporter()
    generation = held.facts.api
    pipeline = Pipeline(
        recipe,
        stages_of(held, GraphData(graph), edits),
        reporter=reporter,
        cache=None if operators else StageCache(),
        memory=memory,
        generation=generation,
        source=RecipeSource(recipe, None, None if operators is None else lambda: operators),
        samples=StepSamples(recipe, generation, reporter, held),
    )
    return StepTwo(build(pipeline), pipeline.result("honour"))


def sha256_of_structure(path: Path) -> str:
    """SHA-256 of the structure file; RecipeError where it cannot be read."""
    try:
        if path.is_fifo() or path.is_char_device():  # reading it would never end
            raise OSError(errno.EINVAL, "It is a pipe or a device")
        return sha256_of(path)
    except OSError as error:
        raise RecipeError(
            f"{sanitize(str(path), 300)} could not be read: {error.strerror or error}.",
            remedy="Give the .model or .json file that step 1 wrote.",
        ) from error
