"""A layer in words: its figures, what it may become, why its error is large, what its values are.

Each text is one fact, and says what its figures are: simulated, estimated, measured or emulated.
Names of the model stand in them as they are: a front end makes them safe for what it writes to.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.report import sqnr_text
from engine.wire.formats import (
    ADDED_BYTES,
    ADDED_MS,
    COSINE,
    DECIBEL,
    FIGURE,
    MILLISECONDS,
    PERCENT,
)
from engine.wire.layer_tables import LAYERS
from engine.wire.layers import LayerFigures
from engine.wire.model import LayerSpread
from engine.wire.table import LOW_DB, no_noise

_INHERITED = 0.5
"""Share of its error below which a layer has most of it from the layers before."""
_NARROW = 0.1
"""Share of the widest channel's reach below which a channel uses little of the range."""
_MUCH_CLIPPED = 0.001


def marked_sqnr(value: float | None) -> str:
    """An SQNR with its unit; a low one has a mark, so that it is seen without colours."""
    return f"{'!' if no_noise(value) < LOW_DB else ''}{sqnr_text(value)}"


def span_text(low: float, high: float) -> str:
    """An interval of values: ``-1.5 to 2``."""
    return f"{FIGURE.text(low)} to {FIGURE.text(high)}"


def layer_figures(row: LayerFigures) -> Iterator[str]:
    """The figures of a layer that most depends on: SQNR, gain, time, place; the known ones."""
    if (sqnr := LAYERS.column("sqnr").of(row)) is not None:
        yield f"SQNR {DECIBEL.text(sqnr)} dB simulated"
    if row.proposed is not None:
        yield f"gain {LAYERS.column('gain_db').show(row)} dB simulated"
    if (time := row.milliseconds) is not None:
        yield f"{MILLISECONDS.text(time)} ms {row.time_label}"
    if row.placement:
        yield row.placement


def layer_facts(row: LayerFigures) -> Iterator[str]:
    """What a layer costs and may become, and what its error does; costs are estimated."""
    if (choice := row.choice) is not None:
        added = LAYERS.column("promote_ms").of(row)
        if choice.time_ms is not None:
            text = f"est. {MILLISECONDS.text(choice.time_ms)} ms on {choice.target}"
            if added is not None and choice.promote_bytes is not None:
                text += f", promoted {ADDED_MS.text(added)} ms"
                text += f", {ADDED_BYTES.text(choice.promote_bytes)}"
            yield text
        yield f"can be {', '.join(choice.choices)}"
        if choice.observed_minimum is not None and choice.observed_maximum is not None:
            yield f"observed range {span_text(choice.observed_minimum, choice.observed_maximum)}"
    if (error := row.error) is None:
        return
    figures = (error.isolated, error.added_share, error.output_impact, row.rounding)
    if all(figure is None for figure in figures):
        yield "fused into the next layer"
    if error.isolated is not None:
        yield f"isolated {marked_sqnr(error.isolated_sqnr)}"
    if error.added_share is not None:
        yield f"{PERCENT.text(error.added_share)} % of the error is introduced here"
    if error.output_impact is not None:
        yield f"output impact {PERCENT.text(error.output_impact)} %"
    if (moved := row.rounding) is not None:
        text = f"other roundings move {PERCENT.text(moved.moved)} % of its values"
        text += f", {marked_sqnr(moved.rounding_db)}"
        grown = moved.amplified_db or 0.0
        text += f", {DECIBEL.text(grown)} dB more than its inputs" if grown > 0 else ""
        yield text if moved.moved else "other roundings do not move it"


def error_causes(row: LayerFigures | None, values: LayerSpread) -> Iterator[str]:
    """Why the error of a layer is as large as it is; nothing where nothing stands out.

    Args:
        row: with its error of an analysis; None where none is known.
        values: of its tensor over the calibration samples.
    """
    error = None if row is None else row.error
    if error is not None and error.added_share is not None and error.added_share < _INHERITED:
        share = PERCENT.text(1 - error.added_share)
        yield f"{share} % of its error comes from the layers before"
    if (values.clipped or 0.0) > _MUCH_CLIPPED:
        yield f"{PERCENT.show(values.clipped)} % of its values are clipped"
    widest = max(values.channels, default=0.0)
    if narrow := sum(reach < _NARROW * widest for reach in values.channels):
        many = f"{narrow} of {len(values.channels)} channels"
        yield f"{many} use less than {PERCENT.text(_NARROW)} % of the range"


def value_facts(values: LayerSpread) -> Iterator[str]:
    """What the values of a layer are over the calibration samples, in float and simulated."""
    cosine = "" if values.cosine is None else f", cosine {COSINE.text(values.cosine)}"
    yield f"over {values.samples} samples: SQNR {sqnr_text(values.sqnr_db)}{cosine} (simulated)"
    low, high = values.range
    if low is not None and high is not None:
        yield f"float values {span_text(low, high)}"
    if values.quant is not None:
        text, scale = values.quant.dtype, values.quant.scale
        if text.startswith("float"):
            text += ", no scale"
        elif len(scale) == 1 and scale[0] is not None:
            text += f", scale {FIGURE.text(scale[0])}, zero point {values.quant.zero_point[0]}"
        yield text
    if values.reach is not None:
        yield f"integer range {span_text(*values.reach)}"
    if (share := values.clipped) is not None:
        yield f"{PERCENT.text(share)} % of them clipped" if share else "no clipping"
