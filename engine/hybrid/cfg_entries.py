"""From a build to the ``.quantization.cfg`` of either generation, and back to its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from engine.graph.ir import QuantParams, QuantTable
from engine.hybrid.cfg_writer import Entry, HybridConfig
from engine.hybrid.layers import Layers
from engine.quantize.planning.node_properties import WeightPlan

# generation 1's names of integer types
_TYPES_1 = {"uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32"}


def build_config(
    layers: Layers,
    table: QuantTable,
    generation: int,
    lifted: Mapping[str, str] | None = None,
) -> HybridConfig:
    """The configuration of a build.

    Generation 2 lists activations in the order of the graph; generation 1 lists weight, bias and
    outputs of every layer, whose id is its place in the graph (ours).

    Args:
        layers: of the float graph.
        table: of the build.
        generation: whose file.
        lifted: layer -> dtype; generation 2 names them by their tensors.
    """
    chosen = [(layers.named(name), dtype) for name, dtype in (lifted or {}).items()]
    entries: dict[str, Entry] = {}
    if generation == 1:
        for key, tensor in _keys_1(layers):
            entries[key] = _entry(key, table.get(tensor), generation)
        return HybridConfig(1, {layer.id: dtype for layer, dtype in chosen}, entries)
    for tensor in _activations(layers):
        entries[tensor] = _entry(tensor, table.get(tensor), generation)
    return HybridConfig(2, {layer.tensor: dtype for layer, dtype in chosen}, entries)


def tensors_by_key(layers: Layers, generation: int) -> dict[str, str]:
    """Key of the file -> the tensor that it stands for."""
    if generation == 2:
        return {tensor: tensor for tensor in _activations(layers)}
    return dict(_keys_1(layers))


def _activations(layers: Layers) -> Iterable[str]:
    inputs = [spec.name for spec in layers.graph.inputs if spec.dtype == "float32"]
    return dict.fromkeys([*inputs, *(layer.tensor for layer in layers.all)])


def _keys_1(layers: Layers) -> Iterable[tuple[str, str]]:
    for spec in layers.graph.inputs:
        if spec.dtype == "float32":
            yield f"@{spec.name}_0:out0", spec.name
    for number, layer in enumerate(layers.all, 1):
        stem = f"@{layer.node}_{number}"
        weight: WeightPlan | None = layers.plan.weights.get(layer.node)
        if weight is not None:
            yield f"{stem}:weight", weight.weight
            yield f"{stem}:bias", weight.bias or f"{layer.node}/bias"
        for port, tensor in enumerate(layer.outputs):
            yield f"{stem}:out{port}", tensor


def _entry(key: str, params: QuantParams | None, generation: int) -> Entry:
    if params is None:
        # what is not quantized is float16 [RKNN-T2 1.1.0, 3.3.2]; generation 1 writes None
        return Entry(key, "" if generation == 1 else "float16")
    low, high = params.observed_minimum, params.observed_maximum
    entry = Entry(
        key,
        "" if generation == 1 else "float16",
        minimum=params.minimum or (),
        maximum=params.maximum or (),
        observed_minimum=() if low is None else (low,),
        observed_maximum=() if high is None else (high,),
    )
    if params.is_float:
        return entry
    dtype = _TYPES_1.get(params.dtype, params.dtype) if generation == 1 else params.dtype
    return replace(
        entry,
        dtype=dtype,
        scheme="dfp" if params.narrow and generation == 1 else "asym",
        method="layer" if params.axis is None else "channel",
        scale=params.scale,
        zero_point=tuple(map(float, params.zero_point)),
    )
