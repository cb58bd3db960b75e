"""Read an ONNX file within bounds: the protobuf message, and weights in files beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import GraphError, SourceModelError
from engine.base.files import read_bounded, sha256_of
from engine.base.findings import EXTERNAL_WEIGHTS, Finding
from engine.base.formats.protobuf import TruncatedError, file_fields
from engine.base.text import human_bytes, sanitize, some_of
from engine.frontends.loaded import digest
from engine.frontends.onnx.tensors import check_tensor_sizes, stored, walk
from engine.frontends.sniff import MAX_FIELDS, sniff
from engine.graph.ir.graph import parse_proto
from engine.graph.ir.naming import MAX_PROTO_BYTES, OPSET, STANDARD_DOMAINS
from engine.graph.ir.opsets import NEWEST_OPSET
from engine.graph.ir.rewriting import refill

_MAPPED_FROM = 1 << 20
_SHOWN = 20


def external_tensors(
    graph: onnx.GraphProto, functions: Iterable[onnx.FunctionProto] = ()
) -> Iterator[onnx.TensorProto]:
    """The tensors of a model, wherever it holds them, that lie in other files."""
    for _, tensor in stored(graph, functions):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor


def external_locations(
    graph: onnx.GraphProto, functions: Iterable[onnx.FunctionProto] = ()
) -> list[str]:
    """The files that a model asks for, as it writes them, each once, in order."""
    locations = {
        entry.value: None
        for tensor in external_tensors(graph, functions)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return list(locations)


def told_files(model: str, locations: Sequence[str]) -> list[Finding]:
    """A finding that lists the files beside the model that it takes weights from; none where there
    are none. What is exported carries their content: the user sees which they are.
    """
    if not locations:
        return []
    shown = some_of([repr(sanitize(location, 100)) for location in locations], _SHOWN)
    what = f"The model takes weights from other files of its folder: {shown}."
    cause = "Its content becomes part of what is built and exported."
    remedy = "Look whether these are files of the model."
    return [Finding(EXTERNAL_WEIGHTS, "info", model, what, cause, remedy)]


def told_opset(model: str, opset: int, what: str) -> list[Finding]:
    """A finding of what becomes of the opset of a model, where it is another than ours."""
    return [] if opset == OPSET else [Finding("opset-converted", "info", model, what)]


@dataclass(frozen=True)
class _Place:
    """Where the data of a tensor lie."""

    path: Path
    offset: int
    length: int


def load_external(
    model: Path, graph: onnx.GraphProto, functions: Iterable[onnx.FunctionProto] = ()
) -> list[tuple[str, str]]:
    """Read external tensors into the message, in place.

    Where all together would pass protobuf's 2 GiB, the large ones of the graph itself stay outside
    for :func:`map_external`.

    Returns:
        (location as the model writes it, SHA-256 of the whole file) of every file read, in order.

    Raises:
        SourceModelError: a file is missing, too short, hidden, or not in the model's own folder
            (symbolic links are followed before that is judged).
    """
    files: dict[str, Path] = {}
    places = [
        (tensor, _place(model, tensor, files)) for tensor in external_tensors(graph, functions)
    ]
    huge = sum(place.length for _, place in places) > MAX_PROTO_BYTES
    own = {tensor.name for tensor in graph.initializer}
    read = 0
    for tensor, place in places:
        if huge and tensor.name in own and _can_stay(tensor, place):
            continue
        read += place.length
        if read > MAX_PROTO_BYTES:
            raise SourceModelError(
                f"{model} has more than {human_bytes(MAX_PROTO_BYTES)} of weights in small parts.",
                cause="Only large weights of the graph itself can stay in their files.",
                remedy="Cut the model into parts by naming inputs and outputs when exporting it.",
            )
        try:
            with place.path.open("rb") as stream:
                stream.seek(place.offset)
                tensor.raw_data = stream.read(place.length)
        except OSError as error:
            raise _unreadable(model, place.path.name, error) from error
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT
    try:
        return [(location, sha256_of(path)) for location, path in files.items()]
    except OSError as error:
        raise _unreadable(model, str(error.filename), error) from error


def map_external(model: Path, graph: onnx.GraphProto) -> dict[str, ir.TensorProtocol]:
    """Take the tensors that stayed outside out of a graph, in place; gives them memory-mapped.

    Each becomes a graph input of its type and shape, as of
    :func:`engine.graph.ir.weightless.strip_weights`. Serialised, they are written whole: no result
    of this program refers to the source's files.
    """
    kept: list[onnx.TensorProto] = []
    mapped: dict[str, ir.TensorProtocol] = {}
    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            kept.append(tensor)
            continue
        place = _place(model, tensor, {})
        kind = ir.DataType(tensor.data_type)
        data = np.memmap(place.path, kind.numpy(), "r", place.offset, shape=tuple(tensor.dims))
        mapped[tensor.name] = ir.Tensor(data, dtype=kind, name=tensor.name)
        graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    if mapped:
        refill(graph.initializer, kept)
    return mapped


def attach_mapped(model: ir.Model, mapped: Mapping[str, ir.TensorProtocol]) -> None:
    """Make initializers of the inputs that :func:`map_external` left; in place."""
    graph = model.graph
    values = [value for value in graph.inputs if value.name in mapped]
    kept = [value for value in graph.inputs if value.name not in mapped]
    graph.inputs.clear()
    graph.inputs.extend(kept)
    for value in values:
        value.const_value = mapped[value.name or ""]
        graph.register_initializer(value)


def _can_stay(tensor: onnx.TensorProto, place: _Place) -> bool:
    """Whether a tensor is large, and its bytes are an array of its type as they are."""
    try:
        kind = ir.DataType(tensor.data_type)
    except ValueError:
        return False
    if kind == ir.DataType.STRING or kind.bitwidth < 8:
        return False
    return place.length > _MAPPED_FROM and place.length == prod(tensor.dims) * kind.bitwidth // 8


def _place(model: Path, tensor: onnx.TensorProto, files: dict[str, Path]) -> _Place:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if location not in files:
        files[location] = _confined(model, location)
    name = sanitize(tensor.name, 100)
    size = files[location].stat().st_size
    offset = _number(entries.get("offset", "0"), name)
    length = _number(entries.get("length", str(max(size - offset, 0))), name)
    if offset + length > size:
        raise SourceModelError(
            f"{files[location]} is too short: tensor {name!r} needs {offset + length} bytes, "
            f"there are {size}.",
            cause="The file was cut short, or belongs to another model.",
            remedy="Copy both files again.",
        )
    return _Place(files[location], offset, length)


def _number(text: str, tensor: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise SourceModelError(
            f"Tensor {tensor!r} has the external offset or length {sanitize(text, 40)!r}.",
            cause="The model file is damaged.",
            remedy="Export it again.",
        )
    return int(text)


def _confined(model: Path, location: str) -> Path:
    shown = sanitize(location, 200)
    folder = model.resolve().parent
    if not location or "\0" in location:
        raise SourceModelError(
            f"{model} has weights in a file without a name.",
            remedy="Save the model again with its weights in one file: onnx.save(model, path).",
        )
    try:
        place = (folder / location).resolve()
        there = place.is_file()
    except (OSError, RuntimeError) as error:  # too long a name; links in a circle
        raise _unreadable(model, location, error) from error
    if Path(location).is_absolute() or not place.is_relative_to(folder):
        raise SourceModelError(
            f"{model} asks for weights in {shown!r}, outside its own folder.",
            cause="Such a path could read any file of this machine, so it is refused.",
            remedy="Put the weights beside the model and save it with relative paths.",
        )
    parts = Path(location).parts
    if len(parts) != 1 or place.parent != folder or parts[0][0] == "." or place.name[0] == ".":
        raise SourceModelError(
            f"{model} asks for weights in {shown!r}, which is hidden or in a subfolder.",
            cause="In a home folder such a path could read a key or a password: only files beside "
            "the model are read.",
            remedy="Put the weights beside the model, in a file whose name begins with no dot, "
            "and save it again.",
        )
    if not there:
        raise SourceModelError(
            f"{model} keeps weights in {shown!r}, which is not there.",
            cause="The model was copied without its weights.",
            remedy=f"Copy {shown} into {folder}.",
        )
    return place


def _unreadable(model: Path, location: str, error: Exception) -> SourceModelError:
    reason = error.strerror if isinstance(error, OSError) else None
    return SourceModelError(
        f"{model} keeps weights in {sanitize(location, 200)!r}, which cannot be read: "
        f"{sanitize(reason or str(error), 200)}.",
        cause="The model file is damaged, or its folder is not as it was when it was saved.",
        remedy="Copy or export the model again, with its weights beside it.",
    )


@dataclass
class SourceFile:
    """An ONNX file in memory.

    Attributes:
        path: the file.
        proto: its message; belongs to whoever read it, who may change it.
        opset: the version of ONNX's operators that it asks for.
        files: (name relative to the model's folder, SHA-256) of the file and its weight files.
    """

    path: Path
    proto: onnx.ModelProto
    opset: int
    files: tuple[tuple[str, str], ...]

    @property
    def format(self) -> str:
        """What it is, in words."""
        return f"ONNX, opset {self.opset}, IR version {self.proto.ir_version}"


def read_onnx(path: str | os.PathLike[str], *, weights: bool = True) -> SourceFile:
    """Read a file, and with ``weights`` what it keeps in other files of its folder.

    Raises:
        SourceModelError: missing, unreadable, no ONNX model (the message says what it is),
            truncated, above 2 GiB, or with weights outside its folder.
    """
    place = Path(path)
    recognised = sniff(place)
    if recognised.kind != "onnx":
        raise SourceModelError(
            f"{place} is not an ONNX model: it is {recognised.named} ({recognised.why}).",
            cause=recognised.cause,
            remedy=_remedy(recognised.kind),
        )
    data = read_bounded(place, MAX_PROTO_BYTES, "an ONNX file")
    files = [digest(place, data)]
    try:
        proto = parse_proto(data)
    except GraphError as error:
        raise _damaged(place, len(data)) from error
    del data
    _check_texts(place, proto)
    opset = _opset(place, proto)
    if weights:
        files += load_external(place, proto.graph, proto.functions)
    check_tensor_sizes(place, proto.graph, proto.functions)
    return SourceFile(place, proto, opset, tuple(files))


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
            for _ in file_fields(stream, size, MAX_FIELDS):
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
