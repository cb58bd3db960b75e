"""How the values of one layer's tensor are spread, float and simulated."""

from __future__ import annotations

import math

import numpy as np

from engine.accuracy.analyse import Outside
from engine.accuracy.evaluate import compared_rows
from engine.accuracy.rows import Row
from engine.base.errors import UsageError
from engine.base.text import did_you_mean, sanitize
from engine.graph.execute import Session
from engine.graph.ir import QuantParams
from engine.graph.metrics import ErrorSums, error_sums
from engine.quantize import Quantized
from engine.quantize.interface import Feeds
from engine.wire.model import LayerSpread, TensorRange


def tensor_histograms(build: Quantized, feeds: Feeds, tensor: str, bins: int) -> LayerSpread:
    """Run a layer of both graphs of a build and count its values.

    Args:
        build: its float graph, its quantized one, and its layers.
        feeds: gives the samples anew.
        tensor: the layer's in the float graph, or any name of the layer that writes it.
        bins: how many, at least one.

    Raises:
        UsageError: no layer computes such a tensor.
        SimulationError: a graph does not run.
    """
    row = _layer_of(tensor, build)
    tensor, quant = row.golden, build.table.get(row.golden)
    sessions = [Session(graph, outputs=[tensor]) for graph in (build.reference, build.graph)]
    sums, outside = ErrorSums(), Outside()
    lows, highs = [math.inf, math.inf], [-math.inf, -math.inf]
    reached: list[np.ndarray] = []
    for feed in feeds():
        arrays = [session.run(feed, [tensor])[tensor] for session in sessions]
        sums += error_sums(*arrays)[0]
        outside.add(arrays[0], None if quant is None else quant.representable_range)
        if arrays[0].ndim > 2:
            size = np.abs(np.moveaxis(arrays[0], 1, 0)).reshape(arrays[0].shape[1], -1)
            reached.append(size.max(axis=1, initial=0.0))
        lows = [min(low, float(array.min())) for low, array in zip(lows, arrays, strict=True)]
        highs = [max(high, float(array.max())) for high, array in zip(highs, arrays, strict=True)]
    low, high = min(lows), max(highs)
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = np.zeros((2, bins), dtype=np.int64)
    for feed in feeds():
        for side, session in enumerate(sessions):
            values = session.run(feed, [tensor])[tensor].astype(np.float64)
            counts[side] += np.histogram(values, bins=bins, range=(low, high))[0]
    return LayerSpread(
        tensor=tensor,
        layer=row.layer,
        op=row.shown_op,
        samples=sums.samples,
        low=low,
        high=high,
        golden=tuple(counts[0].tolist()),
        simulated=tuple(counts[1].tolist()),
        range=(lows[0], highs[0]),
        quant=_told(quant),
        saturation=outside.saturation,
        sqnr_db=sums.sqnr,
        cosine=sums.cosine,
        channels=tuple(np.max(reached, axis=0).tolist()) if reached else (),
    )


def _told(quant: QuantParams | None) -> TensorRange | None:
    if quant is None:
        return None
    return TensorRange(
        dtype=quant.dtype,
        scale=quant.scale,
        zero_point=quant.zero_point,
        axis=quant.axis,
        minimum=quant.minimum,
        maximum=quant.maximum,
    )


def _layer_of(name: str, build: Quantized) -> Row:
    """The row of a tensor, or of the layer that has this name."""
    known = {row.golden: row for row in compared_rows(build)}
    layer = None if name in known else build.layers.find(name)
    tensor = name if layer is None else layer.tensor
    if tensor not in known:
        raise UsageError(
            f"No layer of the build computes {sanitize(name)!r}.",
            cause="It is an input or a constant, or a pass merged its layer into another one.",
            remedy=did_you_mean(name, [*known, *build.layers.names])
            or "Choose a tensor of the layer list.",
        )
    return known[tensor]
