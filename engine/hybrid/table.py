"""The hybrid table: every layer of a build with its dtype, its range and what it may become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.base.errors import QuantizationError
from engine.build import ErrorFigure
from engine.graph.layers import Layer
from engine.hybrid.layers import Layers
from engine.quantize import Quantized, QuantizeSettings
from engine.quantize import applied_dtypes as dtypes_of
from engine.quantize.dtypes.formats import LAYER_DTYPES, check_layer_dtype, scheme_of
from engine.wire.hybrid import LayerRow


def base_label(dtype: str) -> str:
    """What a layer is called that has the model's dtype: ``int8`` of ``w8a8``."""
    named = {layer.scheme.name: layer.name for layer in reversed(list(LAYER_DTYPES.values()))}
    label: str = named.get(dtype, dtype)
    return label


def choices_of(dtype: str, target: str | None = None) -> tuple[str, ...]:
    """The dtypes that a layer of a model may have, the model's own first.

    Args:
        dtype: of the model.
        target: the chip, which may not have all.
    """
    own, generation = base_label(dtype), scheme_of(dtype).generation
    others = (n for n, one in LAYER_DTYPES.items() if one.generation == generation and n != own)
    return (own, *(name for name in others if _has(name, target)))


def promotion_dtype(dtype: str, target: str | None = None) -> str:
    """What layers of a model are lifted to: half precision, by the name of its generation.

    Empty where the target has no half precision for single layers.
    """
    choices = choices_of(dtype, target)[1:]
    return next((name for name in ("float16", "float32") if name in choices), "")


def _has(dtype: str, target: str | None) -> bool:
    try:
        check_layer_dtype(dtype, target)
    except QuantizationError:
        return False
    return True


def table_rows(
    layers: Layers,
    quantized: Quantized,
    settings: QuantizeSettings,
    errors: Mapping[str, ErrorFigure],
    target: str | None = None,
) -> tuple[LayerRow, ...]:
    """The rows of the table, in the order of the graph.

    Args:
        layers: of the float graph.
        quantized: the build.
        settings: of it.
        errors: tensor -> its error, with those of the layers before it.
        target: the chip that limits the choices.
    """
    choices = choices_of(settings.dtype, target)
    own = {layer.id: choices[0] for layer in layers.all if layer.can_promote}
    got = dtypes_of({**own, **settings.layers}, quantized)
    return tuple(
        _row(layer, quantized, got.get(layer.id), choices, errors.get(layer.tensor))
        for layer in layers.all
    )


def _row(
    layer: Layer,
    quantized: Quantized,
    got: str | None,
    choices: Sequence[str],
    error: ErrorFigure | None,
) -> LayerRow:
    params = quantized.table.get(layer.tensor)
    own = choices if layer.can_promote else ["float32", *(c for c in choices if c == "float16")]
    has_range = params is not None and not params.is_float
    low = params.minimum if params is not None and has_range else None
    high = params.maximum if params is not None and has_range else None
    return LayerRow(
        tensor=layer.tensor,
        id=layer.id,
        node=layer.node,
        op=layer.op,
        sources=tuple(layer.sources),
        aliases=tuple(layer.aliases),
        dtype=got or own[0],
        choices=tuple(own),
        minimum=min(low) if low else None,
        maximum=max(high) if high else None,
        observed_minimum=None if params is None else params.observed_minimum,
        observed_maximum=None if params is None else params.observed_maximum,
        sqnr_db=None if error is None else error.sqnr_db,
        samples=0 if error is None else error.samples,
        kind=layer.kind,
    )
