"""Hybrid quantization in two steps over files, as both generations of the vendor's API have it."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.cache import LruCache, StageCache
from engine.base.errors import RecipeError, UsageError
from engine.base.events import ArtifactWritten, NullReporter, Reporter
from engine.base.files import (
    atomic_write_all,
    output_errors,
    refuse_existing,
    sha256_of,
)
from engine.base.malloc import trim_heap
from engine.base.text import sanitize
from engine.hybrid import (
    Facts,
    HybridData,
    Layers,
    build_config,
    edits_of,
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
    write_data,
)
from engine.pipeline.build import BuildResult, build
from engine.pipeline.hybrid_stages import StepSamples, stages_of
from engine.pipeline.layers import quantize_settings, resolve_promotion_dtype
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.results import GraphData
from engine.pipeline.samples import RecipeSamples
from engine.pipeline.source import RecipeSource
from engine.quantize import Quantized, quantize
from engine.quantize.dtypes.formats import scheme_of
from engine.recipe import Recipe
from engine.wire.hybrid import Proposal, RequestCheck

if TYPE_CHECKING:
    from engine.graph.ir import CustomOperators

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
    quantized = _quantized(pipeline)
    layers = Layers(graph)
    lifted = dict(quantize_settings(pipeline).layers)
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


def _quantized(pipeline: Pipeline) -> Quantized:
    """The quantized model; the stage's own result, which looks at kernels too, is not needed."""
    return quantize(
        pipeline.optimised.graph.graph,
        pipeline.calibration.observations,
        quantize_settings(pipeline),
        feeds=pipeline.feeds,
        reporter=pipeline.reporter,
    )


def _data_of(
    pipeline: Pipeline,
    structure: bytes,
    config: str,
    weights: Mapping[str, bytes],
) -> bytes:
    recipe = {
        name: value
        for name, value in pipeline.recipe.to_values().items()
        if name not in _OF_THE_SOURCE
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


# of the source model, which the structure file takes the place of
_OF_THE_SOURCE = frozenset(
    {
        "model",
        "weights",
        "inputs",
        "input_size_list",
        "input_initial_val",
        "outputs",
        "proto",
        "input_name",
        "random_weights",
        "input_is_nchw",
        "predef_file",
        "darknet_epsilon",
        "darknet_decode",
        "pytorch_route",
        "op_packages",
        "custom_ops",
        "dynamic_input",
        "optimization_level",
        "quantized_layers",
        "quantized_ranges",
    }
)


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
        samples=StepSamples(RecipeSamples(recipe, generation, reporter), held),
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
