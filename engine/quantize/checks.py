"""What is checked around a quantization: ranges set by hand, and numbers that half cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import Graph, QuantParams
from engine.graph.layers import LayerMap
from engine.quantize.dtypes.formats import HALF_LIMIT
from engine.quantize.planning.node_properties import array_of
from engine.quantize.planning.operators import WEIGHTED
from engine.quantize.planning.plan import Plan, root_of
from engine.quantize.settings import QuantizeSettings
from engine.quantize.weights import LayerWeights

_LARGEST = float(np.finfo(np.float32).max)
# The scale of the finest integers, 16 bits of them, must still be a normal number of float32.
_NARROWEST = float(np.finfo(np.float32).tiny) * 65535


def check_constants(graph: Graph) -> None:
    """Refuse weights and biases that no integer can stand for.

    Raises:
        QuantizationError: one holds NaN or infinity; names the tensor and its layer.
    """
    for node in graph.nodes:
        if node.op_type not in WEIGHTED:
            continue
        for value in node.inputs[1:]:
            array = array_of(value)
            if value is None or array is None or np.isfinite(array).all():
                continue
            bad = int(array.size - np.isfinite(array).sum())
            kind = "not a number (NaN)" if np.isnan(array).any() else "infinite"
            layer, name = (sanitize(text or "", 120) for text in (node.name, value.name))
            raise QuantizationError(
                f"The weights {name!r} of layer {layer!r} hold {bad} values that are {kind}.",
                cause="The training diverged, or the file is damaged.",
                remedy="Export the model again from a checkpoint whose weights are finite.",
            )


def check_range(low: float, high: float) -> str:
    """Why a range of an activation cannot be used; empty where it can."""
    if not (isfinite(low) and isfinite(high)):
        return "an end is not finite."
    if low > high:
        return f"min {low:.6g} is above max {high:.6g}."
    if low == high:
        return f"min and max are both {low:.6g}: nothing lies between them."
    if low > 0 or high < 0:
        return (
            f"0 is not in {low:.6g} to {high:.6g}, and padding and Relu need it; "
            f"take {min(low, 0):.6g} to {max(high, 0):.6g}."
        )
    if max(-low, high) > _LARGEST:
        return f"float32 ends at {_LARGEST:.6g}."
    if high - low < _NARROWEST:
        return f"{low:.6g} to {high:.6g} is narrower than float32 can divide."
    return ""


def resolve_shared_ranges(settings: QuantizeSettings, plan: Plan) -> QuantizeSettings:
    """The settings with ranges under the names of the tensors that have a range of their own.

    A range of a tensor that takes its scale from another (behind a Transpose, a MaxPool), or of
    its converted twin, is that other's range.

    Raises:
        QuantizationError: a name that is no quantized tensor, a range that is none, or two ranges
            for tensors that share one.
    """
    if not settings.ranges:
        return settings
    twins = {b.name: tensor for tensor, boundaries in plan.boundaries.items() for b in boundaries}
    ranges: dict[str, tuple[float, float]] = {}
    owners: dict[str, str] = {}
    known = set(plan.tensors)
    for name, (low, high) in settings.ranges.items():
        tensor = twins.get(name, name)
        if tensor not in known:
            raise QuantizationError(
                f"A range is set for {sanitize(name, 120)!r}, which is not a quantized tensor.",
                remedy=did_you_mean(name, known) or "Take the name from the quant table.",
            )
        if fault := check_range(low, high):
            raise QuantizationError(
                f"The range of {sanitize(name, 120)!r} cannot be used: {fault}",
                cause="It was set by hand (quantized_ranges, --range).",
                remedy="Give its smaller and its larger end, with 0 between them or at one.",
            )
        root = root_of(tensor, plan.sources)
        other = owners.setdefault(root, name)
        if ranges.setdefault(root, (low, high)) != (low, high):
            raise QuantizationError(
                f"{sanitize(other, 120)!r} and {sanitize(name, 120)!r} share one scale and are "
                "given two ranges.",
                remedy=f"Set only the range of {sanitize(root, 120)!r}.",
            )
    return replace(settings, ranges=ranges)


def float16_overflows(
    activations: Mapping[str, QuantParams],
    weights: Mapping[str, LayerWeights],
    layers: LayerMap,
) -> tuple[Finding, ...]:
    """A finding for every tensor and weight in half precision whose numbers it cannot hold.

    Args:
        activations: parameters, by the keys of ``layers.stored``.
        weights: node -> its constants.
        layers: of the quantized graph.
    """
    findings = []
    for name, params in activations.items():
        seen = (params.observed_minimum or 0.0, params.observed_maximum or 0.0)
        largest = max(abs(value) for value in seen)
        if params.is_float and largest > HALF_LIMIT:
            place = layers.stored.get(name)
            tensor = name if place is None else place.tensor
            findings.append(overflow_finding(layers.id_of(tensor), largest))
    for node, layer in weights.items():
        if layer.params.is_float and not np.isfinite(layer.integers).all():
            largest = max(
                abs(layer.params.observed_minimum or 0.0), abs(layer.params.observed_maximum or 0.0)
            )
            findings.append(overflow_finding(layers.by_node[node].id, largest))
    return tuple(findings)


def overflow_finding(where: str, largest: float) -> Finding:
    """What is told of a layer that half precision cannot hold."""
    name = sanitize(where, 120)
    return Finding(
        code="float16-overflow",
        severity="warning",
        where=where,
        what=f"Layer {name!r} has numbers up to {largest:.6g}; float16 ends at {HALF_LIMIT:g}.",
        cause="Larger numbers become infinity on the NPU, and so in the simulation.",
        remedy="Scale the model there, or give the layer an integer dtype.",
    )


def ineffective_algorithm(settings: QuantizeSettings) -> tuple[Finding, ...]:
    """A finding where an algorithm is set and no activation is quantized to integers."""
    if settings.algorithm == "normal":
        return ()
    return (
        Finding(
            code="algorithm-without-effect",
            severity="info",
            where="quantized_algorithm",
            what=f"{settings.algorithm} has no effect with {settings.dtype}.",
            cause="Activations are float16, so there are no ranges to choose; weights are rounded "
            "to nearest, or to float16.",
        ),
    )
