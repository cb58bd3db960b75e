"""Every layer type that is converted, by its name in a prototxt."""

from __future__ import annotations

from engine.frontends.caffe.layers import (
    activations,
    arithmetic,
    convolution,
    detection,
    normalisation,
    pooling,
    recurrent,
    shapes,
)
from engine.frontends.facts import reasons

__all__ = ["LAYERS", "REFUSED"]

LAYERS = {
    **activations.LAYERS,
    **arithmetic.LAYERS,
    **convolution.LAYERS,
    **detection.LAYERS,
    **normalisation.LAYERS,
    **pooling.LAYERS,
    **recurrent.LAYERS,
    **shapes.LAYERS,
}
"""Layer type -> the function that converts it."""

REFUSED = reasons(__package__, "refusals.toml")
"""Layer types that are known and not converted, and why."""
