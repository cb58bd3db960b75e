"""A source model: its files, what the user said of them, and what a look at them tells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.findings import Finding
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


# What a source model holds, read without converting anything: the pre-flight of a load.


@dataclass(frozen=True)
class SourceTensor:
    """An input or output of a source model; ``shape`` has -1 for what is dynamic, None unknown."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str


@dataclass(frozen=True)
class SourceLayer:
    """A layer as its file has it.

    Attributes:
        name: in the file; made unique by a number where the file repeats it.
        op: the framework's own name of its type.
        inputs, outputs: names of tensors.
        attributes: (name, text) pairs, as the file has them.
        shape: of the first output where the file tells it.
        dtype: of the first output, empty where unknown.
        refused: why a load will refuse it; empty where it will not.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    refused: str = ""


@dataclass(frozen=True)
class SourceSummary:
    """A source model before the long work starts.

    Attributes:
        framework: one of ``FRAMEWORKS``.
        format: what it is, in words, with the version that the file tells.
        version: (name, found, what this program reads) such as ``("opset", "12", "1 to 28")``; a
            row for each version that a load depends on.
        files: (file name, SHA-256) of every file.
        inputs, outputs: of the model as it stands.
        layers: in the file's order.
        candidates: tensor names that suit as ``inputs`` and as ``outputs`` where the file does not
            say which they are.
        findings: what will be refused (severity ``error``), and what a user should know.
        parameters: weights, counted; weights_bytes: their size.
    """

    framework: str
    format: str
    version: tuple[tuple[str, str, str], ...]
    files: tuple[tuple[str, str], ...]
    inputs: tuple[SourceTensor, ...]
    outputs: tuple[SourceTensor, ...]
    layers: tuple[SourceLayer, ...]
    candidates: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    findings: tuple[Finding, ...] = ()
    parameters: int = 0
    weights_bytes: int = 0
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def operators(self) -> dict[str, int]:
        """Operator -> how many layers have it, the most frequent first."""
        counts = Counter(layer.op for layer in self.layers)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def refused(self) -> tuple[tuple[str, str, str], ...]:
        """(operator, layer, why) of all that a load will refuse."""
        return tuple(
            (layer.op, layer.name, layer.refused) for layer in self.layers if layer.refused
        )
