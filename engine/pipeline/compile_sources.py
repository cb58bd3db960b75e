"""What of a build is handed to the vendor's toolkit: the graph, its ends, and raw samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from engine.compile.rockchip.generation1 import generation_1_onnx
from engine.compile.rockchip.model import op_targets, toolkit_onnx
from engine.compile.rockchip.neutral_names import NeutralNames, neutral_names
from engine.dataset import InputPlan, Preprocess
from engine.pipeline.samples import RecipeSamples
from engine.quantize import plan, sample_limit
from engine.recipe import Recipe
from engine.wire.compile import QuantizedBy

if TYPE_CHECKING:
    from engine.graph.ir import Graph, TensorSpec
    from engine.graph.layers import LayerMap
    from engine.pipeline.pipeline import Pipeline

__all__ = ["HandedModel", "channels_first_recipe"]

_NHWC_FRAMEWORKS = frozenset({"tensorflow", "tflite"})
_WHOLE = 1e-3
"""A float32 that was divided and multiplied again is nearer than this to what it was."""


def channels_first_recipe(recipe: Recipe, framework: str) -> Recipe:
    """The recipe of a build for the vendor's compiler.

    It takes axis 1 of every input for its channels. Pictures of TensorFlow and TFLite are therefore
    loaded as NCHW, where the optimiser removes the conversions of the source model; a runtime takes
    and gives pictures in NHWC all the same. Chips are checked one by one, so none is left in it.
    """
    changed = recipe.with_values(target_platform=None)
    if framework in _NHWC_FRAMEWORKS and not recipe.source.input_is_nchw:
        changed = changed.with_values(input_is_nchw=True)
    return changed


@dataclass(frozen=True)
class HandedModel:
    """The model of a pipeline as a toolkit is given it.

    Attributes:
        pipeline: of the build.
        by: whose quantization it will have: with ``ours`` it has Q/DQ pairs (those of the source
            model where that came with them); the ``vendor`` quantizes the source model, as it was
            loaded.
        generation: of the toolkit.
    """

    pipeline: Pipeline
    by: QuantizedBy
    generation: int = 2

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
        return frozenset(each.name for each in self.plans if each.layout == "NHWC")

    @cached_property
    def onnx(self) -> bytes:
        """The model with the user's names.

        Raises:
            QuantizationError: an operator has no form that the toolkit loads.
        """
        return toolkit_onnx(self.graph, self.nhwc)

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
        return tuple(
            replace(spec, shape=tuple(spec.shape[axis] for axis in (0, 3, 1, 2)))
            if spec.name in self.nhwc
            else spec
            for spec in self.graph.inputs
        )

    @property
    def op_target(self) -> dict[str, str]:
        """Where the user wants operators, by tensors with the user's names."""
        entries = self.pipeline.recipe.quantization.op_target or {}
        chosen = {name: target for name, target in entries.items() if target != "auto"}
        return op_targets(self.onnx, chosen, self.layers) if chosen else {}

    def raw_samples(self, count: int | None = None) -> Iterator[list[np.ndarray]]:
        """Calibration samples as a program on a board has them: before mean and std.

        Args:
            count: how many; None: all that calibration takes.
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
        for feed in islice(samples.feeds(self.graph.inputs), limit):
            arrays = [feed[each.name] for each in self.plans]
            if padded:
                arrays = [_raw(a, each) for a, each in zip(arrays, self.plans, strict=True)]
            yield [
                array.transpose(0, 3, 1, 2) if each.name in self.nhwc else array
                for array, each in zip(arrays, self.plans, strict=True)
            ]


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
