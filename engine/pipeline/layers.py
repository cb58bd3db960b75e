"""What choices of single layers need to know of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from engine.base.errors import QuantizationError, UsageError
from engine.base.text import sanitize
from engine.graph.layers import LayerMap
from engine.pipeline.pipeline import Pipeline

if TYPE_CHECKING:
    from engine.base.findings import Finding
    from engine.options import Quantization, Value
    from engine.quantize import Quantized, QuantizeSettings

T = TypeVar("T")


def quantize_settings(pipeline: Pipeline) -> QuantizeSettings:
    """How the recipe wants the model quantized.

    Raises:
        QuantizationError: the target does not have the dtype, or that of a layer (names the
            chips that do).
    """
    from engine.quantize import (
        QuantizeSettings,
        check_dtype,
        check_layer_dtype,
        cpu_layers,
        resolve_dtype,
    )

    options, target = pipeline.recipe.quantization, pipeline.recipe.target.target_platform
    check_dtype(options.quantized_dtype, target)
    layers = by_layer(pipeline, options.quantized_layers or {})
    for dtype in dict.fromkeys(layers.values()):
        check_layer_dtype(dtype, target)
    if options.op_target:
        targets = cpu_layers(pipeline.optimised.graph.graph, options.op_target)
        layers = by_layer(pipeline, targets) | layers
    return QuantizeSettings(
        dtype=resolve_dtype(options.quantized_dtype, target),
        algorithm=options.quantized_algorithm,
        granularity=options.quantized_method,
        layers=layers,
        ranges={
            name: (low, high)
            for name, (low, high) in by_tensor(pipeline, options.quantized_ranges or {}).items()
        },
        **_same_named(options),
    )


def quantize_as(pipeline: Pipeline, settings: QuantizeSettings) -> Quantized:
    """The pipeline's model quantized in this way."""
    from engine.quantize import quantize

    return quantize(
        pipeline.optimised.graph.graph,
        pipeline.calibration.observations,
        settings,
        feeds=pipeline.feeds,
        reporter=pipeline.reporter,
    )


def _same_named(options: Quantization) -> dict[str, Value]:
    """The options that are settings as they stand, under their own names."""
    from engine.quantize import QuantizeSettings

    names = {field.name for field in fields(QuantizeSettings)}
    return {name: value for name, value in options.values.items() if name in names}


def by_layer(pipeline: Pipeline, entries: Mapping[str, T]) -> dict[str, T]:
    """Entries for layers, by their ids.

    Args:
        pipeline: of the layers.
        entries: by any name of a layer: id, tensor, node, layer of the source model. Names that
            are nobody's stay, for those who tell what is wrong with them.

    Raises:
        QuantizationError: two names of one layer have different entries.
        RecipeError: a name that means several layers.
    """

    def key(layers: LayerMap, name: str) -> str:
        layer = layers.find(name)
        return name if layer is None else layer.id

    return _by(pipeline, entries, key)


def by_tensor(pipeline: Pipeline, entries: Mapping[str, T]) -> dict[str, T]:
    """As :func:`by_layer`, by the tensors that the layers write; a tensor means itself."""
    values = pipeline.optimised.graph.graph.values if entries else {}

    def key(layers: LayerMap, name: str) -> str:
        layer = None if name in values else layers.find(name)
        return name if layer is None else layer.tensor

    return _by(pipeline, entries, key)


def _by(
    pipeline: Pipeline, entries: Mapping[str, T], key_of: Callable[[LayerMap, str], str]
) -> dict[str, T]:
    from engine.quantize import plan

    layers = plan(pipeline.optimised.graph.graph).layers if entries else LayerMap()
    by_key: dict[str, T] = {}
    said: dict[str, str] = {}
    for name, entry in entries.items():
        key = key_of(layers, name)
        if key in by_key and by_key[key] != entry:
            raise QuantizationError(
                f"{sanitize(said[key], 120)!r} and {sanitize(name, 120)!r} are one layer "
                "and are given two values.",
                remedy="Give the layer one entry.",
            )
        by_key[key], said[key] = entry, name
    return by_key


def quantized_of(pipeline: Pipeline) -> Quantized:
    """The result of a pipeline's quantization as the rooms take it."""
    from engine.quantize import Quantized

    done = pipeline.quantized
    return Quantized(done.graph.graph, done.table, pipeline.reference, done.findings, done.layers)


def require_comparable(pipeline: Pipeline) -> None:
    """Is there a float model that the build can be compared with?

    Raises:
        UsageError: there is none.
    """
    from engine.quantize import is_quantized_source

    if not pipeline.quantized_build:
        raise UsageError(
            "The build is not quantized: there is no error to analyse.",
            remedy="Build with quantization.",
        )
    if is_quantized_source(pipeline.optimised.graph.graph):
        raise UsageError(
            "The model was already quantized: there is no float model to compare with.",
            cause="Both manuals ask for a model that was not quantized.",
            remedy="Analyse the float model that it was made from.",
        )


def resolve_promotion_dtype(pipeline: Pipeline, asked: str | None = None) -> str:
    """The dtype of lifted layers: as asked, else half precision by the name of its generation.

    Raises:
        UsageError: none is asked for, and the target has no half precision for single layers.
    """
    from engine.hybrid import promotion_dtype

    target = pipeline.recipe.target.target_platform
    dtype = asked or promotion_dtype(quantize_settings(pipeline).dtype, target)
    if not dtype:
        raise UsageError(
            f"{target} has no half precision to promote layers to.",
            cause="Its chips compute in integers only.",
            remedy="Choose another target, or none to simulate.",
        )
    return dtype


def find_all_range_mismatches(pipeline: Pipeline) -> Sequence[Finding]:
    """Joins of unlike ranges, by the calibration where it is there, else by the structure."""
    from engine.hybrid import find_range_mismatches, promotion_dtype

    recipe = pipeline.recipe
    calibrated = (
        pipeline.quantized_build and pipeline.samples.is_named and pipeline.has("calibrate")
    )
    return find_range_mismatches(
        pipeline.optimised.graph.graph,
        pipeline.calibration.observations if calibrated else None,
        source=pipeline.loaded.graph.graph,
        outputs=recipe.source.outputs,
        layers=by_layer(pipeline, recipe.quantization.quantized_layers or {}),
        dtype=promotion_dtype(recipe.quantization.quantized_dtype, recipe.target.target_platform),
    )
