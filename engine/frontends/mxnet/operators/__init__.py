"""The operators of MXNet that are converted, and why others are not."""

from __future__ import annotations

from engine.frontends.facts import reasons, words
from engine.frontends.mxnet.call import Converter
from engine.frontends.mxnet.operators.arithmetic import ARITHMETIC
from engine.frontends.mxnet.operators.neural import NEURAL
from engine.frontends.mxnet.operators.recurrent import RECURRENT
from engine.frontends.mxnet.operators.resizing import RESIZING
from engine.frontends.mxnet.operators.shaping import SHAPING

__all__ = ["CUT_HERE", "DATA_INPUTS", "OPERATORS", "WEIGHT_INPUTS"]

OPERATORS: dict[str, Converter] = {**NEURAL, **ARITHMETIC, **SHAPING, **RESIZING, **RECURRENT}
"""Operator -> the function that converts it."""

CUT_HERE = reasons(__package__, "refusals.toml")
"""Operators that are refused with a word on why; the network can be cut before them."""

DATA_INPUTS = dict.fromkeys(
    words(
        "SoftmaxOutput Softmax LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput "
        "SVMOutput"
    ),
    1,
)
"""How many inputs an operator reads at inference, where the others are labels."""

WEIGHT_INPUTS = words(
    "Convolution Convolution_v1 Deconvolution FullyConnected BatchNorm BatchNorm_v1 CuDNNBatchNorm "
    "_contrib_SyncBatchNorm InstanceNorm LayerNorm GroupNorm LeakyReLU Embedding"
)
"""Operators whose inputs behind the first are weights: what is missing there is no input."""
