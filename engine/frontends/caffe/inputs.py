"""The inputs of the graph: which blobs, in which order, of which sizes and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.frontends import option_checks as entries
from engine.frontends.caffe.convert import trial
from engine.frontends.caffe.layer import MAX_ELEMENTS
from engine.frontends.caffe.spec import Net, NetInput, needed_layers
from engine.frontends.caffe.weights import NoBlobs
from engine.frontends.ends import batch_fixed, input_size, require_once
from engine.frontends.source import LoadOptions


def initial_values(names: Sequence[str], given: Sequence[Any] | None) -> Mapping[str, np.ndarray]:
    """The inputs that have a value, as float32, which all blobs of Caffe are.

    Args:
        names: of the inputs, in their order.
        given: per input None, numbers, or the path of an npy file; None for no values at all.

    Raises:
        SourceModelError: the list does not fit the inputs, an entry cannot be read, or every input
            has a value.
    """
    values = entries.initial_values(names, given)
    if values and len(values) == len(names):
        raise entries.refuse_no_input()
    for name, array in values.items():
        if not 0 < array.size <= MAX_ELEMENTS:
            raise SourceModelError(
                f"The initial value of input {sanitize(name)!r} has {array.size} elements.",
                remedy="Give an npy file or an array of numbers with the shape of the input.",
            )
    return {name: np.ascontiguousarray(array, np.float32) for name, array in values.items()}


_MAX_SIDE = 1 << 24


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
    entries.require_entries([value.name for value in inputs], sizes, "input_size_list")
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
