"""What Accuracy says of a layer, asks for, and can do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import sanitize, sqnr_rank, sqnr_text
from engine.wire.formats import COSINE, DECIBEL, FIGURE, PERCENT
from engine.wire.table import LOW_DB, SIMILARITY
from rknntui.keys.actions import with_keys
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from engine.wire.accuracy import RoundedLayer
    from engine.wire.layers import LayerFigures
    from engine.wire.model import LayerSpread
    from rknntui.widgets.strips import Line


def decibel_text(value: float | None, *, unit: bool = False) -> str:
    """An SQNR; a low one has a mark, so that it is seen without colours."""
    return f"{'!' if sqnr_rank(value) < LOW_DB else ''}{sqnr_text(value, unit=unit)}"


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
    row: LayerFigures | None,
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
    if row is not None:
        name, op = row.name, row.first("op")
    elif layer is not None and not isinstance(layer, str):
        name, op = layer.layer, layer.op
    lines: list[Line] = [[(sanitize(str(name), width - 12), "accent"), (f"  {op}", "dim")]]
    if row is not None:
        lines += [[(text, "")] for text in wrap(_ranked(row), width)]
        source = ", ".join(row.first("sources") or ())
        if source not in ("", name):
            origin = f"source layer {sanitize(source, 300)}"
            lines += [[(text, "dim")] for text in wrap(origin, width)[:2]]
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


def _rounded(moved: RoundedLayer) -> str:
    """How far other roundings move a layer."""
    if not moved.moved:
        return "other roundings do not move it"
    text = f"other roundings move {PERCENT.text(moved.moved)} % of its values"
    text += f", {decibel_text(moved.rounding_db, unit=True)}"
    grown = moved.amplified_db or 0.0
    return text + (f", {DECIBEL.text(grown)} dB more than its inputs" if grown > 0 else "")


def _ranked(row: LayerFigures) -> str:
    error, parts = row.error, []
    if error is None:
        return ""
    if error.cumulative is not None:
        parts.append(f"SQNR {decibel_text(error.sqnr, unit=True)}")
    if error.isolated is not None:
        parts.append(f"isolated {decibel_text(error.isolated_sqnr, unit=True)}")
    parts += [
        f"{word} cosine {SIMILARITY.text(distance.cosine)}"
        for distance, word in ((error.cumulative, "cumulative"), (error.isolated, "isolated"))
        if distance is not None and distance.cosine is not None
    ]
    if error.added_share is not None:
        parts.append(f"{PERCENT.text(error.added_share)} % of the error is introduced here")
    lost = error.saturation
    if lost is not None and (lost.low or lost.high):
        parts.append(f"{PERCENT.text(lost.low)} % clipped below, {PERCENT.text(lost.high)} % above")
    if error.output_impact is not None:
        parts.append(f"output impact {PERCENT.text(error.output_impact)} %")
    if row.rounding is not None:
        parts.append(_rounded(row.rounding))
    return " · ".join(parts) or "fused into the next layer"


def _measured(layer: LayerSpread) -> str:
    cosine = "" if layer.cosine is None else f", cosine {COSINE.text(layer.cosine)}"
    parts = [f"over {layer.samples} samples: SQNR {sqnr_text(layer.sqnr_db)}{cosine} (simulated)"]
    low, high = layer.range
    if low is not None and high is not None:
        parts.append(f"float values {FIGURE.text(low)} to {FIGURE.text(high)}")
    if layer.quant is not None:
        text, scale = layer.quant.dtype, layer.quant.scale
        if len(scale) == 1 and scale[0] is not None:
            text += f", scale {FIGURE.text(scale[0])}, zero point {layer.quant.zero_point[0]}"
        parts.append(text)
    if (reach := held(layer)) is not None:
        parts.append(f"integer range {FIGURE.text(reach[0])} to {FIGURE.text(reach[1])}")
    share = clipped(layer)
    if share is not None:
        parts.append(f"about {PERCENT.text(share)} % of them clipped" if share else "no clipping")
    return " · ".join(parts)


# Asking for samples in the place of the first calibration sample.


def start_folder(beside: object) -> str:
    """Where a picker starts that is to be at or beside a file or folder; empty without one."""
    if not isinstance(beside, str) or not beside:
        return ""
    return str(beside if Path(beside).is_dir() else Path(beside).parent) + "/"


def ask_inputs(
    app: App[None], count: int, start: str, then: Callable[[list[str] | None], None]
) -> None:
    """Ask for a picture or array for each input, one after the other.

    Args:
        app: shows the pickers.
        count: of the model's inputs.
        start: where each picker starts.
        then: called with the paths; with None where the user wants the calibration sample.
    """
    from rknntui.screens.dialogs.picker import PathPicker

    chosen: list[str] = []

    def take(path: str | None) -> None:
        if path is None:
            then(None)
            return
        chosen.append(path)
        if len(chosen) < count:
            ask()
        else:
            then(chosen)

    def ask() -> None:
        title = f"Input {len(chosen) + 1} of {count}; Esc: the first calibration sample"
        app.push_screen(PathPicker(title, start), take)

    ask()
