"""Inspects a Caffe model without converting it."""

from __future__ import annotations

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.caffe.blobs import NoBlobs, StoredBlobs, Weights
from engine.frontends.caffe.convert import Conversion, ShapeProbe, readers_of, refusal_of
from engine.frontends.caffe.layer import Tensor
from engine.frontends.caffe.load import CaffeFiles, read_files
from engine.frontends.caffe.prototxt import Message, Scalar
from engine.frontends.caffe.spec import LayerSpec, Net
from engine.frontends.caffe.subgraph import cut_around
from engine.frontends.source import SourceModel
from engine.frontends.summary import SourceLayer, SourceSummary, SourceTensor
from engine.graph.ir.naming import UniqueNames

__all__ = ["inspect"]


def inspect(source: SourceModel) -> SourceSummary:
    """The pre-flight of a load: inputs, outputs, layers with their shapes, and what is refused.

    Raises:
        SourceModelError: a file cannot be read or is damaged.
    """
    files = read_files(source)
    net = files.net
    weights = (
        StoredBlobs(files.stored, source.weights.name)
        if files.stored and source.weights
        else NoBlobs()
    )
    trial, refused = _tried(net, weights)
    shapes = {name: tensor.shape for name, tensor in trial.tensors.items()}
    findings = [*net.findings, *trial.findings]
    if isinstance(weights, NoBlobs) and weights.asked and not source.options.random_weights:
        findings.append(_no_weights(source))
    remedy = cut_around(net.layers, refused, net.outputs) if refused else ""
    names = UniqueNames(set())
    layers = []
    for index, spec in enumerate(net.layers):
        shape = shapes.get(spec.makes[0]) if spec.makes else None
        layers.append(_layer(spec, names.claim(spec.name), shape, refused.get(index, "")))
        if index in refused:
            findings.append(_finding(spec, refused[index], remedy))
    count = _parameters(files)
    return SourceSummary(
        framework="caffe",
        format="Caffe network" + (" and its weights" if files.stored else " without weights"),
        version=(("layers", "V1" if "layers" in net.fields else "V2", "V1 and V2"),),
        files=files.files,
        inputs=tuple(SourceTensor(v.name, v.shape, "float32") for v in net.inputs),
        outputs=tuple(SourceTensor(v, shapes.get(v), "float32") for v in net.outputs),
        layers=tuple(layers),
        findings=tuple(findings),
        parameters=count,
        weights_bytes=4 * count,
    )


def _no_weights(source: SourceModel) -> Finding:
    return Finding(
        code="weights-missing",
        severity="error",
        where=sanitize(source.model.name),
        what="The net needs weights, and no caffemodel was given.",
        cause="There is none beside the prototxt, and none was named.",
        remedy="Name the caffemodel, or ask for random weights (blobs=None).",
    )


def _tried(net: Net, weights: Weights) -> tuple[Conversion, dict[int, str]]:
    """A conversion that went as far as shapes are known, and why layers (by index) are refused.

    A layer behind one that is refused, or behind an input without a size, has no shape; its type is
    still looked up.
    """
    tensors = {v.name: Tensor(v.name, v.shape) for v in net.inputs if v.shape and min(v.shape) > 0}
    trial = Conversion(ShapeProbe(), weights, tensors)
    refused: dict[int, str] = {}
    readers = readers_of(net.layers)
    for index, spec in enumerate(net.layers):
        why = refusal_of(spec)
        if why:
            refused[index] = why
        elif all(value in tensors for value in spec.reads):
            try:
                trial.one(spec, readers)
            except SourceModelError as error:
                refused[index] = error.what
    return trial, refused


def _layer(spec: LayerSpec, name: str, shape: tuple[int, ...] | None, refused: str) -> SourceLayer:
    return SourceLayer(
        name=name,
        op=spec.type,
        inputs=spec.reads,
        outputs=spec.makes,
        attributes=tuple(_attributes(spec.fields.source, "")),
        shape=shape,
        dtype="float32",
        refused=refused,
    )


_SHOWN_ELSEWHERE = frozenset({"name", "type", "bottom", "top"})


def _attributes(message: Message | None, prefix: str) -> list[tuple[str, str]]:
    """Every field of a layer as (``param.field``, text), repeated ones joined by a blank."""
    found: dict[str, list[str]] = {}
    for name, value in message.fields if message else ():
        if isinstance(value, Scalar):
            if prefix or name not in _SHOWN_ELSEWHERE:
                found.setdefault(prefix + name, []).append(sanitize(value.text, 100))
        else:
            for inner, text in _attributes(value, f"{prefix}{name}."):
                found.setdefault(inner, []).append(text)
    return [(name, sanitize(" ".join(texts), 400)) for name, texts in found.items()]


def _finding(spec: LayerSpec, why: str, remedy: str) -> Finding:
    return Finding(
        code="layer-refused",
        severity="error",
        where=sanitize(spec.name),
        what=f"{sanitize(spec.name)!r} ({sanitize(spec.type, 60)}) will be refused: {why}.",
        remedy=remedy,
    )


def _parameters(files: CaffeFiles) -> int:
    """Numbers in the blobs that the net's layers have in the caffemodel."""
    if files.stored is None:
        return 0
    names = {spec.name for spec in files.net.layers}
    return sum(
        blob.data.size
        for layer in files.stored.layers
        if layer.name in names
        for blob in layer.blobs
    )
