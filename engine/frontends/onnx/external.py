"""Weights that an ONNX file keeps in files of its folder (ONNX's external data)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import onnx

from engine.base.errors import SourceModelError
from engine.base.text import human_bytes, printable
from engine.frontends.onnx.nested import walk
from engine.graph.ir.constants import MAX_PROTO_BYTES

__all__ = ["external_tensors", "load_external"]

_CHUNK = 1 << 20


def external_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The tensors of a graph, in its initializers and attributes, that lie in other files."""
    for part in walk(graph):
        for tensor in part.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                yield tensor
        for node in part.node:
            for attribute in node.attribute:
                held = attribute.t if attribute.HasField("t") else None
                if held is not None and held.data_location == onnx.TensorProto.EXTERNAL:
                    yield held


def load_external(model: Path, graph: onnx.GraphProto) -> list[tuple[str, str]]:
    """Read every external tensor into the message, in place.

    Returns:
        (location as the model writes it, SHA-256 of the whole file) of every file read, in order.

    Raises:
        SourceModelError: a file is missing, too short, outside the model's folder (symbolic links
            are followed before that is judged), or all together pass 2 GiB.
    """
    places: dict[str, Path] = {}
    total = 0
    for tensor in external_tensors(graph):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if location not in places:
            places[location] = _confined(model, location)
        name = printable(tensor.name, 100)
        size = places[location].stat().st_size
        offset = _number(entries.get("offset", "0"), name)
        length = _number(entries.get("length", str(size - offset)), name)
        total += length
        if offset + length > size:
            raise SourceModelError(
                f"{places[location]} is too short: tensor {name!r} needs {offset + length} bytes, "
                f"there are {size}.",
                cause="The file was cut short, or belongs to another model.",
                remedy="Copy both files again.",
            )
        if total > MAX_PROTO_BYTES:
            raise SourceModelError(
                f"{model} has more than {human_bytes(MAX_PROTO_BYTES)} of weights.",
                cause="This version holds a model in one protobuf message, which stops at 2 GiB.",
                remedy="Cut the model into parts by naming inputs and outputs when exporting it.",
            )
        with places[location].open("rb") as stream:
            stream.seek(offset)
            tensor.raw_data = stream.read(length)
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT
    return [(location, _sha256(place)) for location, place in places.items()]


def _number(text: str, tensor: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise SourceModelError(
            f"Tensor {tensor!r} has the external offset or length {printable(text, 40)!r}.",
            cause="The model file is damaged.",
            remedy="Export it again.",
        )
    return int(text)


def _confined(model: Path, location: str) -> Path:
    shown = printable(location, 200)
    folder = model.resolve().parent
    if not location or "\0" in location:
        raise SourceModelError(f"{model} has weights in a file without a name.")
    place = (folder / location).resolve()
    if Path(location).is_absolute() or not place.is_relative_to(folder):
        raise SourceModelError(
            f"{model} asks for weights in {shown!r}, outside its own folder.",
            cause="Such a path could read any file of this machine, so it is refused.",
            remedy="Put the weights beside the model and save it with relative paths.",
        )
    if not place.is_file():
        raise SourceModelError(
            f"{model} keeps weights in {shown!r}, which is not there.",
            cause="The model was copied without its weights.",
            remedy=f"Copy {shown} into {folder}.",
        )
    return place


def _sha256(place: Path) -> str:
    digest = hashlib.sha256()
    with place.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
