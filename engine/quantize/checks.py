"""What is checked around a quantization.

Before it: ranges set by hand. After it: numbers that half cannot hold, the dtypes
that layers really got, and whether a file that leaves the program runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite

import numpy as np
import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.graph.execute.runtime import RUNTIME_ERRORS, cpu_session, session_options
from engine.graph.ir import QuantParams, params_of
from engine.graph.ir.spec import array_of, input_at, maker_of
from engine.graph.layers import Layer, LayerMap
from engine.quantize.dtypes.formats import HALF_LIMIT, LAYER_DTYPES, Format
from engine.quantize.interface import LayerWeights, Quantized, QuantizeSettings
from engine.quantize.planning.node_properties import KEEPS_HALF, WEIGHTED, Role, role_of
from engine.quantize.planning.plan import Plan, root_of

_LARGEST = float(np.finfo(np.float32).max)
# The scale of the finest integers, 16 bits of them, must still be a normal number of float32.
_NARROWEST = float(np.finfo(np.float32).tiny) * 65535


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


# The dtypes that layers were given, read back from the QDQ graph.


def _has_format(params: QuantParams, form: Format) -> bool:
    """Whether parameters are those of a number format (an affine one may be symmetric)."""
    return params.dtype == form.dtype and params.narrow == (form.kind == "dynamic_fixed_point")


def applied_dtypes(layers: Mapping[str, str], quantized: Quantized) -> dict[str, str]:
    """The dtype that each layer really got.

    Args:
        layers: layer, by any of its names -> dtype that was asked for.
        quantized: what :func:`~engine.quantize.quantize` gave for them.

    Returns:
        The same names -> the name of the dtype
        (:data:`~engine.quantize.dtypes.formats.LAYER_DTYPES`) in which the layer's weights and
        output are stored in the graph. It is the name that was asked for where that was honoured;
        ``float`` where the layer is not quantized; otherwise what was found, in words.
    """
    return {
        name: _obtained(quantized.layers.find(name), asked, quantized)
        for name, asked in layers.items()
    }


def _obtained(layer: Layer | None, asked: str, quantized: Quantized) -> str:
    graph = quantized.graph
    params = None if layer is None else quantized.table.get(layer.tensor)
    if layer is None or params is None or not _stands(graph.values.get(layer.tensor), params):
        return "float"
    weight = _weight_dtype(graph.node(layer.node))
    names = [
        name
        for name, known in LAYER_DTYPES.items()
        if _has_format(params, known.scheme.activation)
        and weight in ("", known.scheme.weight.dtype)
    ]
    if asked in names:
        return asked
    obtained = params.dtype + (f" with weights in {weight}" if weight else "")
    return names[0] if names else obtained


def _stands(value: ir.Value | None, params: QuantParams) -> bool:
    """Whether a tensor of the QDQ graph really has these parameters."""
    producer = maker_of(value)
    if value is None or producer is None:
        return False
    if params.is_float:
        return _is_half(value)
    stored = params_of(producer) if producer.op_type == "DequantizeLinear" else None
    return (
        stored is not None
        and stored.dtype == params.dtype
        and stored.scale == tuple(np.asarray(params.scale, np.float32).tolist())
    )


def _is_half(value: ir.Value) -> bool:
    """Whether only numbers of half precision can come here: rounded, or moved after rounding."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        producer = one.producer()
        if one in seen or array_of(one) is not None:
            continue
        seen.add(one)
        if producer is None:
            return False
        if producer.op_type == "Cast":
            source = producer.inputs[0]
            if source is None or source.dtype != ir.DataType.FLOAT16:
                return False
        elif producer.op_type in KEEPS_HALF:
            waiting += [v for v in producer.inputs if v is not None]
        elif role_of(producer.op_type) is Role.PASSTHROUGH:
            waiting += [v for v in producer.inputs[:1] if v is not None]
        else:
            return False
    return True


def _weight_dtype(node: ir.Node) -> str:
    """The stored dtype of a layer's weight; empty for a layer without."""
    if node.op_type not in WEIGHTED:
        return ""
    weight = input_at(node, 1)
    source = maker_of(weight)
    if source is None or not source.inputs or source.inputs[0] is None:
        return ""
    stored = source.inputs[0]
    dtype = stored.dtype
    return "" if dtype is None or array_of(stored) is None else dtype.name.lower()


# Does a file that leaves the program run where the program's own settings are not?

# Whoever compares an export on a processor without VNNI sets it, for exact sums
_EXACT_SUMS = "session.x64quantprecision"


def require_plain_run(data: bytes, feeds: Mapping[str, np.ndarray] | None = None) -> None:
    """Open a serialised model in ONNX Runtime as anybody would, and run it once.

    Twice: with its defaults, and with the setting for exact integer sums.

    Args:
        data: the model, without custom operators.
        feeds: an array for every input; None: it is opened only.

    Raises:
        QuantizationError: ONNX Runtime does not take it, or does not run it.
    """
    for entry in (None, _EXACT_SUMS):
        options = session_options()
        if entry is not None:
            options.add_session_config_entry(entry, "1")
        try:
            session = cpu_session(data, options)
            if feeds is not None and entry is None:
                session.run(None, dict(feeds))
        except RUNTIME_ERRORS as error:
            reason = str(error).rsplit("Status Message: ", 1)[-1].strip()
            how = "" if entry is None else f" with {entry}"
            raise QuantizationError(
                f"The exported graph does not run in ONNX Runtime{how}: {sanitize(reason, 300)}",
                cause="A mistake of this program: it wrote a graph that other programs refuse.",
                remedy="Export a container instead, or build with a lower optimization level or "
                "other dtypes; and report this with the name of the operator.",
            ) from error
