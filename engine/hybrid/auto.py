"""``auto_hybrid``: layers whose own error passes a threshold become float16, without a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.accuracy import analyse
from engine.base.events import NullReporter, Reporter
from engine.hybrid.layers import Layers
from engine.quantize import Quantized


def auto_layers(
    quantized: Quantized,
    feeds: Sequence[Mapping[str, np.ndarray]],
    *,
    cosine: float,
    euclidean: float | None = None,
    dtype: str = "float16",
    reporter: Reporter | None = None,
) -> dict[str, str]:
    """Layers to lift by the thresholds of toolkit 2.3.2's ``auto_hybrid``.

    No manual describes its procedure: here a layer is lifted where the error that it makes by
    itself, on float inputs, passes a threshold.

    Args:
        quantized: the build without lifted layers.
        feeds: calibration samples.
        cosine: layers below it are lifted.
        euclidean: layers above it are lifted; None: no such threshold.
        dtype: of the lifted layers.
        reporter: asked whether to stop.

    Returns:
        layer -> dtype, the moves between lifted layers too.

    Raises:
        SimulationError: a graph does not run.
    """
    layers = Layers(quantized.reference)
    report = analyse(quantized, feeds, reporter=reporter or NullReporter())
    worst = {
        row.tensor
        for row in report.layers
        if (own := row.isolated) is not None
        and (
            (own.cosine is not None and own.cosine < cosine)
            or (euclidean is not None and (own.euclidean or 0.0) > euclidean)
        )
    }
    lifted = {
        layer.id: dtype
        for layer in layers.all
        if layer.tensor in worst and layer.kind not in ("move", "float")
    }
    return layers.with_data_movement(lifted)
