"""Names of layer types: those of V1 nets, and what is no part of a deployed net."""

from __future__ import annotations

from engine.frontends.facts import facts, words

__all__ = ["DATA", "V1_TYPES", "predictions_of"]

V1_TYPES = facts(__package__, "v1_types.toml")
"""Type of a V1 layer -> its present name."""

DATA = words(
    "AnnotatedData Data DenseImageData DummyData HDF5Data ImageData ImageSegData MemoryData "
    "VideoData WindowData"
)
"""Layers that read a dataset: their tops that the net needs become inputs."""

_PREDICTIONS = {"ContrastiveLoss": 2, "HDF5Output": 2, "MultiBoxLoss": 3}
_TRAINING = ("Loss", "Accuracy")
_ALSO_TRAINING = words("DetectionEvaluate HDF5Output WarpCTC")


def predictions_of(kind: str) -> int:
    """How many bottoms of a layer of training (a loss, a measure) are predictions; 0 for others.

    Forks have losses of their own; all that are known end in ``Loss`` or ``Accuracy``.
    """
    if kind.endswith(_TRAINING) or kind in _ALSO_TRAINING:
        return _PREDICTIONS.get(kind, 1)
    return 0
