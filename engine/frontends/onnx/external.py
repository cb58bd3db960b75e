"""Weights that an ONNX file keeps in files of its folder (ONNX's external data)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import SourceModelError
from engine.base.files import sha256_of
from engine.base.findings import EXTERNAL_WEIGHTS, Finding
from engine.base.text import human_bytes, sanitize
from engine.frontends.onnx.tensors import stored
from engine.graph.ir.constants import MAX_PROTO_BYTES

__all__ = [
    "attach_mapped",
    "external_locations",
    "external_tensors",
    "load_external",
    "map_external",
    "told_files",
]

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
    found = {
        entry.value: None
        for tensor in external_tensors(graph, functions)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return list(found)


def told_files(model: str, locations: Sequence[str]) -> list[Finding]:
    """A finding that lists the files beside the model that it takes weights from; none where there
    are none. What is exported carries their content: the user sees which they are.
    """
    if not locations:
        return []
    shown = ", ".join(repr(sanitize(each, 100)) for each in locations[:_SHOWN])
    more = f" and {len(locations) - _SHOWN} more" if len(locations) > _SHOWN else ""
    return [
        Finding(
            code=EXTERNAL_WEIGHTS,
            severity="info",
            where=model,
            what=f"The model takes weights from other files of its folder: {shown}{more}.",
            cause="Its content becomes part of what is built and exported.",
            remedy="Look whether these are files of the model.",
        )
    ]


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
        copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
        del graph.initializer[:]
        graph.initializer.extend(copies)
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
