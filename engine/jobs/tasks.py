"""The worker's jobs: build, simulate, accuracy, export."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.base.content import reading
from engine.base.errors import OutputExistsError, UsageError
from engine.base.events import ArtifactWritten, LogLine, Reporter, StageFinished, StageStarted
from engine.base.files import atomic_write, output_errors, refuse_existing
from engine.base.text import printable
from engine.jobs.confirmed import allowed_code
from engine.jobs.queries import text_of, whole_of
from engine.jobs.warm import KEPT, pipeline_of, recipe_of
from engine.report import CONTAINER_NOTE

if TYPE_CHECKING:
    from engine.dataset import Preprocess
    from engine.graph.ir import CustomOperators
    from engine.jobs.pipeline import Pipeline
    from engine.jobs.runner import Runnable

__all__ = ["accuracy", "build", "export", "load", "simulate"]

ONNX_NOTE = (
    "QDQ ONNX, opset 19: load it with rknn-toolkit2 and build with do_quantization=False; that "
    "compiles it for the NPU with the quantization made here."
)
"""What an export of QDQ ONNX says."""

FLOAT_ONNX_NOTE = (
    "Float ONNX, opset 19: rknn-toolkit2 builds it in float16 with do_quantization=False."
)
"""What an export of a build without quantization says."""

_CALIBRATED = ("load", "optimise", "calibrate", "quantize")


def load(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Load a source model, converting it where its framework needs that, and describe the graph."""
    from engine.graph.ir import describe

    pipeline = pipeline_of(
        recipe_of(params), reporter, refresh=bool(params.get("refresh")), stages=("load",)
    )
    loaded = pipeline.loaded
    return {
        "framework": loaded.source.framework,
        "format": loaded.source.format,
        "producer": loaded.source.producer,
        "files": [list(file) for file in loaded.source.files],
        **describe(loaded.graph.graph),
        "findings": [finding.to_dict() for finding in loaded.findings],
        "seconds": pipeline.times[-1].seconds,
        "cached": pipeline.times[-1].cached,
    }


def build(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Every stage of a recipe; the build summary."""
    from engine.jobs.pipeline import build as run

    pipeline = pipeline_of(recipe_of(params), reporter, refresh=bool(params.get("refresh")))
    summary: dict[str, Any] = run(pipeline).summary.to_json()
    return summary


def _stages(pipeline_recipe: Any) -> tuple[str, ...]:
    quantized = pipeline_recipe.quantization.do_quantization
    return _CALIBRATED if quantized else _CALIBRATED[:2]


def _runnable(
    params: Mapping[str, Any], reporter: Reporter
) -> tuple[Runnable, Preprocess, tuple[str, ...]]:
    """What a request runs, how its inputs are prepared, and the stages that it took."""
    from engine.dataset import Preprocess
    from engine.frontends.sniff import sniff
    from engine.jobs.runner import Runnable, does_not_run
    from engine.recipe import Recipe, portable_values, stage_key

    if params.get("path") is not None and params.get("recipe") is None:
        path = Path(text_of(params, "path"))
        if sniff(path).kind in ("rknn", "rknn_vendor"):
            from engine.jobs.pack import opened, unknown_finding

            operators = _operators_beside(params)
            found = opened(path)
            if (unknown := unknown_finding(found, path)) is not None:
                reporter.emit(LogLine(f"{unknown.what} {unknown.cause}", "warning"))
            key = f"run {found.sha256}"
            kept = None if operators else KEPT.get(key)
            kept = kept or Runnable.of_container(path, operators)
            if not operators:
                KEPT.put(key, kept)
            with reading(lambda why: does_not_run(path, why)):
                values = portable_values(kept.recipe)
                values.pop("model", None)
                return kept, Preprocess.from_recipe(Recipe.from_values(values)), ()
    recipe = recipe_of(params)
    stages = _stages(recipe)
    pipeline = pipeline_of(recipe, reporter, stages=(*stages, "simulate"))
    done = pipeline.quantized if pipeline.quantized_build else pipeline.optimised
    # options of the last stage decide what runs
    key = f"run {stage_key(recipe, 'container', previous=done.key)}"
    kept = KEPT.get(key) or Runnable.of_build(pipeline)
    KEPT.put(key, kept)
    return kept, Preprocess.from_recipe(recipe), stages


def _operators_beside(params: Mapping[str, Any]) -> CustomOperators:
    """The custom operators that a request gives beside a container, which holds no code."""
    from engine.jobs.custom import operators_of

    named = {name: params[name] for name in ("custom_ops", "op_packages") if params.get(name)}
    return operators_of(recipe_of({"recipe": named}), allowed=allowed_code())


def _paths(params: Mapping[str, Any], name: str) -> list[Path]:
    value = params.get(name)
    if not isinstance(value, list) or not all(isinstance(p, str) and p for p in value):
        raise UsageError(f"{name} is a list of paths.")
    return [Path(p) for p in value]


def simulate(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Run one sample; statistics and the largest values of every output, saved where asked."""
    from engine.dataset import dataset_from_paths, samples

    top = whole_of(params, "top", 5, 0, 10_000)
    given = _paths(params, "inputs")
    runnable, preprocess, stages = _runnable(params, reporter)
    save = None if params.get("save") is None else Path(text_of(params, "save"))
    files = _output_files(runnable, save, force=bool(params.get("force")))
    reporter.emit(StageStarted("simulate", "Simulate", len(stages), len(stages) + 1))
    dataset = dataset_from_paths(given, len(runnable.inputs))
    if len(dataset) != 1:
        raise UsageError(
            f"{len(given)} files were given for {len(runnable.inputs)} inputs.",
            remedy="Give one file per input.",
        )
    feed = next(samples(dataset, runnable.inputs, preprocess, reporter))
    begun = time.perf_counter()
    outputs = runnable.run(feed)
    seconds = time.perf_counter() - begun
    saved = []
    for name, path in files.items():
        atomic_write(path, _npy(outputs[name]), overwrite=bool(params.get("force")))
        reporter.emit(ArtifactWritten(str(path), "npy", path.stat().st_size))
        saved.append(str(path))
    reporter.emit(StageFinished("simulate", round(seconds, 4)))
    return {
        "outputs": [_output(name, array, top) for name, array in outputs.items()],
        "seconds": round(seconds, 6),
        "quantized": runnable.quantized,
        "saved": saved,
    }


def _npy(array: np.ndarray) -> bytes:
    import io

    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _output_files(runnable: Runnable, folder: Path | None, *, force: bool) -> dict[str, Path]:
    """Output name -> file to write; looked at before anything is computed.

    Raises:
        OutputExistsError: one of them exists, and nobody allowed to overwrite it.
        OutputError: the folder cannot be made.
    """
    if folder is None:
        return {}
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    for index, spec in enumerate(runnable.outputs):
        stem = "".join(c if c.isalnum() or c in "-_" else "_" for c in spec.name)[:100] or "output"
        path = folder / f"{stem}.npy"
        if path in files.values():
            path = folder / f"{stem}_{index}.npy"
        if path.exists() and not force:
            raise OutputExistsError(
                f"{path} exists already.",
                remedy="Allow overwriting (--force) or choose another folder.",
            )
        files[spec.name] = path
    return files


def _output(name: str, array: np.ndarray, top: int) -> dict[str, Any]:
    """Statistics and the largest values of an output, over its finite values."""
    flat = np.ravel(array).astype(np.float64)
    places = np.flatnonzero(np.isfinite(flat))
    values = flat[places]
    best = np.argsort(-values, kind="stable")[: min(top, values.size)]
    with np.errstate(over="ignore"):  # sums of the largest doubles are infinite, and told as such
        mean = float(values.mean()) if values.size else None
    return {
        "name": name,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "label": "simulated",
        "top": [{"index": int(places[i]), "value": float(values[i])} for i in best],
        "minimum": float(values.min()) if values.size else None,
        "maximum": float(values.max()) if values.size else None,
        "mean": mean,
        "not_finite": int(flat.size - values.size),
    }


def accuracy(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """The error of every layer, entire and single; snapshot files where asked."""
    from engine.jobs.analysis import analyse_build

    recipe = recipe_of(params)
    pipeline = pipeline_of(recipe, reporter, stages=(*_stages(recipe), "accuracy"))
    inputs = None if params.get("inputs") is None else _paths(params, "inputs")
    folder = None if params.get("output_dir") is None else Path(text_of(params, "output_dir"))
    force, damage = bool(params.get("force")), bool(params.get("damage"))
    return analyse_build(pipeline, inputs, folder, force=force, damage=damage).to_json()


def export(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Write a build as container or as QDQ ONNX for the vendor's toolkit."""
    recipe = recipe_of(params)
    path = Path(text_of(params, "path"))
    form = params.get("format", "rknn")
    if form not in ("rknn", "onnx"):
        raise UsageError(f"format is {printable(str(form), 40)}; it is rknn or onnx.")
    refuse_existing(path, overwrite=bool(params.get("force")))
    stages = None if form == "rknn" else _stages(recipe)
    refresh = bool(params.get("refresh"))
    pipeline = pipeline_of(recipe, reporter, refresh=refresh, stages=stages)
    content = pipeline.container if form == "rknn" else vendor_onnx(pipeline)
    atomic_write(path, content, overwrite=bool(params.get("force")))
    reporter.emit(ArtifactWritten(str(path), form, len(content)))
    note = CONTAINER_NOTE
    if form == "onnx":
        note = ONNX_NOTE if pipeline.quantized_build else FLOAT_ONNX_NOTE
    return {
        "path": str(path),
        "format": form,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "note": note,
    }


def vendor_onnx(pipeline: Pipeline) -> bytes:
    """The build as ONNX of opset 19, IR 8, which rknn-toolkit2 loads with do_quantization=False.

    Raises:
        QuantizationError: opset 19 lacks an operator, or ONNX Runtime does not run the result.
    """
    from engine.graph.execute.custom import has_custom
    from engine.quantize import lower_for_vendor, require_plain_run

    quantized = pipeline.quantized_build
    graph = (pipeline.quantized.graph if quantized else pipeline.optimised.graph).graph
    data: bytes = lower_for_vendor(graph).SerializeToString(deterministic=True)
    if not has_custom(graph):  # nothing but its own class runs a custom operator
        sample = islice(pipeline.feeds(pipeline.dataset.first(1)), 1) if quantized else ()
        require_plain_run(data, next(iter(sample), None))
    return data
