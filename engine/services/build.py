"""The worker's jobs of a build: build, simulate, accuracy, export; its quant table as rows."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.content import reading
from engine.base.errors import UsageError
from engine.base.events import ArtifactWritten, LogLine, Reporter, StageFinished, StageStarted
from engine.base.files import atomic_write, refuse_existing
from engine.base.findings import EXTERNAL_WEIGHTS
from engine.base.trust import trusted_code
from engine.base.version import __version__
from engine.dataset import Preprocess, dataset_from_paths, samples
from engine.export.tflite import to_tflite
from engine.frontends.sniff import sniff
from engine.graph.execute.custom import has_custom
from engine.graph.ir import describe
from engine.pipeline.analysis import analyse_build
from engine.pipeline.build import build as run
from engine.pipeline.comparison_model import comparison_onnx
from engine.pipeline.compile_sources import NHWC_FRAMEWORKS
from engine.pipeline.runner import Runnable, does_not_run, load_packed, unknown_finding
from engine.pipeline.trusted_code import load_custom_ops
from engine.quantize import is_quantized_source, lower_for_vendor, require_plain_run
from engine.recipe import portable_recipe
from engine.report import CONTAINER_NOTE
from engine.services.registry import answers, runs
from engine.services.state import WORKER_STATE, float_runnable, get_pipeline, recipe_at, recipe_of
from engine.simulate.outputs import figures_of_output, output_files, save_outputs
from engine.wire.build import (
    ACCURACY,
    BUILD,
    EXPORT,
    SIMULATE,
    AccuracyParams,
    Analysis,
    BuildParams,
    Exported,
    ExportParams,
    Simulated,
    SimulateParams,
    form_of,
)
from engine.wire.model import LOAD, RANGES, Loaded, LoadParams, RangeRow, Ranges
from engine.wire.requests import ModelTarget

if TYPE_CHECKING:
    from engine.base.findings import Finding
    from engine.build import BuildSummary
    from engine.export.tflite import TfliteModel
    from engine.graph.ir import CustomOperators
    from engine.pipeline.pipeline import Pipeline

ONNX_NOTE = (
    "QDQ ONNX, opset 19: load it with rknn-toolkit2 and build with do_quantization=False; that "
    "compiles it for the NPU with the quantization made here."
)
"""What an export of QDQ ONNX says."""

LAYERS_NOTE = (
    "QDQ ONNX, opset 19, whose outputs are the layers: compile it with rknn-toolkit2 without mean "
    "and std (do_quantization=False), then `rknntui compare MODEL --compiled FILE.rknn`."
)
"""What an export with the layers says."""

FLOAT_ONNX_NOTE = (
    "Float ONNX, opset 19: rknn-toolkit2 builds it in float16 with do_quantization=False."
)
"""What an export of a build without quantization says."""


TFLITE_NOTE = (
    "TFLite of 8 bits: it runs in TFLite's interpreter and with drivers that take such files, as "
    "the open NPU driver of the mainline kernel does. It is no file for the vendor's runtime."
)
"""What an export of TFLite says, before what each input and output is."""


@runs(LOAD)
def load(params: LoadParams, reporter: Reporter) -> Loaded:
    """Load a source model, converting it where its framework needs that, and describe the graph."""
    pipeline = get_pipeline(recipe_at(params), reporter, refresh=params.refresh, last="load")
    loaded = pipeline.loaded
    facts, taken = describe(loaded.graph.graph), pipeline.times[-1]
    return Loaded(
        framework=loaded.source.framework,
        format=loaded.source.format,
        producer=loaded.source.producer,
        files=loaded.source.files,
        **vars(facts),
        findings=loaded.findings,
        seconds=taken.seconds,
        cached=taken.cached,
    )


@runs(BUILD)
def build(params: BuildParams, reporter: Reporter) -> BuildSummary:
    """Every stage of a recipe; the build summary."""
    summary: BuildSummary = run(
        get_pipeline(recipe_at(params), reporter, refresh=params.refresh)
    ).summary
    return summary


def _runnable(
    params: SimulateParams, reporter: Reporter
) -> tuple[Runnable, Runnable | None, Preprocess, tuple[str, ...]]:
    """What a request runs, its float graph where it is known and another one, how its inputs are
    prepared, and the stages that it took.
    """
    if params.path and params.recipe is None:
        path = Path(params.path)
        if sniff(path).kind in ("rknn", "rknn_vendor"):
            operators = _operators_beside(params)
            container = load_packed(path)
            if (unknown := unknown_finding(container, path)) is not None:
                reporter.emit(LogLine(f"{unknown.what} {unknown.cause}", "warning"))
            key = f"run {container.sha256}"
            kept = None if operators else WORKER_STATE.get(key)
            kept = kept or Runnable.of_container(path, operators)
            if not operators:
                WORKER_STATE.put(key, kept)
            with reading(lambda why: does_not_run(path, why)):
                return kept, None, Preprocess.from_recipe(portable_recipe(kept.recipe)), ()
    recipe = recipe_at(params)
    pipeline = get_pipeline(recipe, reporter, last="quantize", then=("simulate",))
    _ = pipeline.quantized if pipeline.quantized_build else pipeline.optimised
    key = f"run {pipeline.key('deploy')}"
    kept = WORKER_STATE.get_or_make(key, lambda: Runnable.of_build(pipeline))
    floats = float_runnable(pipeline) if pipeline.quantized_build else None
    return kept, floats, Preprocess.from_recipe(recipe), pipeline.told[:-1]


def _operators_beside(params: SimulateParams) -> CustomOperators:
    """The custom operators that a request gives beside a container, which holds no code."""
    source = params.source
    named = {name: source[name] for name in ("custom_ops", "op_packages") if source.get(name)}
    return load_custom_ops(recipe_of(named), allowed=trusted_code())


@runs(SIMULATE)
def simulate(params: SimulateParams, reporter: Reporter) -> Simulated:
    """Run one sample; statistics and the largest values of every output, saved where asked."""
    paths = _paths(params.inputs)
    runnable, floats, preprocess, stages = _runnable(params, reporter)
    runnable = runnable.in_form(params.arithmetic, compiled=params.as_compiled)
    save = None if params.save is None else Path(params.save)
    names = [spec.name for spec in runnable.outputs]
    files = output_files(names, save, force=params.force)
    reporter.emit(StageStarted("simulate", "Simulate", len(stages), len(stages) + 1))
    dataset = dataset_from_paths(paths, len(runnable.inputs))
    if len(dataset) != 1:
        raise UsageError(
            f"{len(paths)} files were given for {len(runnable.inputs)} inputs.",
            remedy="Give one file per input.",
        )
    feed = next(samples(dataset, runnable.inputs, preprocess, reporter))
    begun = time.perf_counter()
    outputs = runnable.run(feed)
    seconds = time.perf_counter() - begun
    arrays = dict(zip(files, outputs.values(), strict=True)) if files else {}
    saved = save_outputs(arrays, reporter, force=params.force)
    reporter.emit(StageFinished("simulate", round(seconds, 4)))
    beside = {} if floats is None else floats.run(feed)
    outcome = tuple(
        figures_of_output(name, array, params.top, "simulated", beside.get(name))
        for name, array in outputs.items()
    )
    taken = round(seconds, 6)
    return Simulated(
        outcome, taken, runnable.quantized, saved, params.arithmetic, params.as_compiled
    )


def _paths(paths: Sequence[str]) -> list[Path]:
    return [Path(path) for path in paths]


@runs(ACCURACY)
def accuracy(params: AccuracyParams, reporter: Reporter) -> Analysis:
    """The error of every layer, entire and single; snapshot files where asked."""
    recipe = recipe_at(params)
    pipeline = get_pipeline(recipe, reporter, last="quantize", then=("accuracy",))
    inputs = None if params.inputs is None else _paths(params.inputs)
    folder = None if params.output_dir is None else Path(params.output_dir)
    analysis = analyse_build(
        pipeline,
        inputs,
        folder,
        force=params.force,
        output_impact=params.output_impact,
        rounding=params.rounding,
    )
    return analysis.told()


@runs(EXPORT)
def export(params: ExportParams, reporter: Reporter) -> Exported:
    """Write a build as container, as QDQ ONNX for the vendor's toolkit, or as TFLite."""
    path = Path(params.path)
    form = params.format or form_of(path)
    recipe = recipe_of(params.recipe)
    refuse_existing(path, overwrite=params.force)
    if params.layers:
        return _export_layers(params, reporter)
    last = "container" if form == "rknn" else "quantize"
    pipeline = get_pipeline(recipe, reporter, refresh=params.refresh, last=last)
    note = CONTAINER_NOTE
    findings = _pulled_in(pipeline)
    if form == "tflite":
        model = tflite_model(pipeline)
        content, findings = model.data, (*findings, *model.findings)
        note = " ".join([TFLITE_NOTE, *map(str, (*model.inputs, *model.outputs))])
    else:
        content = pipeline.packed.data if form == "rknn" else vendor_onnx(pipeline)
    atomic_write(path, content, overwrite=params.force)
    reporter.emit(ArtifactWritten(str(path), form, len(content)))
    if form == "onnx":
        note = ONNX_NOTE if pipeline.quantized_build else FLOAT_ONNX_NOTE
    digest = hashlib.sha256(content).hexdigest()
    return Exported(str(path), form, len(content), digest, note, findings=findings)


def _export_layers(params: ExportParams, reporter: Reporter) -> Exported:
    """Write the ONNX of a comparison model, in several files where it has very many layers."""
    if (params.format or form_of(Path(params.path))) != "onnx":
        raise UsageError(
            "Layers are written as outputs of ONNX only.",
            remedy="Choose the format onnx; a container holds every layer already.",
        )
    pipeline = get_pipeline(
        recipe_of(params.recipe), reporter, refresh=params.refresh, last="quantize"
    )
    contents = comparison_onnx(pipeline)
    first = Path(params.path)
    paths = [first, *(first.with_stem(f"{first.stem}-{n}") for n in range(2, len(contents) + 1))]
    for path in paths:
        refuse_existing(path, overwrite=params.force)
    for path, content in zip(paths, contents, strict=True):
        atomic_write(path, content, overwrite=params.force)
        reporter.emit(ArtifactWritten(str(path), "onnx", len(content)))
    digest = hashlib.sha256(contents[0]).hexdigest()
    more = tuple(str(path) for path in paths[1:])
    findings = _pulled_in(pipeline)
    return Exported(
        str(first), "onnx", len(contents[0]), digest, LAYERS_NOTE, more, findings=findings
    )


def _pulled_in(pipeline: Pipeline) -> tuple[Finding, ...]:
    """What lists the files beside the model whose content goes into what is exported."""
    return tuple(f for f in pipeline.loaded.findings if f.code == EXTERNAL_WEIGHTS)


def tflite_model(pipeline: Pipeline) -> TfliteModel:
    """The build as TFLite of 8 bits; of TensorFlow and TFLite with the layout of the source.

    Raises:
        UsageError: the build is not quantized.
        UnsupportedOperatorError: a layer has no form in TFLite.
    """
    stage = pipeline.quantized if pipeline.quantized_build else pipeline.optimised
    if not pipeline.quantized_build and not is_quantized_source(stage.graph.graph):
        raise UsageError(
            "A build without quantization has no TFLite file of 8 bits.",
            remedy="Build with do_quantization and a dataset, or export QDQ ONNX.",
        )
    of_its_kind = pipeline.loaded.source.framework in NHWC_FRAMEWORKS
    return to_tflite(
        stage.graph.graph,
        f"rknntui {__version__}",
        inputs_last=not of_its_kind or bool(pipeline.recipe.source.input_is_nchw),
        outputs_last=not of_its_kind,
    )


def vendor_onnx(pipeline: Pipeline) -> bytes:
    """The build as ONNX of opset 19, IR 8, which rknn-toolkit2 loads with do_quantization=False.

    Raises:
        QuantizationError: opset 19 lacks an operator, or ONNX Runtime does not run the result.
    """
    quantized = pipeline.quantized_build
    graph = (pipeline.quantized.graph if quantized else pipeline.optimised.graph).graph
    level = pipeline.recipe.quantization.optimization_level
    data: bytes = lower_for_vendor(graph, level).SerializeToString(deterministic=True)
    if not has_custom(graph):  # nothing but its own class runs a custom operator
        sample = islice(pipeline.feeds(pipeline.dataset.first(1)), 1) if quantized else ()
        require_plain_run(data, next(iter(sample), None))
    return data


@answers(RANGES)
def ranges(params: ModelTarget) -> Ranges:
    """The quant table of a build as rows."""
    table = get_pipeline(recipe_at(params)).quantized.table
    return Ranges(
        tuple(
            RangeRow(
                tensor=name,
                dtype=quant.dtype,
                scales=len(quant.scale),
                scale=min(quant.scale),
                scale_max=max(quant.scale),
                zero_point=quant.zero_point[0] if len(set(quant.zero_point)) == 1 else None,
                minimum=None if quant.minimum is None else min(quant.minimum),
                maximum=None if quant.maximum is None else max(quant.maximum),
                observed_minimum=quant.observed_minimum,
                observed_maximum=quant.observed_maximum,
            )
            for name, quant in table.items()
        )
    )
