"""Every layer type that is converted, by its name in a prototxt."""

from __future__ import annotations

from collections.abc import Mapping

from engine.frontends.caffe.layer import Converter
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

__all__ = ["LAYERS", "REFUSED"]

LAYERS: Mapping[str, Converter] = {
    **activations.LAYERS,
    **arithmetic.LAYERS,
    **convolution.LAYERS,
    **detection.LAYERS,
    **normalisation.LAYERS,
    **pooling.LAYERS,
    **recurrent.LAYERS,
    **reductions.LAYERS,
    **resizing.LAYERS,
    **shapes.LAYERS,
}
"""Layer type -> the function that converts it."""

_DETECTS = (
    "it decodes boxes and suppresses those that overlap, so that the size of its output depends "
    "on the image"
)
_FORKS = "forks give this name to layers that compute different things"
_PYTHON = "it runs Python code that the model does not hold"

REFUSED: Mapping[str, str] = {
    "CTCGreedyDecoder": "the length of the text that it decodes depends on the image",
    "DetectionOutput": _DETECTS,
    "Filter": "the size of its output depends on the data",
    "HardSigmoid": f"{_FORKS} (other slopes)",
    "Proposal": _DETECTS,
    "Python": _PYTHON,
    "RPNProposal": _DETECTS,
    "Reorg": f"{_FORKS} (the order of channels)",
    "Resize": _FORKS,
    "Yolov3DetectionOutput": _DETECTS,
    "YoloDetectionOutput": _DETECTS,
    "proposal": _DETECTS,
}
"""Layer types that are known and not converted, and why."""
