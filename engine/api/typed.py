"""The typed API: a recipe is quantized, built, simulated and analysed; what fails raises.

Names end in ``_model`` because ``engine.build``, ``engine.quantize`` and ``engine.simulate`` are
rooms of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from engine.api.simulated_model import SimulatedModel
from engine.base.cache import StageCache
from engine.base.events import LogLine, NullReporter, Reporter
from engine.build import BuildSummary
from engine.pipeline.build import build
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.source import RecipeSource
from engine.pipeline.stages import STAGES
from engine.recipe import Recipe

if TYPE_CHECKING:
    from engine.accuracy.analyse import AccuracyReport
    from engine.base.findings import Finding
    from engine.graph.ir.custom import CustomOperators
    from engine.pipeline.results import QuantizedGraph
    from engine.wire.model import LayerSpread
    from engine.wire.names import Arithmetic


@dataclass(frozen=True)
class BuiltModel:
    """A model whose stages are all done.

    Attributes:
        summary: sizes, layers, fidelity of the outputs, seconds of each stage.
        container: the content of the ``.rknn`` file: for simulation and inspection, on no NPU.
    """

    summary: BuildSummary
    container: bytes
    _pipeline: Pipeline

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What all stages noticed."""
        return self.summary.findings

    @cached_property
    def _running(self) -> SimulatedModel:
        return SimulatedModel.of_build(self._pipeline)


def build_model(
    recipe: Recipe,
    *,
    reporter: Reporter | None = None,
    use_cache: bool = True,
    allow_code: Sequence[Path] = (),
) -> BuiltModel:
    """Run every stage of a recipe.

    Args:
        recipe: names the model and, for quantization, the dataset; relative paths start at the
            current folder.
        reporter: told of stages and progress, asked whether to stop.
        use_cache: whether results of stages are taken from the user's cache and kept there.
        allow_code: the Python files of ``custom_ops`` that may run.

    Raises:
        EngineError: whatever a stage could not do, with cause and remedy.
    """
    pipeline = pipeline_of(recipe, reporter, use_cache, allow_code)
    done = build(pipeline)
    return BuiltModel(done.summary, done.container, pipeline)


def quantize_model(
    recipe: Recipe,
    *,
    reporter: Reporter | None = None,
    use_cache: bool = True,
    allow_code: Sequence[Path] = (),
) -> QuantizedGraph:
    """Load, optimise, calibrate and quantize, and no more; arguments and errors as of a build.

    Returns:
        ``graph.data``: an ONNX model with QuantizeLinear and DequantizeLinear, as bytes; ``table``:
        tensor -> scale, zero point and dtype; ``coverage``: how each layer runs.
    """
    return pipeline_of(recipe, reporter, use_cache, allow_code, "quantize").quantized


def simulate_model(
    model: BuiltModel | Path,
    inputs: np.ndarray | Sequence[np.ndarray],
    *,
    layout: Literal["NHWC", "NCHW"] | None = None,
    arithmetic: Arithmetic = "integer",
    as_compiled: bool = False,
    reporter: Reporter | None = None,
) -> dict[str, np.ndarray]:
    """Run one sample through a build, or a container of ours, in the simulator.

    Args:
        model: a build, whose session is reused, or the path of a ``.rknn`` file.
        inputs: an array per input, before mean and std; with or without a batch of 1. For one
            input the array alone.
        layout: of the arrays; it decides where a shape fits both. None: NHWC.
        arithmetic: of a quantized build: ``integer`` kernels, or ``reference``: the float form that
            the vendor's simulator computes.
        as_compiled: without the roundings that the vendor's compiler fuses at level 3.
        reporter: told of warnings.

    Returns:
        Output name -> simulated values, float32 or the graph's own integers, in the model's order.

    Raises:
        UsageError, DatasetError: an input does not fit.
        ContainerError: the file is missing, foreign or corrupt.
        SimulationError: the graph does not run.
    """
    if isinstance(model, BuiltModel):
        running = model._running
    else:
        running = SimulatedModel.of_container(model, generation=2)
    if arithmetic != "integer" or as_compiled:
        running = running.in_form(arithmetic, compiled=as_compiled)
    outputs, warnings = running.run(
        inputs,
        data_format=None if layout is None else layout.lower(),
        data_type=None,
        pass_through=None,
    )
    for text in warnings:
        (reporter or NullReporter()).emit(LogLine(text, "warning"))
    return outputs


def analyse_model(
    model: BuiltModel,
    inputs: Sequence[Path] | None = None,
    *,
    output_impact: bool = False,
    rounding: bool = False,
) -> AccuracyReport:
    """Compare every layer of a quantized build with float.

    Args:
        model: of :func:`build_model`.
        inputs: pictures or npy files, one per input, sample after sample; None: the first sample of
            the calibration dataset.
        output_impact: whether to measure what the worst layers alone do to the outputs.
        rounding: whether to measure how far other roundings move the net.

    Raises:
        UsageError: the build is not quantized, or the model came quantized.
        EngineError: an input does not fit, or a graph does not run.
    """
    from engine.pipeline.analysis import analyse_build

    analysis = analyse_build(
        model._pipeline, inputs, output_impact=output_impact, rounding=rounding
    )
    return analysis.report


def layer_values(model: BuiltModel, tensor: str, *, bins: int = 64) -> LayerSpread:
    """The values of a layer's tensor over the calibration samples, in float and simulated.

    Args:
        model: of :func:`build_model`.
        tensor: that the layer writes: ``choice.tensor`` or ``error.tensor`` of a row of layers.
        bins: of its histograms.

    Returns:
        Histograms on one axis, observed range, scale and zero point, shares that are clipped, the
        reach of each channel.

    Raises:
        UsageError: the build is not quantized, or has no such tensor.
    """
    from engine.accuracy.histograms import tensor_histograms
    from engine.pipeline.layers import quantized_of

    pipeline = model._pipeline
    return tensor_histograms(quantized_of(pipeline), pipeline.feeds, tensor, bins)


def pipeline_of(
    recipe: Recipe,
    reporter: Reporter | None,
    use_cache: bool,
    allow_code: Sequence[Path],
    last: str | None = None,
) -> Pipeline:
    """The pipeline of a typed function; arguments as of :func:`build_model`."""
    recipe = Recipe.from_values(recipe.to_values(), Path.cwd())

    def operators() -> CustomOperators:
        from engine.pipeline.trusted_code import load_custom_ops

        return load_custom_ops(recipe, allowed={path.resolve() for path in allow_code})

    named = recipe.source.custom_ops or recipe.source.op_packages
    return Pipeline(
        recipe,
        STAGES,
        reporter=reporter,
        cache=StageCache() if use_cache else None,
        source=RecipeSource(recipe, None, operators if named else None),
        last=last,
    )
