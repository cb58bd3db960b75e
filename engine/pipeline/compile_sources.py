"""What of a build is handed to the vendor's toolkit: the graph, its ends, and raw samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import UsageError
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.dataset import InputPlan, Preprocess
from engine.graph.ir import Graph, infer_shapes
from engine.graph.passes import for_every_shape, rebind_input_shapes
from engine.pipeline.comparison_model import with_outputs
from engine.pipeline.samples import RecipeSamples
from engine.quantize import SCALE_SPAN, narrow_scales, plan, sample_limit
from engine.recipe import Recipe
from engine.toolkit.compile.model import generation_1_onnx, op_targets, toolkit_onnx
from engine.toolkit.compile.neutral_names import NeutralNames, neutral_names
from engine.wire.compile import QuantizedBy

if TYPE_CHECKING:
    from engine.dataset import Dataset
    from engine.graph.ir import TensorSpec
    from engine.graph.layers import LayerMap
    from engine.pipeline.pipeline import Pipeline

NHWC_FRAMEWORKS = frozenset({"tensorflow", "tflite"})
"""Frameworks whose pictures have their channels last."""

_WHOLE = 1e-3
"""A float32 that was divided and multiplied again is nearer than this to what it was."""


def channels_first_recipe(recipe: Recipe, framework: str) -> Recipe:
    """The recipe of a build for the vendor's compiler.

    It takes axis 1 of every input for its channels. Pictures of TensorFlow and TFLite are therefore
    loaded as NCHW, where the optimiser removes the conversions of the source model; a runtime takes
    and gives pictures in NHWC all the same. Chips are checked one by one, so none is left in it.
    """
    changed = recipe.with_values(target_platform=None)
    if framework in NHWC_FRAMEWORKS and not recipe.source.input_is_nchw:
        changed = changed.with_values(input_is_nchw=True)
    return changed


def without_idle_outputs(pipeline: Pipeline) -> tuple[Pipeline, tuple[Finding, ...]]:
    """The pipeline without the outputs that no compiled model has, and what is told of them.

    The toolkit leaves out an output that is an input of the model, or depends on none; who reads
    its file by position would then take one output for another.

    Raises:
        EngineError: the model cannot be loaded, or has no other output.
    """
    graph = pipeline.loaded.graph.graph
    idle = idle_outputs(graph)
    if not idle:
        return pipeline, ()
    kept = [spec.name for spec in graph.outputs if spec.name not in idle]
    if not kept:
        raise UsageError(
            "No output of the model depends on its inputs: there is nothing to compile.",
            remedy="Name computed tensors in 'outputs'.",
        )
    findings = tuple(
        Finding(
            "output-not-compiled",
            "warning",
            sanitize(name, 80),
            f"Output {sanitize(name, 80)} is left out of the compiled model: it {why}.",
            "The vendor's compiler keeps no output that nothing computes.",
            "Take its values from the model, and leave it out of 'outputs'.",
        )
        for name, why in idle.items()
    )
    return pipeline.with_recipe(pipeline.recipe.with_values(outputs=kept)), findings


def idle_outputs(graph: Graph) -> dict[str, str]:
    """Outputs that nothing computes from the inputs -> why, in the words after "it"."""
    computed = graph.computed()
    inputs = {spec.name for spec in graph.inputs}
    return {
        spec.name: "is an input of the model"
        if spec.name in inputs
        else "is the same for every input"
        for spec in graph.outputs
        if spec.name not in computed
    }


@dataclass(frozen=True)
class ShapeSet:
    """A set of input shapes that a model is compiled for.

    Attributes:
        pipeline: whose samples have these shapes.
        graph: that is compiled, with these shapes.
        wanted: the optimised float graph of these shapes.
    """

    pipeline: Pipeline
    graph: Graph
    wanted: Graph

    @property
    def text(self) -> str:
        """``1x3x224x224``, of several inputs with a comma between them."""
        return ", ".join(shape_text(spec.shape) for spec in self.wanted.inputs)


@dataclass(frozen=True)
class HandedModel:
    """The model of a pipeline as a toolkit is given it.

    Attributes:
        pipeline: of the build.
        by: whose quantization it will have: with ``ours`` it has Q/DQ pairs (those of the source
            model where that came with them); the ``vendor`` quantizes the source model, as it was
            loaded.
        generation: of the toolkit.
        span: how far the scales of a layer's weights may be apart on the chip.
    """

    pipeline: Pipeline
    by: QuantizedBy
    generation: int = 2
    span: int = SCALE_SPAN

    @cached_property
    def graph(self) -> Graph:
        """The graph."""
        if self.by == "ours" and self.pipeline.quantized_build:
            return self.pipeline.quantized.graph.graph
        if self.by == "vendor":
            return self.pipeline.loaded.graph.graph
        return self.pipeline.optimised.graph.graph

    @cached_property
    def layers(self) -> LayerMap:
        """The layers of the build."""
        if self.by == "ours" and self.pipeline.quantized_build:
            return self.pipeline.quantized.layers
        return plan(self.pipeline.optimised.graph.graph).layers

    @cached_property
    def plans(self) -> tuple[InputPlan, ...]:
        """How each input is prepared, as the graph has it."""
        preprocess = Preprocess.from_recipe(self.pipeline.recipe, self.pipeline.generation)
        return preprocess.plans(self.graph.inputs)

    @cached_property
    def nhwc(self) -> frozenset[str]:
        """Inputs whose channels are last, and first in the file."""
        return frozenset(
            input_plan.name for input_plan in self.plans if input_plan.layout == "NHWC"
        )

    @cached_property
    def shape_sets(self) -> tuple[ShapeSet, ...]:
        """The sets of input shapes that it is compiled for: one, or those of ``dynamic_input``.

        Raises:
            GraphError: the model is another graph for one of them.
        """
        pipeline = self.pipeline
        base = pipeline.optimised.graph.graph
        sets = [ShapeSet(pipeline, self.graph, base)]
        for shapes in (pipeline.recipe.source.dynamic_input or ())[1:]:
            sized = pipeline.with_recipe(
                pipeline.recipe.with_values(dynamic_input=None, input_size_list=shapes)
            )
            optimised = sized.optimised.graph.graph
            if self.by == "vendor":
                graph = sized.loaded.graph.graph
            else:
                graph = rebind_input_shapes(self.graph, base, optimised)
            sets.append(ShapeSet(sized, graph, optimised))
        return tuple(sets)

    @cached_property
    def onnx(self) -> bytes:
        """The model with the user's names.

        Raises:
            QuantizationError: an operator has no form that the toolkit loads.
            GraphError: it cannot be written for every set of input shapes.
        """
        return self.onnx_with(())

    def onnx_with(self, tensors: Sequence[str]) -> bytes:
        """The file with more outputs, behind its own.

        Args:
            tensors: of :attr:`graph`.

        Raises:
            QuantizationError, GraphError: as :attr:`onnx`.
        """
        sets = self.shape_sets
        several = len(sets) > 1
        graph = self.graph
        if several:
            graph = for_every_shape(graph, [shape_set.graph for shape_set in sets[1:]])
        if tensors:
            graph = with_outputs(graph, tensors, keep=True)
        level = self.pipeline.recipe.quantization.optimization_level
        graph = narrow_scales(graph, self.span)
        return toolkit_onnx(graph, self.nhwc, level, every_shape=several)

    @cached_property
    def _file(self) -> Graph:
        file = Graph.from_bytes(self.onnx)
        return infer_shapes(file) if self.nhwc else file  # whose shapes were left out

    @property
    def integers(self) -> frozenset[str]:
        """Constants of the file that are whole numbers and no weights: shapes, axes, places."""
        wide = (ir.DataType.INT64, ir.DataType.BOOL)
        constants = self._file.model.graph.initializers
        return frozenset(name for name, constant in constants.items() if constant.dtype in wide)

    def file_at(self, shapes: ShapeSet) -> Graph:
        """The file of generation 2, with the inputs of a set of shapes."""
        if shapes is self.shape_sets[0]:
            return self._file
        model = onnx.load_from_string(self.onnx)
        specs = self.file_inputs(shapes.wanted.inputs)
        for value, spec in zip(model.graph.input, specs, strict=True):
            for dim, size in zip(value.type.tensor_type.shape.dim, spec.shape, strict=True):
                dim.dim_value = size
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        del model.graph.value_info[:]
        return infer_shapes(Graph.from_bytes(model.SerializeToString()), refresh=True)

    @property
    def largest(self) -> ShapeSet:
        """The set of shapes whose layers the compiler prints first, and whose memory it plans."""
        return max(
            self.shape_sets,
            key=lambda shape_set: sum(prod(spec.shape) for spec in shape_set.wanted.inputs),
        )

    @cached_property
    def _neutral(self) -> tuple[bytes, NeutralNames]:
        return neutral_names(self.onnx)

    def file_for(self, version: str) -> tuple[bytes, NeutralNames]:
        """The file for a version of the toolkit, and the names in it.

        Raises:
            QuantizationError: as :attr:`onnx`.
        """
        if self.generation == 1:
            return neutral_names(generation_1_onnx(self.onnx, version))
        return self._neutral

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the file."""
        return self.file_inputs(self.graph.inputs)

    def file_inputs(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Inputs of the graph, with these shapes, as the file has them."""
        return tuple(
            replace(spec, shape=tuple(spec.shape[axis] for axis in (0, 3, 1, 2)))
            if spec.name in self.nhwc
            else spec
            for spec in inputs
        )

    @cached_property
    def op_target(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Where the user wants operators, by tensors with the user's names; entries without effect.

        See :func:`op_targets`.
        """
        entries = self.pipeline.recipe.quantization.op_target or {}
        chosen = {name: target for name, target in entries.items() if target != "auto"}
        return op_targets(self.onnx, chosen, self.layers) if chosen else ({}, ())

    def raw_samples(
        self,
        count: int | None = None,
        dataset: Dataset | None = None,
        inputs: Sequence[TensorSpec] | None = None,
    ) -> Iterator[list[np.ndarray]]:
        """Calibration samples as a program on a board has them: before mean and std.

        Args:
            count: how many; None: all that calibration takes.
            dataset: other samples; None: those of the calibration.
            inputs: of another set of shapes; None: those of the graph.
        """
        recipe = self.pipeline.recipe
        padded = recipe.preprocess.resize_fit == "pad"  # with the mean, which is then needed
        plain = recipe
        if not padded:
            plain = plain.with_values(mean_values=None, std_values=None, channel_mean_value=None)
        if self.generation == 1:  # its models order channels themselves
            plain = plain.with_values(reorder_channel=None)
        part = recipe.dataset
        limit = count if count is not None else sample_limit(part.batch_size, part.epochs)
        samples = RecipeSamples(plain, self.pipeline.generation, self.pipeline.reporter)
        for feed in islice(samples.feeds(inputs or self.graph.inputs, dataset), limit):
            arrays = [feed[input_plan.name] for input_plan in self.plans]
            if padded:
                arrays = [
                    _raw(a, input_plan) for a, input_plan in zip(arrays, self.plans, strict=True)
                ]
            yield self.as_handed(arrays)

    def as_handed(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """One sample, an array for each input of the graph, in the layout of the file."""
        return [
            array.transpose(0, 3, 1, 2) if input_plan.name in self.nhwc else array
            for array, input_plan in zip(arrays, self.plans, strict=True)
        ]

    def feed_of(self, file: Graph, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """A feed of the graph for a file of :meth:`onnx_with`, whose inputs have its order."""
        arrays = self.as_handed([feed[input_plan.name] for input_plan in self.plans])
        names = [spec.name for spec in file.inputs]
        # np.ascontiguousarray would make one row of a number
        return {name: np.asarray(a, order="C") for name, a in zip(names, arrays, strict=True)}


def _raw(array: np.ndarray, plan: InputPlan) -> np.ndarray:
    """Pixels of a normalised array; what was a whole number is one again."""
    if plan.mean is None and plan.std is None:
        return array
    shape = [1] * array.ndim
    shape[3 if plan.layout == "NHWC" else min(1, array.ndim - 1)] = -1
    pixels = array.astype(np.float64)
    if plan.std is not None:
        pixels = pixels * np.asarray(plan.std).reshape(shape)
    if plan.mean is not None:
        pixels = pixels + np.asarray(plan.mean).reshape(shape)
    whole = np.rint(pixels)
    return np.where(np.abs(pixels - whole) < _WHOLE, whole, pixels).astype(np.float32)
