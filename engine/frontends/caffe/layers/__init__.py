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
    reductions,
    resizing,
    shapes,
)
from engine.frontends.facts import reasons

__all__ = ["LAYERS", "REFUSED"]

_FAMILIES = (
    activations,
    arithmetic,
    convolution,
    detection,
    normalisation,
    pooling,
    recurrent,
    reductions,
    resizing,
    shapes,
)

LAYERS = {kind: converter for family in _FAMILIES for kind, converter in family.LAYERS.items()}
"""Layer type -> the function that converts it."""

REFUSED = reasons(__package__, "refusals.toml")
"""Layer types that are known and not converted, and why."""
