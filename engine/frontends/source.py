"""A source model: the files of one framework and what the user said of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.frontends.sniff import Recognised

if TYPE_CHECKING:
    from engine.graph.ir.custom import CustomOperators

FRAMEWORKS = ("onnx", "caffe", "tensorflow", "tflite", "darknet", "pytorch", "mxnet")
"""Kinds of :func:`engine.frontends.sniff.sniff` that are the main file of a source model."""


@dataclass(frozen=True)
class LoadOptions:
    """What a user may say of a source model; names and defaults as ``engine.options`` declares.

    Attributes:
        inputs, input_size_list, input_initial_val, outputs: as of ``load_onnx``; sizes may lack the
            batch of 1.
        proto: Caffe: ``caffe`` or ``lstm_caffe``, whose LSTM layer has other blobs.
        input_name: Caffe: the names of the input layers, in the order wanted; None for the net's.
        random_weights: Caffe: fill weights from a fixed seed, as ``blobs=None`` asks.
        input_is_nchw: TensorFlow and TFLite: inputs are NCHW in the graph, not the model's NHWC.
        predef_file: TensorFlow: an npz with constants for inputs, by name.
        darknet_epsilon: Darknet: the epsilon of batch normalisation.
        darknet_decode: Darknet: whether the heads are decoded to boxes and scores.
        pytorch_route: ``auto``, ``script`` (the exporter of script modules) or ``export``.
        operators: the custom operators that are registered.
    """

    inputs: tuple[str, ...] | None = None
    input_size_list: tuple[tuple[int, ...], ...] | None = None
    input_initial_val: tuple[Any, ...] | None = None
    outputs: tuple[str, ...] | None = None
    proto: str = "caffe"
    input_name: tuple[str, ...] | None = None
    random_weights: bool = False
    input_is_nchw: bool = False
    predef_file: Path | None = None
    darknet_epsilon: float = 1e-5
    darknet_decode: bool = False
    pytorch_route: str = "auto"
    operators: CustomOperators | None = None


@dataclass(frozen=True)
class SourceModel:
    """The files of one source model.

    Attributes:
        framework: one of ``FRAMEWORKS``.
        model: the main file: graph, or graph and weights.
        weights: the file of weights of Caffe, Darknet and MXNet; None where there is none.
        recognised: what the main file was recognised as, and why.
        options: what the user said.
    """

    framework: str
    model: Path
    weights: Path | None
    recognised: Recognised
    options: LoadOptions = field(default_factory=LoadOptions)
