"""``onnx_edit`` of ``rknn.utils``: other shapes for the inputs and outputs of an ONNX model.

Signature, rules and the lines that are told: README of ``examples/functions/onnx_edit`` in the
public repository of RKNN-Toolkit2.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.api.log import close_log, open_log, path_text
from engine.api.shape_equation import Step, Transform, transform_of
from engine.base.errors import DatasetError, EngineError, UsageError
from engine.base.files import atomic_write, output_errors
from engine.base.text import did_you_mean, sanitize
from engine.dataset import read_dataset
from engine.dataset.decode import file_kind, open_array
from engine.frontends.onnx.read import read_onnx

_MARK = "_oxedit"


def onnx_edit(
    model: Any,
    export_path: Any,
    inputs_transform: Mapping[str, str] | None = None,
    outputs_transform: Mapping[str, str] | None = None,
    dataset: Any = None,
) -> int:
    """Write a copy of an ONNX model whose inputs and outputs have other shapes.

    The names stay; reshapes and transposes between the new shapes and the old ones are inserted.
    What is done is told on standard error.

    Args:
        model: path of the ONNX file.
        export_path: path of the new file; one that exists is replaced.
        inputs_transform: name of an input -> equation, such as ``'a,b,c,d->1,ad,b,c'``.
        outputs_transform: the same for outputs.
        dataset: path of a list for ``build``; its arrays are transformed too. The new list is
            ``dataset_for_NAME.txt`` beside ``export_path`` (NAME without its suffix), its arrays
            are in the folder ``dataset_for_NAME``.

    Returns:
        0; -1 where no transform was given, and nothing is done.

    Raises:
        ValueError: as the vendor's: a name or an equation does not fit, or a file cannot be used.
            The reason is on standard error too.
    """
    log = open_log(verbose=False, verbose_file=None)
    log.setLevel(logging.INFO)
    try:
        return _edit(model, export_path, inputs_transform, outputs_transform, dataset, log)
    except EngineError as error:
        log.error("onnx_edit: %s", error)
        raise ValueError(f"onnx_edit: {error}") from error
    finally:
        close_log(log)


def _edit(
    model: Any, export_path: Any, inputs: Any, outputs: Any, dataset: Any, log: logging.Logger
) -> int:
    source, target = Path(path_text(model, "model")), Path(path_text(export_path, "export_path"))
    inputs, outputs = _given(inputs, "inputs_transform"), _given(outputs, "outputs_transform")
    if not inputs and not outputs:
        log.warning("onnx_edit: neither inputs_transform nor outputs_transform is given.")
        return -1
    proto = read_onnx(source).proto
    into = {info.name: info for info in proto.graph.input}
    out_of = {info.name: info for info in proto.graph.output}
    changes = {
        name: transform_of(name, equation, _shape(_tensor(name, into, "input")))
        for name, equation in inputs.items()
    }
    results = {
        name: transform_of(name, equation, _shape(_tensor(name, out_of, "output")))
        for name, equation in outputs.items()
    }
    samples = None if dataset is None else _changed_samples(dataset, proto, changes)
    for name, change in changes.items():
        _change_input(proto.graph, into[name], change)
        _tell(log, "Input", name, change, change.backward)
    for name, change in results.items():
        _change_output(proto.graph, out_of[name], change)
        _tell(log, "Output", name, change, change.forward)
    del proto.graph.value_info[:]  # what was said of tensors that have other names now
    atomic_write(target, proto.SerializeToString(), overwrite=True)
    log.info("Edited model has been saved to '%s'.", target)
    if samples is not None:
        _write_samples(target, samples, log)
    return 0


def _given(transforms: Any, name: str) -> Mapping[str, str]:
    if transforms is None:
        return {}
    if not isinstance(transforms, Mapping):
        raise UsageError(
            f"{name} is a {type(transforms).__name__}; it must be a dictionary.",
            remedy=f"Give {name}={{'name of the tensor': 'a,b,c,d->1,ad,b,c'}}.",
        )
    return transforms


def _tensor(
    name: str, tensors: Mapping[str, onnx.ValueInfoProto], kind: str
) -> onnx.ValueInfoProto:
    if name in tensors:
        return tensors[name]
    known = ", ".join(sanitize(one, 80) for one in list(tensors)[:20])
    raise UsageError(
        f"The model has no {kind} {sanitize(repr(name), 80)}.",
        cause=f"Its {kind}s: {known}.",
        remedy=did_you_mean(str(name), tensors) or f"Give the name of an {kind}.",
    )


def _shape(info: onnx.ValueInfoProto) -> tuple[int, ...]:
    tensor = info.type.tensor_type
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    if not tensor.HasField("shape") or any(size < 1 for size in shape):
        raise UsageError(
            f"The shape of {sanitize(info.name, 80)} is not fixed.",
            cause="Its axes have names instead of sizes, or none is said.",
            remedy="Export the model with fixed sizes, or fix them first.",
        )
    return shape


def _change_input(graph: onnx.GraphProto, info: onnx.ValueInfoProto, change: Transform) -> None:
    """The input has its new shape; what read it reads the last of the inserted operators."""
    if not change.backward:
        _set_shape(info, change.changed)
        return
    inner = _new_name(graph, info.name + _MARK)
    _rename_readers(graph, info.name, inner)
    for kept in graph.output:
        if kept.name == info.name:
            raise UsageError(
                f"{sanitize(info.name, 80)} is an input and an output of the model at once.",
                remedy="Take another input.",
            )
    nodes = _nodes(graph, info.name, inner, change.backward)
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *rest])
    _set_shape(info, change.changed)


def _change_output(graph: onnx.GraphProto, info: onnx.ValueInfoProto, change: Transform) -> None:
    """What made the output makes an inner tensor, from which the inserted operators make it."""
    if not change.forward:
        _set_shape(info, change.changed)
        return
    inner = _new_name(graph, info.name + _MARK)
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name == info.name:
                node.output[index] = inner
    _rename_readers(graph, info.name, inner)
    graph.node.extend(_nodes(graph, inner, info.name, change.forward))
    _set_shape(info, change.changed)


def _rename_readers(graph: onnx.GraphProto, name: str, inner: str) -> None:
    for node in graph.node:
        for index, one in enumerate(node.input):
            if one == name:
                node.input[index] = inner
        for attribute in node.attribute:
            for nested in (attribute.g, *attribute.graphs):
                _rename_readers(nested, name, inner)
                for result in nested.output:
                    if result.name == name:
                        result.name = inner


def _nodes(
    graph: onnx.GraphProto, start: str, end: str, steps: Sequence[Step]
) -> list[onnx.NodeProto]:
    nodes: list[onnx.NodeProto] = []
    at = start
    for number, step in enumerate(steps, 1):
        last = number == len(steps)
        to = end if last else _new_name(graph, f"{start}{_MARK}_{number}")
        name = _new_name(graph, f"{end}{_MARK}_step_{number}")
        if step.order is not None:
            nodes.append(helper.make_node("Transpose", [at], [to], name, perm=step.order))
        else:
            shape = _new_name(graph, f"{name}_shape")
            array = np.asarray(step.shape, np.int64)
            graph.initializer.append(numpy_helper.from_array(array, shape))
            nodes.append(helper.make_node("Reshape", [at, shape], [to], name))
        at = to
    return nodes


def _new_name(graph: onnx.GraphProto, wish: str) -> str:
    taken = {name for node in graph.node for name in (*node.input, *node.output, node.name)}
    taken |= {tensor.name for tensor in graph.initializer}
    taken |= {info.name for info in (*graph.input, *graph.output)}
    name, number = wish, 1
    while name in taken:
        name, number = f"{wish}_{number}", number + 1
    return name


def _set_shape(info: onnx.ValueInfoProto, shape: Sequence[int]) -> None:
    dims = info.type.tensor_type.shape.dim
    del dims[:]
    for size in shape:
        dims.add().dim_value = size


def _tell(
    log: logging.Logger, kind: str, name: str, change: Transform, steps: Sequence[Step]
) -> None:
    shown = sanitize(name, 120)
    new = list(change.changed)
    start, end = new, list(change.shape)
    if kind == "Output":
        start, end = end, start
    lines = [
        f"For '{shown}':'{change.equation}'",
        f"  {kind}:'{shown}' was reset as shape-{new}.(Origin shape is {list(change.shape)})",
        f"  Insert ops to transform {start} to {end}:",
    ]
    at: Sequence[int] = start
    for step in steps:
        what = "reshape" if step.order is None else "transpose"
        how = "reshape" if step.order is None else f"transpose{tuple(step.order)}"
        lines.append(f"  - Insert {what} op. {list(at)} {how} to {list(step.shape)}.")
        at = step.shape
    log.info("%s", "\n".join(lines))


Samples = list[list[tuple[Path, np.ndarray | None]]]
"""Of each sample and input the file, and the array that stands for it where it is transformed."""


def _changed_samples(
    dataset: Any, proto: onnx.ModelProto, changes: Mapping[str, Transform]
) -> Samples:
    """The samples of the list, the arrays of changed inputs transformed.

    Raises:
        DatasetError: a picture, or an array of another shape, for an input that is transformed.
    """
    constants = {tensor.name for tensor in proto.graph.initializer}
    names = [info.name for info in proto.graph.input if info.name not in constants]
    samples = []
    for entry in read_dataset(Path(path_text(dataset, "dataset"))).entries:
        if len(entry) != len(names):
            raise DatasetError(
                f"A line of {dataset} has {len(entry)} files, and the model {len(names)} inputs.",
                remedy="Give one file per input in each line, split by a space.",
            )
        samples.append(
            [
                (path, _changed(path, changes[name]) if name in changes else None)
                for name, path in zip(names, entry, strict=True)
            ]
        )
    return samples


def _changed(path: Path, change: Transform) -> np.ndarray:
    if file_kind(path) != "npy":
        raise DatasetError(
            f"{path} is a picture, and its input has another shape now.",
            cause="Only arrays (npy) can be transformed: the layout of a picture is the model's.",
            remedy="Save the pictures as npy of the model's shape, or leave dataset out.",
        )
    array = open_array(path)
    if array.shape != change.shape:
        raise DatasetError(
            f"{path} has the shape {list(array.shape)}, and its input {list(change.shape)}.",
            remedy="Save the array in the shape of the model's input.",
        )
    for step in change.forward:
        array = array.reshape(step.shape) if step.order is None else array.transpose(step.order)
    return np.ascontiguousarray(array)


def _write_samples(target: Path, samples: Samples, log: logging.Logger) -> None:
    """The arrays, numbered where two files have one name, and the list of them."""
    folder = target.with_name(f"dataset_for_{target.stem}")
    listed = target.with_name(f"{folder.name}.txt")
    with output_errors(folder):
        folder.mkdir(exist_ok=True)
    lines = []
    used: dict[str, tuple[Path, int]] = {}
    for number, sample in enumerate(samples):
        files = []
        for index, (path, array) in enumerate(sample):
            if array is None:
                files.append(os.path.relpath(path, target.parent))
                continue
            name = path.name
            if used.setdefault(name, (path, index)) != (path, index):
                name = f"{path.stem}_{number}_{index}.npy"
            atomic_write(folder / name, partial(_save, array), overwrite=True)
            files.append(f"{folder.name}/{name}")
        lines.append(" ".join(files))
    atomic_write(listed, ("\n".join(lines) + "\n").encode(), overwrite=True)
    log.info("New dataset has been saved to '%s'.", listed)
    log.info("New dataset folder is '%s'.", folder)


def _save(array: np.ndarray, stream: BinaryIO) -> None:
    np.save(stream, array)
