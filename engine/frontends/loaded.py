"""What every front end gives: a graph, what was noticed on the way, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.findings import Finding
from engine.graph.ir.graph import Graph

__all__ = ["Loaded", "SourceInfo"]


@dataclass(frozen=True)
class SourceInfo:
    """Where a graph came from.

    Attributes:
        framework: ``onnx``, ``caffe``, ``tensorflow``, ``tflite``, ``darknet``, ``pytorch`` or
            ``mxnet``.
        format: what the file is, in words, with its version.
        opset, ir_version: of an ONNX file, before conversion; 0 for other frameworks.
        producer: the program that wrote it, as it says.
        files: (file name, SHA-256) of the model and of every file of weights beside it.
    """

    framework: str
    format: str
    opset: int
    ir_version: int
    producer: str
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Loaded:
    """A graph in the engine's form, what was noticed on the way, and its source."""

    graph: Graph
    findings: tuple[Finding, ...]
    source: SourceInfo
