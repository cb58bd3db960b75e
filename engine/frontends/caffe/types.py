"""Names of layer types: those of V1 nets, and what is no part of a deployed net."""

from __future__ import annotations

__all__ = ["DATA", "LOSSES", "V1_TYPES"]

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

LOSSES = {
    "Accuracy": 1,
    "CenterLoss": 1,
    "ContrastiveLoss": 2,
    "CtcLoss": 1,
    "CTCLoss": 1,
    "DetectionEvaluate": 1,
    "EuclideanLoss": 1,
    "FocalLoss": 1,
    "HDF5Output": 2,
    "HingeLoss": 1,
    "InfogainLoss": 1,
    "LabelsequenceAccuracy": 1,
    "MultiBoxLoss": 3,
    "MultinomialLogisticLoss": 1,
    "SegAccuracy": 1,
    "SigmoidCrossEntropyLoss": 1,
    "SmoothL1Loss": 1,
    "SoftmaxFocalLoss": 1,
    "WarpCTC": 1,
    "WarpCtcLoss": 1,
}
"""Layers of training that are left out, and how many of their bottoms are predictions."""
