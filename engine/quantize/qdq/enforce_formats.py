"""Convert an algorithm's int8 result to the dtypes assigned to each layer.

An algorithm that equalizes, chooses ranges and rounds weights may know w8a8 alone. Its graph and
its ranges serve any dtype; here tensors and weights that are not in the format of their plan get
it, and all else stays: a bias that was corrected for the weights of its format, above all.
"""

from __future__ import annotations

from dataclasses import replace

from engine.graph.ir import QuantParams
from engine.quantize.dtypes.formats import Format
from engine.quantize.dtypes.scheme import activation_params
from engine.quantize.prepared import Prepared
from engine.quantize.weights import quantize_weights

__all__ = ["enforce_formats", "has_format"]


def has_format(params: QuantParams, form: Format) -> bool:
    """Whether parameters are those of a number format (an affine one may be symmetric)."""
    return params.dtype == form.dtype and params.narrow == (form.kind == "dynamic_fixed_point")


def enforce_formats(ready: Prepared, granularity: str) -> Prepared:
    """The same with every tensor and weight in the format of its plan.

    Tensors keep their ranges. Weights whose layer has another dtype are quantized again from float,
    with the original bias: the correction for int8 weights does not apply to them.
    """
    activations: dict[str, QuantParams] = {}
    boundaries: dict[str, QuantParams] = {}
    for name, form in ready.plan.formats.items():
        given = ready.activations.get(name)
        activations[name] = _tensor(given, form)
        for boundary in ready.plan.boundaries.get(name, ()):
            other = ready.activations.get(boundary.name)
            boundaries[boundary.name] = _tensor(given if other is None else other, boundary.form)
    activations |= boundaries
    weights = dict(ready.weights)
    others = [
        name
        for name in ready.plan.weights
        if name not in weights
        or not has_format(weights[name].params, ready.plan.schemes[name].weight)
    ]
    if others:
        rounded = quantize_weights(ready.graph, ready.plan, activations, granularity)
        weights |= {name: rounded[name] for name in others}
    return replace(ready, activations=activations, weights=weights)


def _tensor(given: QuantParams | None, form: Format) -> QuantParams:
    if given is not None and has_format(given, form):
        return given
    low, high = _range(given)
    observed = None
    if given is not None and given.observed_minimum is not None:
        observed = (given.observed_minimum, given.observed_maximum or 0.0)
    return activation_params(low, high, observed, form)


def _range(given: QuantParams | None) -> tuple[float, float]:
    if given is None:
        return 0.0, 0.0
    if given.minimum is not None and given.maximum is not None:
        return given.minimum[0], given.maximum[0]
    return given.observed_minimum or 0.0, given.observed_maximum or 0.0
