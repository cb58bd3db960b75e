"""Names of layer types: those of V1 nets, and what is no part of a deployed net."""

from __future__ import annotations

__all__ = ["DATA", "V1_TYPES", "predictions_of"]

# caffe/src/caffe/util/upgrade_proto.cpp: UpgradeV1LayerType; the last line: forks of V1's time
V1_TYPES = {
    "ABSVAL": "AbsVal",
    "ACCURACY": "Accuracy",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "CONCAT": "Concat",
    "CONTRASTIVE_LOSS": "ContrastiveLoss",
    "CONVOLUTION": "Convolution",
    "DATA": "Data",
    "DECONVOLUTION": "Deconvolution",
    "DROPOUT": "Dropout",
    "DUMMY_DATA": "DummyData",
    "ELTWISE": "Eltwise",
    "EUCLIDEAN_LOSS": "EuclideanLoss",
    "EXP": "Exp",
    "FLATTEN": "Flatten",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "HINGE_LOSS": "HingeLoss",
    "IM2COL": "Im2col",
    "IMAGE_DATA": "ImageData",
    "INFOGAIN_LOSS": "InfogainLoss",
    "INNER_PRODUCT": "InnerProduct",
    "LRN": "LRN",
    "MEMORY_DATA": "MemoryData",
    "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss",
    "MVN": "MVN",
    "POOLING": "Pooling",
    "POWER": "Power",
    "RELU": "ReLU",
    "SIGMOID": "Sigmoid",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
    "SILENCE": "Silence",
    "SLICE": "Slice",
    "SOFTMAX": "Softmax",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "SPLIT": "Split",
    "TANH": "TanH",
    "THRESHOLD": "Threshold",
    "WINDOW_DATA": "WindowData",
    "BN": "BN",
    "PRELU": "PReLU",
    "UPSAMPLE": "Upsample",
}

DATA = frozenset(
    {
        "AnnotatedData",
        "Data",
        "DenseImageData",
        "DummyData",
        "HDF5Data",
        "ImageData",
        "ImageSegData",
        "MemoryData",
        "VideoData",
        "WindowData",
    }
)
"""Layers that read a dataset: their tops that the net needs become inputs."""

_PREDICTIONS = {"ContrastiveLoss": 2, "HDF5Output": 2, "MultiBoxLoss": 3}
_TRAINING = ("Loss", "Accuracy")
_ALSO_TRAINING = frozenset({"DetectionEvaluate", "HDF5Output", "WarpCTC"})


def predictions_of(kind: str) -> int:
    """How many bottoms of a layer of training (a loss, a measure) are predictions; 0 for others.

    Forks have losses of their own; all that are known end in ``Loss`` or ``Accuracy``.
    """
    if kind.endswith(_TRAINING) or kind in _ALSO_TRAINING:
        return _PREDICTIONS.get(kind, 1)
    return 0
