"""What is checked around a quantization: ranges set by hand, and numbers that half cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, printable
from engine.graph.ir import QuantParams
from engine.quantize.formats import HALF_LIMIT
from engine.quantize.plan import Plan, root_of
from engine.quantize.settings import QuantizeSettings
from engine.quantize.weights import LayerWeights

__all__ = ["overflow_finding", "overflows", "with_ranges_of_roots", "without_effect"]


def with_ranges_of_roots(settings: QuantizeSettings, plan: Plan) -> QuantizeSettings:
    """The settings with ranges under the names of the tensors that have a range of their own.

    A range of a tensor that takes its scale from another (behind a Transpose, a MaxPool), or of
    its converted twin, is that other's range.

    Raises:
        QuantizationError: a name that is no quantized tensor, a range that is none, or two ranges
            for tensors that share one.
    """
    if not settings.ranges:
        return settings
    twins = {b.name: tensor for tensor, borders in plan.borders.items() for b in borders}
    ranges: dict[str, tuple[float, float]] = {}
    owners: dict[str, str] = {}
    known = set(plan.tensors)
    for name, (low, high) in settings.ranges.items():
        tensor = twins.get(name, name)
        if tensor not in known:
            raise QuantizationError(
                f"A range is set for {printable(name, 120)!r}, which is no quantized tensor.",
                remedy=did_you_mean(name, known) or "Take the name from the quant table.",
            )
        if not (isfinite(low) and isfinite(high) and low <= high):
            raise QuantizationError(
                f"The range {low:g} to {high:g} of {printable(name, 120)!r} is impossible.",
                cause="A range goes from its smaller to its larger end, and both are finite.",
            )
        root = root_of(tensor, plan.sources)
        other = owners.setdefault(root, name)
        if ranges.setdefault(root, (low, high)) != (low, high):
            raise QuantizationError(
                f"{printable(other, 120)!r} and {printable(name, 120)!r} share one scale and are "
                "given two ranges.",
                remedy=f"Set the range of {printable(root, 120)!r} alone.",
            )
    return replace(settings, ranges=ranges)


def overflows(
    activations: Mapping[str, QuantParams], weights: Mapping[str, LayerWeights]
) -> tuple[Finding, ...]:
    """A finding for every tensor and weight in half precision whose numbers it cannot hold."""
    found = []
    for name, params in activations.items():
        seen = (params.observed_minimum or 0.0, params.observed_maximum or 0.0)
        largest = max(abs(value) for value in seen)
        if params.is_float and largest > HALF_LIMIT:
            found.append(overflow_finding(name, largest))
    for node, layer in weights.items():
        if layer.params.is_float and not np.isfinite(layer.integers).all():
            largest = max(
                abs(layer.params.observed_minimum or 0.0), abs(layer.params.observed_maximum or 0.0)
            )
            found.append(overflow_finding(node, largest))
    return tuple(found)


def overflow_finding(where: str, largest: float) -> Finding:
    """What is told of a layer that half precision cannot hold."""
    name = printable(where, 120)
    return Finding(
        code="float16-overflow",
        severity="warning",
        where=where,
        what=f"Layer {name!r} has numbers up to {largest:.6g}; float16 ends at {HALF_LIMIT:g}.",
        cause="Larger numbers become infinity on the NPU, and so in the simulation.",
        remedy="Scale the model there, or give the layer an integer dtype.",
    )


def without_effect(settings: QuantizeSettings) -> tuple[Finding, ...]:
    """What is told where an algorithm was asked for and no tensor is in integers."""
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
