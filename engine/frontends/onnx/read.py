"""Read an ONNX file within bounds: the protobuf message, and weights in files beside it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import onnx

from engine.base.errors import GraphError, SourceModelError
from engine.base.files import read_bounded
from engine.base.formats.protobuf import TruncatedError
from engine.base.text import sanitize
from engine.frontends.onnx.external import load_external
from engine.frontends.onnx.tensors import check_tensor_sizes, walk
from engine.frontends.sniff import outer_fields, sniff
from engine.graph.ir.constants import MAX_PROTO_BYTES, STANDARD_DOMAINS
from engine.graph.ir.graph import parse_proto
from engine.graph.ir.opsets import NEWEST_OPSET

__all__ = ["SourceFile", "read_onnx"]


@dataclass
class SourceFile:
    """An ONNX file in memory.

    Attributes:
        path: the file.
        proto: its message; belongs to whoever read it, who may change it.
        opset: the version of ONNX's operators that it asks for.
        sha256: of the file, hexadecimal.
        files: (name relative to the model's folder, SHA-256) of the file and its weight files.
    """

    path: Path
    proto: onnx.ModelProto
    opset: int
    sha256: str
    files: tuple[tuple[str, str], ...]


def read_onnx(path: str | os.PathLike[str], *, weights: bool = True) -> SourceFile:
    """Read a file, and with ``weights`` what it keeps in other files of its folder.

    Raises:
        SourceModelError: missing, unreadable, no ONNX model (the message says what it is),
            truncated, above 2 GiB, or with weights outside its folder.
    """
    place = Path(path)
    found = sniff(place)
    if found.kind != "onnx":
        raise SourceModelError(
            f"{place} is not an ONNX model: it is {found.named} ({found.why}).",
            cause=found.cause,
            remedy=_remedy(found.kind),
        )
    data = read_bounded(place, MAX_PROTO_BYTES, "an ONNX file")
    digest = hashlib.sha256(data).hexdigest()
    try:
        proto = parse_proto(data)
    except GraphError as error:
        raise _damaged(place, len(data)) from error
    del data
    _check_texts(place, proto)
    opset = _opset(place, proto)
    files = [(place.name, digest)]
    if weights:
        files += load_external(place, proto.graph, proto.functions)
    check_tensor_sizes(place, proto.graph, proto.functions)
    return SourceFile(place, proto, opset, digest, tuple(files))


def _remedy(kind: str) -> str:
    if kind == "unknown":
        return "Give an .onnx file; export the model to ONNX where it is of another framework."
    if kind == "folder":
        return "Give the model file inside it."
    return "Give the ONNX file of the model; `rknntui inspect` says what this file is."


def _damaged(place: Path, size: int) -> SourceModelError:
    missing = ""
    try:
        with place.open("rb") as stream:
            for _ in outer_fields(stream, size):
                pass
    except TruncatedError as error:
        missing = f": {error}"
    except (OSError, ValueError):
        pass
    return SourceModelError(
        f"{place} is a damaged ONNX model of {size} bytes{missing}.",
        cause="A download or copy was cut short, or the file was changed."
        if missing
        else "The file was changed or is not an ONNX model after all.",
        remedy="Copy, download or export it again.",
    )


def _check_texts(place: Path, proto: onnx.ModelProto) -> None:
    """Names that are no UTF-8 come out of protobuf as bytes, which nothing here expects."""
    texts: list[object] = [entry.domain for entry in proto.opset_import]
    texts += [proto.producer_name, proto.producer_version]
    for graph in walk(proto.graph):
        texts.append(graph.name)
        for node in graph.node:
            texts += (node.name, node.op_type, node.domain, *node.input, *node.output)
            texts += [attribute.name for attribute in node.attribute]
        for value in (*graph.input, *graph.output):
            texts.append(value.name)
            texts.extend(dim.dim_param for dim in value.type.tensor_type.shape.dim)
        for tensor in graph.initializer:
            texts.append(tensor.name)
            texts.extend(t for entry in tensor.external_data for t in (entry.key, entry.value))
    try:
        "".join(texts)  # type: ignore[arg-type]  # the quickest way to find one that is no text
    except TypeError as error:
        raise SourceModelError(
            f"{place} is a damaged ONNX model: a name in it is not text.",
            cause="The file was changed after it was written.",
            remedy="Copy, download or export it again.",
        ) from error


def _opset(place: Path, proto: onnx.ModelProto) -> int:
    if not proto.HasField("graph") or not proto.graph.node:
        raise SourceModelError(
            f"{place} holds no graph: there is no node in it.",
            cause="The file was cut short, or an export went wrong.",
            remedy="Copy, download or export it again.",
        )
    if proto.ir_version > onnx.IR_VERSION:
        raise SourceModelError(
            f"{place} has IR version {proto.ir_version}; this version reads up to "
            f"{onnx.IR_VERSION}.",
            cause="It was written by a newer ONNX.",
            remedy="Export it with an older opset, or update this program.",
        )
    versions = [entry.version for entry in proto.opset_import if entry.domain in STANDARD_DOMAINS]
    if not versions:
        domains = ", ".join(sanitize(entry.domain, 60) for entry in proto.opset_import)
        raise SourceModelError(
            f"{place} names no opset of ONNX's operators"
            + (f" (only of {domains})." if domains else "."),
            cause="The file was cut short, or an export went wrong.",
            remedy="Copy, download or export it again.",
        )
    if not 1 <= versions[0] <= NEWEST_OPSET:
        raise SourceModelError(
            f"{place} has opset {versions[0]}; this version knows 1 to {NEWEST_OPSET}.",
            remedy="Export it with an older opset, or update this program.",
        )
    return int(versions[0])
