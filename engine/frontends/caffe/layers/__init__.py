"""Every layer type that is converted, by its name in a prototxt."""

from __future__ import annotations

from engine.frontends.caffe.layers import (
    arithmetic,
    detection,
    normalisation,
    recurrent,
    shapes,
    windows,
)
from engine.frontends.facts import reasons

__all__ = ["LAYERS", "REFUSED"]

LAYERS = {
    **arithmetic.LAYERS,
    **detection.LAYERS,
    **normalisation.LAYERS,
    **recurrent.LAYERS,
    **shapes.LAYERS,
    **windows.LAYERS,
}
"""Layer type -> the function that converts it."""

REFUSED = reasons(__package__, "refusals.toml")
"""Layer types that are known and not converted, and why."""
