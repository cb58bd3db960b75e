"""From a net and its weights to a graph: its inputs, then layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.events import NullReporter, Reporter
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.frontends import ends
from engine.frontends.caffe.layer import MAX_ELEMENTS, Layer, Tensor
from engine.frontends.caffe.layers import LAYERS, REFUSED
from engine.frontends.caffe.spec import LayerSpec, Net, NetInput, cut_around, needed_layers
from engine.frontends.caffe.weights import NoBlobs, Weights
from engine.frontends.emit import MisfitError, TypedEmitter
from engine.frontends.ends import batch_fixed, input_size, require_once
from engine.frontends.source import LoadOptions


def trial(inputs: Sequence[NetInput], weights: Weights) -> Conversion:
    """A conversion that keeps nothing; inputs without a size are left out."""
    probe = TypedEmitter("probe", keeps=False)
    tensors = {
        value.name: Tensor(probe.input(value.name, value.shape), value.shape)
        for value in inputs
        if value.shape and min(value.shape) > 0
    }
    return Conversion(probe, weights, tensors)


@dataclass
class Conversion:
    """A conversion under way.

    Attributes:
        tensors: value of the net -> tensor of the graph.
        findings: what layers had to say.
    """

    writer: TypedEmitter
    weights: Weights
    tensors: dict[str, Tensor]
    findings: list[Finding] = field(default_factory=list)

    def convert(
        self,
        layers: Sequence[LayerSpec],
        outputs: Sequence[str],
        reporter: Reporter | None = None,
    ) -> None:
        """Convert layers in their order, which make ``outputs``; their inputs must be there.

        Raises:
            UnsupportedOperatorError: a layer that is not converted; names it, the reason, and where
                to end the net.
            SourceModelError: a layer that does not fit its inputs or its weights.
        """
        readers = readers_of(layers)
        for index, spec in enumerate(layers):
            (reporter or NullReporter()).check_cancelled()
            try:
                self.one(spec, readers)
            except UnsupportedOperatorError as error:
                if error.remedy:
                    raise
                refused = {i for i, other in enumerate(layers) if refusal_of(other)} | {index}
                raise UnsupportedOperatorError(
                    error.what, cause=error.cause, remedy=cut_around(layers, refused, outputs)
                ) from error

    def one(self, spec: LayerSpec, readers: Mapping[str, Counter[str]]) -> None:
        """Convert one layer; ``readers`` tells which types of layers read a value."""
        converter = LAYERS.get(spec.type)
        if converter is None:
            why = refusal_of(spec)
            raise UnsupportedOperatorError(
                f"{spec.path}, line {spec.fields.line}, cannot be converted: {why}.",
                remedy="",  # where to cut is known to who sees all layers
            )

        def only_feeds(top: int, kind: str) -> bool:
            return set(readers.get(spec.makes[top], ())) == {kind}

        self.writer.origin = sanitize(spec.name)
        inputs = [self.tensors[value] for value in spec.reads]
        masks = [index for index, x in enumerate(inputs) if x.plane is not None]
        if masks and (spec.type != "Upsample" or masks != [1]):
            raise SourceModelError(
                f"{spec.path} reads the mask of a pooling as numbers.",
                remedy="Cut the model before the layer that reads it (outputs).",
            )
        layer = Layer(spec, inputs, self.weights, self.writer, only_feeds)
        try:
            tops = converter(layer)
        except MisfitError as error:
            raise layer.fault(error.what) from error
        self._check_blobs(layer)
        self.tensors.update(zip(spec.makes, tops, strict=True))
        self.findings += layer.findings
        self._note_unread(spec)

    def _check_blobs(self, layer: Layer) -> None:
        stored = self.weights.stored(layer.spec)
        if stored is not None and stored > layer.blobs_used:
            raise layer.fault(
                f"the caffemodel has {stored} blobs for it, and it takes {layer.blobs_used}"
            )

    def _note_unread(self, spec: LayerSpec) -> None:
        spec.fields.ignore("name", "type", "bottom", "top", "include", "exclude")
        # how weights are made before training changes nothing here
        unread = [
            name
            for name in spec.fields.unread()
            if not any(part.endswith("filler") for part in name.split("."))
        ]
        if unread:
            names = ", ".join(sanitize(name, 60) for name in unread[:6])
            self.findings.append(
                Finding(
                    code="unknown-parameter",
                    severity="warning",
                    where=sanitize(spec.name),
                    what=f"Parameters of {sanitize(spec.name)!r} ({spec.type}) are not known "
                    f"here and make no difference: {names}.",
                    cause="They are of a fork of Caffe, or of another type of layer.",
                    remedy="Look up what they mean in the fork that trained the model.",
                )
            )


def readers_of(layers: Sequence[LayerSpec]) -> dict[str, Counter[str]]:
    """Value -> how many layers of each type read it."""
    readers: dict[str, Counter[str]] = {}
    for spec in layers:
        for value in spec.reads:
            readers.setdefault(value, Counter())[spec.type] += 1
    return readers


def refusal_of(spec: LayerSpec) -> str:
    """Why a layer's type is not converted; empty where it is."""
    if spec.type in LAYERS:
        return ""
    if spec.type in REFUSED:
        return REFUSED[spec.type]
    if not spec.type:
        return "it has no type"
    near = did_you_mean(spec.type, LAYERS)
    return f"the type {sanitize(spec.type, 60)!r} is not known" + (
        f" ({near[:-1]})" if near else ""
    )


# The inputs of the graph: which blobs, in which order, of which sizes and values.


def initial_values(names: Sequence[str], given: Sequence[Any] | None) -> Mapping[str, np.ndarray]:
    """The inputs that have a value, as float32, which all blobs of Caffe are.

    Args:
        names: of the inputs, in their order.
        given: per input None, numbers, or the path of an npy file; None for no values at all.

    Raises:
        SourceModelError: the list does not fit the inputs, an entry cannot be read, or every input
            has a value.
    """
    values = ends.initial_values(names, given)
    if values and len(values) == len(names):
        raise ends.refuse_no_input()
    for name, array in values.items():
        if not 0 < array.size <= MAX_ELEMENTS:
            raise SourceModelError(
                f"The initial value of input {sanitize(name)!r} has {array.size} elements.",
                remedy="Give an npy file or an array of numbers with the shape of the input.",
            )
    return {name: np.ascontiguousarray(array, np.float32) for name, array in values.items()}


def wanted_inputs(net: Net, options: LoadOptions, outputs: Sequence[str]) -> list[NetInput]:
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
                f"The net has no input layer {sanitize(name)!r}.",
                remedy=did_you_mean(name, by_name)
                or f"Its inputs: {', '.join(sanitize(v.name, 60) for v in net.inputs[:8])}.",
            )
        chosen.append(by_name[name])
    missing = [value.name for value in net.inputs if value not in chosen]
    if missing or len(set(chosen)) < len(chosen):
        shown = ", ".join(sanitize(v.name, 60) for v in net.inputs[:8])
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
            sized_by_user = index < len(sizes) and sizes[index]
            value = NetInput(
                blob, blob, None if sized_by_user else _shape_inside(net, options, blob)
            )
        chosen.append(value)
    require_once("inputs", names, chosen)
    return chosen


def _shape_inside(net: Net, options: LoadOptions, value: str) -> tuple[int, ...]:
    """The shape of a blob inside the net, found by a trial of the layers before it."""
    layers, needed = needed_layers(net.layers, [value])
    inputs = [known for known in net.inputs if known.name in needed]
    for known in inputs:
        _shape(known, None, [])  # refuses one without a size
    conversion = trial(inputs, NoBlobs())
    conversion.convert(layers, [value])
    return conversion.tensors[value].shape


def sized(
    inputs: list[NetInput],
    options: LoadOptions,
    values: Mapping[str, np.ndarray],
    findings: list[Finding],
) -> list[NetInput]:
    """The inputs with their final shapes: an initial value's own, as asked for, or the file's."""
    sizes = options.input_size_list
    ends.require_entries([value.name for value in inputs], sizes, "input_size_list")
    asked = sizes if sizes is not None else [None] * len(inputs)
    return [
        NetInput(
            value.name,
            value.layer,
            values[value.name].shape if value.name in values else _shape(value, size, findings),
        )
        for value, size in zip(inputs, asked, strict=True)
    ]


def _shape(value: NetInput, size: Sequence[int] | None, findings: list[Finding]) -> tuple[int, ...]:
    if size:
        declared = value.shape
        shown = "" if declared is None else shape_text(declared)
        return input_size(value.name, size, None if declared is None else len(declared), shown)
    if value.shape is None:
        raise SourceModelError(
            f"The file does not have the size of input {sanitize(value.name)!r}.",
            remedy="Give it, for example input_size_list: [[1, 3, 224, 224]].",
        )
    shape = value.shape
    if shape and shape[0] in (0, -1):
        shape = (1, *shape[1:])
        findings.append(batch_fixed(value.name, shape_text(value.shape)))
    return input_size(value.name, shape, None)
