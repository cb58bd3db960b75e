"""Load an ONNX file: first form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import shape_inference, version_converter

from engine.base.files import sha256_of
from engine.base.findings import Finding
from engine.graph.ir import IR_VERSION, OPSET, Graph

__all__ = ["Loaded", "SourceInfo", "load_onnx"]


@dataclass(frozen=True)
class SourceInfo:
    """Where a graph came from."""

    framework: str
    format: str
    opset: int
    ir_version: int
    producer: str
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Loaded:
    """A graph, what was noticed on the way, and its source."""

    graph: Graph
    findings: tuple[Finding, ...]
    source: SourceInfo


def load_onnx(
    path: Path,
    *,
    inputs: Sequence[str] | None = None,
    input_size_list: Sequence[Sequence[int]] | None = None,
    input_initial_val: Sequence[Any] | None = None,
    outputs: Sequence[str] | None = None,
) -> Loaded:
    """Load."""
    proto = onnx.load(str(path))
    constants = {tensor.name for tensor in proto.graph.initializer}
    kept = [value for value in proto.graph.input if value.name not in constants]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    opset = proto.opset_import[0].version
    proto = version_converter.convert_version(proto, OPSET)
    proto.ir_version = IR_VERSION
    proto = shape_inference.infer_shapes(proto, data_prop=True)
    source = SourceInfo(
        "onnx",
        "ONNX",
        opset,
        0,
        proto.producer_name,
        ((Path(path).name, sha256_of(Path(path))),),
    )
    return Loaded(Graph.from_proto(proto), (), source)
