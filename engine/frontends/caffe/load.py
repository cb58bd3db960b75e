"""Load a Caffe model, prototxt and caffemodel, or look at it without converting it."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.frontends.caffe.convert import (
    Conversion,
    initial_values,
    readers_of,
    refusal_of,
    sized,
    trial,
    wanted_inputs,
)
from engine.frontends.caffe.layer import Tensor
from engine.frontends.caffe.net import read_net
from engine.frontends.caffe.prototxt import MAX_BYTES, Message, Scalar, parse
from engine.frontends.caffe.spec import LayerSpec, Net, NetInput, cut_around, needed_layers
from engine.frontends.caffe.weights import (
    NoBlobs,
    RandomBlobs,
    StoredBlobs,
    StoredLayer,
    Weights,
    no_weights,
    read_caffemodel,
)
from engine.frontends.emit import TypedEmitter
from engine.frontends.ends import left_out, require_once, unused_input
from engine.frontends.loaded import Loaded, SourceInfo, digest, read_file
from engine.frontends.source import (
    LoadOptions,
    SourceLayer,
    SourceModel,
    SourceSummary,
    SourceTensor,
)
from engine.graph.ir.naming import UniqueNames

_MAX_WEIGHTS = (1 << 31) - 1  # protobuf's own limit
_PROTOS = ("caffe", "lstm_caffe")


@dataclass(frozen=True)
class CaffeFiles:
    """Both files, parsed; ``stored`` is None without a caffemodel."""

    net: Net
    stored: tuple[StoredLayer, ...] | None
    files: tuple[tuple[str, str], ...]

    @property
    def version(self) -> str:
        """Of the layers."""
        return "V1" if "layers" in self.net.fields else "V2"


def load(source: SourceModel, reporter: Reporter) -> Loaded:
    """Convert a Caffe model to a graph of the pinned opset.

    Inputs keep their names, shapes and NCHW layout; outputs are those of Caffe, in the order of
    the layers that make them, unless the options name others.

    Raises:
        SourceModelError: damaged, incomplete, files that do not belong together, or options that
            do not fit; names file and line.
        UnsupportedOperatorError: names the layer, why, and where to cut the net.
    """
    options = source.options
    if options.proto not in _PROTOS:
        raise SourceModelError(
            f"There is no Caffe format {sanitize(options.proto)!r}.",
            remedy=did_you_mean(options.proto, _PROTOS) or f"Formats: {', '.join(_PROTOS)}.",
        )
    files = read_files(source)
    net, stored = files.net, files.stored
    reporter.check_cancelled()
    findings = list(net.findings)
    outputs = _wanted_outputs(net, options, findings)
    inputs = wanted_inputs(net, options, outputs)
    values = initial_values([value.name for value in inputs], options.input_initial_val)
    inputs = sized(inputs, options, values, findings)
    layers, needed = needed_layers(net.layers, outputs, [value.name for value in inputs])
    _check_complete(net, inputs, needed, findings)
    emitter = TypedEmitter(net.name or source.model.stem)
    weights = _weights(source, stored)
    conversion = Conversion(emitter, weights, _declare(emitter, inputs, values))
    conversion.convert(layers, outputs, reporter)
    emitter.origin = ""
    for value in outputs:
        emitter.output(conversion.tensors[value].name, name=value)
    reporter.check_cancelled()
    graph = emitter.finish(sanitize(source.model.name))
    findings += conversion.findings + weights.findings(layers)
    info = SourceInfo("caffe", f"Caffe, {files.version} layers", files.files)
    return Loaded(graph, tuple(findings), info)


def read_files(source: SourceModel) -> CaffeFiles:
    """Parse the prototxt, and the caffemodel where there is one.

    Raises:
        SourceModelError: unreadable or damaged.
    """
    data, prototxt = read_file(source.model, MAX_BYTES, "a prototxt")
    digests = [prototxt]
    net = read_net(parse(data.decode("utf-8", "replace"), source.model.name), source.model.name)
    stored = None
    if source.weights is not None:
        view = _mapped(source.weights)
        digests.append(digest(source.weights, view))
        stored = read_caffemodel(view, source.weights.name)
    return CaffeFiles(net, stored, tuple(digests))


def _mapped(path: Path) -> memoryview:
    """The bytes of a file, without a copy."""
    try:
        size = path.stat().st_size
        if size > _MAX_WEIGHTS:
            raise SourceModelError(
                f"{sanitize(str(path))} has {size} bytes; a caffemodel has less than 2 GiB.",
                remedy="Check that this is the right file.",
            )
        if size == 0:
            return memoryview(b"")
        with path.open("rb") as stream:
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise SourceModelError(
            f"{sanitize(str(path))} could not be read: {error.strerror or error}.",
            remedy="Check that it is a file and that you have permission to read it.",
        ) from error


def _weights(source: SourceModel, stored: tuple[StoredLayer, ...] | None) -> Weights:
    if source.options.random_weights:
        return RandomBlobs()
    if stored is None or source.weights is None:
        return Weights()
    return StoredBlobs(stored, source.weights.name)


def _wanted_outputs(net: Net, options: LoadOptions, findings: list[Finding]) -> list[str]:
    if options.outputs:
        values = [net.value_of(name, "'outputs'") for name in options.outputs]
        require_once("outputs", options.outputs, values)
        return values
    if not net.outputs:
        raise SourceModelError(
            "The net has no outputs: every blob is read by a layer, or belongs to training.",
            remedy="Name blobs in 'outputs'.",
        )
    constant = _constants(net)
    left = [value for value in net.outputs if value not in constant]
    if not left or len(left) == len(net.outputs):
        return net.outputs
    names = ", ".join(sanitize(value, 100) for value in net.outputs if value in constant)
    findings.append(
        Finding(
            code="constant-outputs",
            severity="info",
            where=names,
            what=f"The outputs {names} hold the same values for every input and were left out.",
            cause="Prior boxes depend on sizes only; the vendor's toolkit leaves them out as well.",
            remedy="Name the blobs in 'outputs' to have them.",
        )
    )
    return left


def _constants(net: Net) -> set[str]:
    """Values that are made of prior boxes alone, which depend on sizes and on no data."""
    constant: set[str] = set()
    for spec in net.layers:
        if spec.type == "PriorBox" or (spec.reads and constant.issuperset(spec.reads)):
            constant.update(spec.makes)
    return constant


def _check_complete(
    net: Net, inputs: Sequence[NetInput], needed: set[str], findings: list[Finding]
) -> None:
    """Refuse inputs that are needed and not listed; tell those that nothing needs."""
    listed = {value.name for value in inputs}
    missing = [value.name for value in net.inputs if value.name in needed - listed]
    if missing:
        raise left_out(missing)
    findings.extend(unused_input(value.name) for value in inputs if value.name not in needed)


def _declare(
    emitter: TypedEmitter, inputs: Sequence[NetInput], values: Mapping[str, np.ndarray]
) -> dict[str, Tensor]:
    tensors = {}
    for value in inputs:
        known, shape = values.get(value.name), value.shape or ()
        if known is None:
            name = emitter.input(value.name, shape)
        else:
            name = emitter.constant(known, value.name)
        tensors[value.name] = Tensor(name, shape, known)
    return tensors


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
    tried, refused = _tried(net, weights)
    shapes = {name: tensor.shape for name, tensor in tried.tensors.items()}
    findings = [*net.findings, *tried.findings]
    if isinstance(weights, NoBlobs) and weights.asked and not source.options.random_weights:
        error = no_weights("The net")
        findings.append(Finding.of_error("weights-missing", sanitize(source.model.name), error))
    remedy = cut_around(net.layers, refused, net.outputs) if refused else ""
    unique = UniqueNames(set())
    layers = []
    for index, spec in enumerate(net.layers):
        shape = shapes.get(spec.makes[0]) if spec.makes else None
        layers.append(_layer(spec, unique.claim(spec.name), shape, refused.get(index, "")))
        if index in refused:
            findings.append(_finding(spec, refused[index], remedy))
    names = {spec.name for spec in net.layers}
    stored = [layer for layer in files.stored or () if layer.name in names]
    count = sum(blob.size for layer in stored for blob in layer.blobs)
    return SourceSummary(
        framework="caffe",
        format="Caffe network" + (" and its weights" if files.stored else " without weights"),
        version=(("layers", files.version, "V1 and V2"),),
        files=files.files,
        inputs=tuple(SourceTensor(v.name, v.shape, "float32") for v in net.inputs),
        outputs=tuple(SourceTensor(v, shapes.get(v), "float32") for v in net.outputs),
        layers=tuple(layers),
        findings=tuple(findings),
        parameters=count,
        weights_bytes=4 * count,
    )


def _tried(net: Net, weights: Weights) -> tuple[Conversion, dict[int, str]]:
    """A conversion that went as far as shapes are known, and why layers (by index) are refused.

    A layer behind one that is refused, or behind an input without a size, has no shape; its type is
    still looked up.
    """
    conversion = trial(net.inputs, weights)
    refused: dict[int, str] = {}
    readers = readers_of(net.layers)
    for index, spec in enumerate(net.layers):
        why = refusal_of(spec)
        if why:
            refused[index] = why
        elif all(value in conversion.tensors for value in spec.reads):
            try:
                conversion.one(spec, readers)
            except SourceModelError as error:
                refused[index] = error.what
    return conversion, refused


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
    attributes: dict[str, list[str]] = {}
    for name, value in message.fields if message else ():
        if isinstance(value, Scalar):
            if prefix or name not in _SHOWN_ELSEWHERE:
                attributes.setdefault(prefix + name, []).append(sanitize(value.text, 100))
        else:
            for inner, text in _attributes(value, f"{prefix}{name}."):
                attributes.setdefault(inner, []).append(text)
    return [(name, sanitize(" ".join(texts), 400)) for name, texts in attributes.items()]


def _finding(spec: LayerSpec, why: str, remedy: str) -> Finding:
    return Finding(
        code="layer-refused",
        severity="error",
        where=sanitize(spec.name),
        what=f"{sanitize(spec.name)!r} ({sanitize(spec.type, 60)}) will be refused: {why}.",
        remedy=remedy,
    )
