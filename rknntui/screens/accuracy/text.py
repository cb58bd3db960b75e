"""The columns of the ranking, and what Accuracy says about one layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import sanitize, sqnr_rank, sqnr_text
from rknntui.keys.text import with_keys
from rknntui.widgets.records import Field, Record, name_text
from rknntui.widgets.table import Column
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.wire.build import LayerAccuracy
    from engine.wire.graph import LayerSpread
    from engine.wire.rounding import RoundedLayer
    from rknntui.widgets.strips import Line

__all__ = [
    "clipped",
    "cosine_column",
    "decibel_column",
    "decibel_text",
    "held",
    "layer_lines",
    "rank_fields",
    "rank_record",
]

_LOW_DB = 20.0
_LOW_COSINE = 0.99
_MUCH_SATURATION = 0.001


def _cosine(value: float) -> str:
    """A cosine below the limit has a mark, so that it is seen without colours."""
    return f"{'!' if value < _LOW_COSINE else ''}{value:.5f}"


def decibel_text(value: float | None, *, unit: bool = False) -> str:
    """An SQNR; a low one has a mark, so that it is seen without colours."""
    return f"{'!' if sqnr_rank(value) < _LOW_DB else ''}{sqnr_text(value, unit=unit)}"


def decibel_column(title: str, width: int) -> Column:
    """A column of SQNR; low ones have a colour."""

    def style(value: float | None) -> str:
        return "bad" if sqnr_rank(value) < _LOW_DB else ""

    return Column(title, width, right=True, text=decibel_text, style=style)


def cosine_column(title: str, width: int) -> Column:
    """A column of cosines; low ones have a colour."""

    def style(value: float | None) -> str:
        return "bad" if value is not None and value < _LOW_COSINE else ""

    return Column(title, width, right=True, text=_cosine, style=style)


def rank_fields() -> tuple[Field, ...]:
    """Position, layer, operator, SQNR of all errors and of its own, saturation, distances."""

    def distance(value: float) -> str:
        return f"{value:.4g}"

    def saturated(value: float | None) -> str:
        return "warn" if value is not None and value > _MUCH_SATURATION else ""

    return (
        Field("number", Column("#", 4, right=True)),
        Field("name", Column("layer", 10, grow=3, text=name_text)),
        Field("op", Column("op", 8, text=name_text)),
        Field("sqnr", decibel_column("SQNR dB", 8)),
        Field("isolated_sqnr", decibel_column("isol. dB", 8)),
        Field("added_share", Column("added %", 7, right=True, text=_percent)),
        Field("saturation", Column("clip %", 6, right=True, text=_percent, style=saturated)),
        Field("cosine", cosine_column("cumul. cos", 10)),
        Field("isolated_cosine", cosine_column("isol. cos", 10), 88),
        Field("output_impact", Column("impact %", 8, right=True, text=_percent), 100),
        Field("rounding", decibel_column("round. dB", 9), 112),
        Field("source", Column("source layer", 12, grow=2, text=name_text), 150, "name"),
        Field("dtype", Column("type", 8, text=name_text), 124),
        Field("euclidean", Column("cumul. euc", 10, right=True, text=distance), 136),
        Field("isolated_euclidean", Column("isol. euc", 10, right=True, text=distance), 136),
    )


def _percent(share: float) -> str:
    """A share of 1 as percent, small ones with their digits."""
    return f"{share * 100:.0f}" if share >= 0.1 or share == 0 else f"{share * 100:.2g}"


def rank_record(index: int, layer: LayerAccuracy, rounded: RoundedLayer | None = None) -> Record:
    """A layer of the job's answer as a record; a layer without noise has an infinite SQNR.

    ``rounded``: how far other roundings move it; None where nobody looked.
    """
    whole, alone, lost = layer.cumulative, layer.isolated, layer.saturation
    return {
        "number": index + 1,
        "name": layer.id,
        "op": layer.op,
        "tensor": layer.tensor,
        "sqnr": sqnr_rank(layer.sqnr) if whole else None,
        "isolated_sqnr": sqnr_rank(layer.isolated_sqnr) if alone else None,
        "added_share": layer.added_share,
        "saturation": lost.low + lost.high if lost else None,
        "low": lost.low if lost else None,
        "high": lost.high if lost else None,
        "output_impact": layer.output_impact,
        "rounding": sqnr_rank(rounded.rounding_db) if rounded else None,
        "moved": rounded.moved if rounded else None,
        "amplified": rounded.amplified_db if rounded else None,
        "source": ", ".join(layer.sources) or None,
        "aliases": layer.aliases,
        "dtype": layer.dtype or None,
        "cosine": whole.cosine if whole else None,
        "euclidean": whole.euclidean if whole else None,
        "isolated_cosine": alone.cosine if alone else None,
        "isolated_euclidean": alone.euclidean if alone else None,
    }


def held(layer: LayerSpread) -> tuple[float, float] | None:
    """From where to where the integers reach, over all channels; None where they have no range."""
    quant = layer.quant
    lows = [low for low in (quant and quant.minimum) or () if low is not None]
    highs = [high for high in (quant and quant.maximum) or () if high is not None]
    return (min(lows), max(highs)) if lows and highs else None


def clipped(layer: LayerSpread) -> float | None:
    """Share of the reference values outside the integer range, from the histogram (0..1)."""
    reach, counts = held(layer), layer.golden
    if reach is None or not sum(counts):
        return None
    low, high = reach
    step = (layer.high - layer.low) / len(counts)
    slack = step  # a bin that holds the limit counts as inside
    outside = 0
    for index, count in enumerate(counts):
        left = layer.low + index * step
        if left + step < low - slack or left > high + slack:
            outside += count
    return outside / sum(counts)


def layer_lines(
    tensor: str,
    record: Record | None,
    layer: LayerSpread | str | None,
    width: int,
    drilled: bool,
) -> list[Line]:
    """What is known of a layer: from the ranking, and from its histograms once they are read.

    Where these could not be read ``layer`` says why.
    """
    if not tensor:
        return []
    name, op = tensor, ""
    if record:
        name, op = record["name"], record["op"]
    elif layer is not None and not isinstance(layer, str):
        name, op = layer.layer, layer.op
    lines: list[Line] = [[(sanitize(str(name), width - 12), "accent"), (f"  {op}", "dim")]]
    if record:
        lines += [[(row, "")] for row in wrap(_ranked(record), width)]
        if record["source"] and record["source"] != name:
            source = f"source layer {sanitize(record['source'], 300)}"
            lines += [[(row, "dim")] for row in wrap(source, width)[:2]]
    if tensor != name:
        lines.append([(f"tensor {sanitize(tensor, width - 8)}", "dim")])
    if layer is None:
        return lines
    if isinstance(layer, str):
        return [*lines, *[[(row, "bad")] for row in wrap(f"✗ {sanitize(layer)}", width)]]
    lines += [[(row, "")] for row in wrap(_measured(layer), width)]
    if drilled:
        lines.append(
            [(with_keys("{accuracy.node} shows it in the graph, {accuracy.back} goes back"), "dim")]
        )
    return lines


def _rounded(record: Record) -> str:
    """How far other roundings move a layer."""
    if not record["moved"]:
        return "other roundings do not move it"
    text = f"other roundings move {record['moved']:.2%} of its values"
    text += f", {decibel_text(record['rounding'], unit=True)}"
    grown = record["amplified"] or 0.0
    return text + (f", {grown:.1f} dB more than its inputs" if grown > 0 else "")


def _ranked(record: Record) -> str:
    parts = []
    if record["sqnr"] is not None:
        parts.append(f"SQNR {decibel_text(record['sqnr'], unit=True)}")
    if record["isolated_sqnr"] is not None:
        parts.append(f"isolated {decibel_text(record['own'], unit=True)}")
    parts += [
        f"{word} cosine {_cosine(record[kind])}"
        for kind, word in (("cosine", "cumulative"), ("isolated_cosine", "isolated"))
        if record[kind] is not None
    ]
    if record["added_share"] is not None:
        parts.append(f"{record['own_share']:.0%} of the error is introduced here")
    if record["saturation"]:
        parts.append(f"{record['low']:.2%} clipped below, {record['high']:.2%} above")
    if record["output_impact"] is not None:
        parts.append(f"output impact {record['damage']:.0%}")
    if record["moved"] is not None:
        parts.append(_rounded(record))
    return " · ".join(parts) or "fused into the next layer"


def _measured(layer: LayerSpread) -> str:
    cosine = "" if layer.cosine is None else f", cosine {layer.cosine:.5f}"
    parts = [f"over {layer.samples} samples: SQNR {sqnr_text(layer.sqnr_db)}{cosine} (simulated)"]
    low, high = layer.range
    if low is not None and high is not None:
        parts.append(f"float values {low:.4g} to {high:.4g}")
    if layer.quant is not None:
        text, scale = layer.quant.dtype, layer.quant.scale
        if len(scale) == 1 and scale[0] is not None:
            text += f", scale {scale[0]:.4g}, zero point {layer.quant.zero_point[0]}"
        parts.append(text)
    if (reach := held(layer)) is not None:
        parts.append(f"integer range {reach[0]:.4g} to {reach[1]:.4g}")
    share = clipped(layer)
    if share is not None:
        parts.append(f"about {share:.2%} of them clipped" if share else "no clipping")
    return " · ".join(parts)
