"""Load a Caffe model: prototxt and caffemodel to a graph."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import SourceModelError
from engine.base.events import Reporter
from engine.base.files import read_bounded
from engine.base.findings import Finding
from engine.base.text import did_you_mean, printable, shape_text
from engine.frontends.caffe.blobs import AbsentBlobs, NoBlobs, RandomBlobs, StoredBlobs, Weights
from engine.frontends.caffe.caffemodel import StoredNet, read_caffemodel
from engine.frontends.caffe.convert import Conversion, Trial
from engine.frontends.caffe.layer import Tensor
from engine.frontends.caffe.net import Net, NetInput, needed_layers, read_net
from engine.frontends.caffe.prototxt import MAX_BYTES, parse
from engine.frontends.emit import Emitter
from engine.frontends.loaded import Loaded, SourceInfo
from engine.frontends.source import LoadOptions, SourceModel

__all__ = ["CaffeFiles", "load", "read_files"]

_MAX_WEIGHTS = (1 << 31) - 1  # protobuf's own limit
_PROTOS = ("caffe", "lstm_caffe")
_MAX_SIDE = 1 << 24


@dataclass(frozen=True)
class CaffeFiles:
    """Both files, parsed; ``stored`` is None without a caffemodel."""

    net: Net
    stored: StoredNet | None
    files: tuple[tuple[str, str], ...]


def load(source: SourceModel, reporter: Reporter) -> Loaded:
    """Convert a Caffe model to a graph of the pinned opset.

    Inputs keep their names, shapes and NCHW layout; outputs are those of Caffe, sorted by name,
    unless the options name others.

    Raises:
        SourceModelError: damaged, incomplete, files that do not belong together, or options that
            do not fit; names file and line.
        UnsupportedOperatorError: names the layer, why, and where to cut the net.
    """
    options = source.options
    _check_options(source)
    files = read_files(source)
    net, stored = files.net, files.stored
    reporter.check_cancelled()
    outputs = _wanted_outputs(net, options)
    inputs = _wanted_inputs(net, options, outputs)
    findings = list(net.findings)
    inputs = _sized(inputs, options, findings)
    layers, needed = needed_layers(net.layers, outputs, [value.name for value in inputs])
    _check_complete(net, inputs, needed, findings)
    emitter = Emitter(net.name or source.model.stem)
    weights = _weights(source, stored)
    conversion = Conversion(emitter, weights, _declare(emitter, inputs))
    conversion.convert(layers, reporter)
    emitter.origin = ""
    for value in outputs:
        emitter.output(conversion.tensors[value].name, name=value)
    reporter.check_cancelled()
    graph = emitter.finish(printable(source.model.name))
    findings += conversion.findings + weights.findings(layers)
    info = SourceInfo("caffe", _format(files), 0, 0, "", files.files)
    return Loaded(graph, tuple(findings), info)


def read_files(source: SourceModel) -> CaffeFiles:
    """Parse the prototxt, and the caffemodel where there is one.

    Raises:
        SourceModelError: unreadable or damaged.
    """
    data = read_bounded(source.model, MAX_BYTES, "a prototxt")
    digests = [(source.model.name, hashlib.sha256(data).hexdigest())]
    net = read_net(parse(data.decode("utf-8", "replace"), source.model.name), source.model.name)
    stored = None
    if source.weights is not None:
        view = _mapped(source.weights)
        digests.append((source.weights.name, hashlib.sha256(view).hexdigest()))
        stored = read_caffemodel(view, source.weights.name)
    return CaffeFiles(net, stored, tuple(digests))


def _mapped(path: Path) -> memoryview:
    """The bytes of a file, without a copy."""
    try:
        size = path.stat().st_size
        if size > _MAX_WEIGHTS:
            raise SourceModelError(
                f"{printable(str(path))} has {size} bytes; a caffemodel has less than 2 GiB.",
                remedy="Check that this is the right file.",
            )
        if size == 0:
            return memoryview(b"")
        with path.open("rb") as stream:
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise SourceModelError(
            f"{printable(str(path))} could not be read: {error.strerror or error}.",
            remedy="Check that it is a file and that you may read it.",
        ) from error


def _weights(source: SourceModel, stored: StoredNet | None) -> Weights:
    if source.options.random_weights:
        return RandomBlobs()
    if stored is None or source.weights is None:
        return AbsentBlobs()
    return StoredBlobs(stored, source.weights.name)


def _format(files: CaffeFiles) -> str:
    kind = "V1 layers" if "layers" in files.net.fields else "V2 layers"
    return f"Caffe, {kind}"


def _check_options(source: SourceModel) -> None:
    options = source.options
    if options.proto not in _PROTOS:
        raise SourceModelError(
            f"There is no Caffe format {printable(options.proto)!r}.",
            remedy=did_you_mean(options.proto, _PROTOS) or f"Formats: {', '.join(_PROTOS)}.",
        )
    if options.input_initial_val is not None:
        raise SourceModelError(
            "Inputs of a Caffe model take no initial values.",
            remedy="Leave 'input_initial_val' out.",
        )


def _wanted_outputs(net: Net, options: LoadOptions) -> list[str]:
    if options.outputs:
        values = [net.value_of(name, "'outputs'") for name in options.outputs]
        for index, value in enumerate(values):
            if value in values[:index]:
                raise SourceModelError(f"{printable(value)!r} is listed twice in 'outputs'.")
        return values
    if not net.outputs:
        raise SourceModelError(
            "The net has no outputs: every blob is read by a layer, or belongs to training.",
            remedy="Name blobs in 'outputs'.",
        )
    return net.outputs


def _wanted_inputs(net: Net, options: LoadOptions, outputs: Sequence[str]) -> list[NetInput]:
    """The inputs of the graph in their order; a blob inside the net may be one."""
    if options.inputs:
        return _named(net, options, options.inputs)
    if options.input_name:
        return _ordered(net, options.input_name)
    _, needed = needed_layers(net.layers, outputs)
    inputs = [value for value in net.inputs if value.name in needed]
    if not inputs:
        raise SourceModelError(
            "No input is needed for the outputs: they are constants."
            if net.inputs
            else "The net has no inputs.",
            remedy="Name other blobs in 'outputs', or give the net an Input layer.",
        )
    return inputs


def _ordered(net: Net, names: Sequence[str]) -> list[NetInput]:
    """``input_name``: the net's inputs in another order, by the names of layers or blobs."""
    by_name = {value.layer: value for value in net.inputs} | {v.name: v for v in net.inputs}
    chosen = []
    for name in names:
        if name not in by_name:
            raise SourceModelError(
                f"The net has no input layer {printable(name)!r}.",
                remedy=did_you_mean(name, by_name)
                or f"Its inputs: {', '.join(printable(v.name, 60) for v in net.inputs[:8])}.",
            )
        chosen.append(by_name[name])
    missing = [value.name for value in net.inputs if value not in chosen]
    if missing or len(set(chosen)) < len(chosen):
        shown = ", ".join(printable(v.name, 60) for v in net.inputs[:8])
        raise SourceModelError(
            "'input_name' does not name each input once.",
            cause=f"The inputs are {shown}.",
            remedy="Name all of them, in the order that you want.",
        )
    return chosen


def _named(net: Net, options: LoadOptions, names: Sequence[str]) -> list[NetInput]:
    """``inputs``: blobs at which the graph begins."""
    own = {value.name: value for value in net.inputs}
    own |= {value.layer: value for value in net.inputs if value.layer not in own}
    sizes = options.input_size_list or [()] * len(names)
    chosen = []
    for index, name in enumerate(names):
        if name in own:
            value = own[name]
        else:
            blob = net.value_of(name, "'inputs'")
            given = index < len(sizes) and sizes[index]
            value = NetInput(blob, blob, None if given else _shape_inside(net, options, blob))
        if value in chosen:
            raise SourceModelError(f"{printable(name)!r} is listed twice in 'inputs'.")
        chosen.append(value)
    return chosen


def _shape_inside(net: Net, options: LoadOptions, value: str) -> tuple[int, ...]:
    """The shape of a blob inside the net, found by a trial of the layers before it."""
    layers, needed = needed_layers(net.layers, [value])
    inputs = [known for known in net.inputs if known.name in needed]
    tensors = {known.name: Tensor(known.name, known.shape or ()) for known in inputs}
    trial = Conversion(Trial(), NoBlobs(), tensors)
    trial.convert(layers)
    return trial.tensors[value].shape


def _sized(inputs: list[NetInput], options: LoadOptions, findings: list[Finding]) -> list[NetInput]:
    """The inputs with their final shapes."""
    sizes = options.input_size_list
    if sizes is not None and len(sizes) != len(inputs):
        shown = ", ".join(printable(value.name, 60) for value in inputs[:8])
        raise SourceModelError(
            f"'input_size_list' has {len(sizes)} entries; there are {len(inputs)} inputs "
            f"({shown}).",
            remedy="Give one entry for each input, in their order.",
        )
    given = sizes if sizes is not None else [None] * len(inputs)
    return [
        NetInput(value.name, value.layer, _shape(value, size, findings))
        for value, size in zip(inputs, given, strict=True)
    ]


def _shape(value: NetInput, size: Sequence[int] | None, findings: list[Finding]) -> tuple[int, ...]:
    name = printable(value.name)
    if size:
        shape = tuple(int(side) for side in size)
        if value.shape is not None and len(shape) == len(value.shape) - 1:
            shape = (1, *shape)
        if value.shape is not None and len(shape) != len(value.shape):
            raise SourceModelError(
                f"The size {list(size)} of input {name!r} has {len(size)} dimensions; the model's "
                f"input has {len(value.shape)}: {shape_text(value.shape)}.",
                remedy="Write it as [[1, 3, 224, 224]], with the batch, one list per input.",
            )
    elif value.shape is None:
        raise SourceModelError(
            f"The file does not tell the size of input {name!r}.",
            remedy="Give it, for example input_size_list: [[1, 3, 224, 224]].",
        )
    else:
        shape = value.shape
        if shape and shape[0] in (0, -1):
            shape = (1, *shape[1:])
            findings.append(_batch_fixed(name, value.shape))
    if not shape or any(not 1 <= side <= _MAX_SIDE for side in shape):
        raise SourceModelError(
            f"The size of input {name!r} is {list(shape)}: every entry must be a whole number of "
            "at least 1.",
            remedy="Give it, for example input_size_list: [[1, 3, 224, 224]].",
        )
    return shape


def _batch_fixed(name: str, shape: tuple[int, ...]) -> Finding:
    return Finding(
        code="batch-fixed",
        severity="info",
        where=name,
        what=f"The first axis of input {name!r} is open ({shape_text(shape)}); it was set to 1.",
        cause="An NPU needs fixed sizes.",
        remedy="Give 'input_size_list' for another batch.",
    )


def _check_complete(
    net: Net, inputs: Sequence[NetInput], needed: set[str], findings: list[Finding]
) -> None:
    """Refuse inputs that are needed and not listed; tell those that nothing needs."""
    listed = {value.name for value in inputs}
    missing = [value.name for value in net.inputs if value.name in needed - listed]
    if missing:
        names = ", ".join(repr(printable(name, 100)) for name in missing[:5])
        raise SourceModelError(
            f"The outputs need {names}, which the list of inputs leaves out.",
            cause="The chosen inputs do not cut every path from the net's own inputs.",
            remedy="Add it to 'inputs'.",
        )
    findings.extend(
        Finding(
            code="unused-input",
            severity="warning",
            where=printable(value.name),
            what=f"No output needs the input {printable(value.name)!r}.",
            remedy="Leave it out of 'inputs'.",
        )
        for value in inputs
        if value.name not in needed
    )


def _declare(emitter: Emitter, inputs: Sequence[NetInput]) -> dict[str, Tensor]:
    tensors = {}
    for value in inputs:
        shape = value.shape or ()
        tensors[value.name] = Tensor(emitter.input(value.name, shape), shape)
    return tensors
