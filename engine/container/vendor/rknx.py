"""RKNN3 files (RKNX): a header and a graph, both FlatBuffers behind a fixed head.

Layout as the public reader of Netron has it (source/rknn.js, tools/rknx.fbs); no sample was at
hand.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from engine.base.findings import Finding
from engine.base.formats.flatbuffers import FlatTable
from engine.container.vendor.model import (
    VendorGraph,
    VendorLayer,
    VendorModel,
    VendorPort,
    VendorTensor,
)
from engine.container.vendor.values import BoundedReader, checked_shape, flat_root

RKNX_MAGIC = b"RKNX"
_HEADER = 0x50
_SUB_MAGIC = b"RKNX_SUB"
_SUB_HEADER = 0x58
_MOST = 100_000
_MOST_GRAPHS = 256
_MOST_TRIES = 1000
_TASK_FIELDS = 5


def read_rknx(span: BoundedReader, base: VendorModel) -> VendorModel:
    """An RKNN3 file; a layer there is a ``Task`` of five unnamed numbers.

    Raises:
        ContainerError: it is damaged.
    """
    header = flat_root(span.inner(_HEADER, span.size - _HEADER, "the header"))
    hardware = header.table(5)
    platform = hardware.text(0) if hardware else ""
    model = replace(
        base,
        kind="rknx",
        platforms=(platform,) if platform else (),
        generation=3,
        name=header.text(1),
        compiler=header.text(2),
        toolkit=header.text(3),
    )
    start = _sub(span)
    if start is None:
        what = "It holds no graph that is known, only a header."
        return replace(model, findings=(Finding("graph-missing", "warning", "graph", what),))
    place = start + _SUB_HEADER
    part = span.inner(place, span.size - place, "the graph")
    graphs = tuple(_graph(table, part) for table in islice(flat_root(part).tables(2), _MOST_GRAPHS))
    first = graphs[0] if graphs else VendorGraph()
    return replace(
        model,
        graphs=graphs,
        inputs=tuple(VendorPort(first.tensors[i]) for i in first.inputs),
        outputs=tuple(VendorPort(first.tensors[i]) for i in first.outputs),
    )


def _sub(span: BoundedReader) -> int | None:
    """Where the graph's head starts: on a multiple of 8."""
    position = _HEADER - 1
    for _ in range(_MOST_TRIES):
        position = span.find(_SUB_MAGIC, position + 1)
        if position < 0 or position % 8 == 0:
            break
    return position if position >= 0 and position % 8 == 0 else None


def _graph(table: FlatTable, span: BoundedReader) -> VendorGraph:
    tensors: list[VendorTensor] = []
    for entry in table.tables(2):
        if len(tensors) >= _MOST:
            raise span.damaged_error(f"there are more than {_MOST} tensors")
        tensors.append(
            VendorTensor(
                name=entry.text(6) or f"#{len(tensors)}",
                shape=checked_shape(entry.numbers(4), span),
                dtype=entry.text(8),
                bytes=entry.number(13, "I"),
            )
        )
    ports = table.numbers(3), table.numbers(4)
    for number in (*ports[0], *ports[1]):
        if not 0 <= number < len(tensors):
            raise span.damaged_error(f"tensor {number} is named, but there are {len(tensors)}")
    layers: list[VendorLayer] = []
    for task in table.tables(5):
        if len(layers) >= _MOST:
            raise span.damaged_error(f"there are more than {_MOST} tasks")
        values = tuple((f"var{slot}", task.number(slot)) for slot in range(_TASK_FIELDS))
        layers.append(VendorLayer(f"Task_{len(layers)}", "Task", attributes=values))
    return VendorGraph(tuple(layers), tuple(tensors), *ports)


# Precompiled graphs of generation 1 (VPMN, also called NBG): names of layers and nothing else.
#
# Layout as the public reader of Netron has it (source/rknn.js, ``openvx.Model``).

NBG_MAGIC = b"VPMN"
_NBG_OP = "NBG"
"""The layer of a list that holds such a graph."""
_NAME = 64
_HEAD = 80
_MOST_LAYERS = 50_000


def _skipped(major: int) -> int:
    """Bytes between the head and the table of offsets."""
    if major <= 1:
        return 32
    return 288 if major <= 3 else 296


def read_nbg(span: BoundedReader, base: VendorModel) -> VendorModel:
    """A precompiled graph; its layers stand behind the one of the layer list that holds them.

    Raises:
        ContainerError: it is damaged.
    """
    major, minor = span.unpack("HH", 4, "the version")
    name = span.text(12, _NAME, "the name of the network")
    (count,) = span.unpack("I", 76, "the number of layers")
    # offsets and sizes of inputs, outputs and layers
    offset = span.unpack("6I", _HEAD + _skipped(major), "the table of offsets")[4]
    stride = _NAME + 4 * (3 if major > 3 else 2)
    if count > _MOST_LAYERS:
        raise span.damaged_error(f"there are more than {_MOST_LAYERS} layers")
    span.check(offset, count * stride, "the list of layers")
    layers = []
    for position in range(count):
        place = offset + position * stride
        op = span.text(place, _NAME, "a layer")
        (index,) = span.unpack("I", place + _NAME, "a layer")
        layers.append(VendorLayer(f"{op}_{index}", op, attributes=(("index", index),)))
    listed = base.graphs[0] if base.graphs else VendorGraph()
    findings = [*base.findings]
    if base.graphs and not any(layer.op == _NBG_OP for layer in listed.layers):
        what = "It holds a precompiled graph, but no layer of its list stands for it."
        findings.append(Finding("nbg-unused", "warning", "compiled model", what))
    names_only = "A precompiled graph holds the names of its layers; how they are linked, and "
    names_only += "platform and types, are not established."
    findings.append(Finding("names-only", "info", "graph", names_only))
    return replace(
        base,
        kind="layers-nbg" if base.graphs else "nbg",
        generation=1,
        compiler=f"VPMN {major}.{minor}",
        name=base.name if base.graphs else name,
        graphs=(replace(listed, layers=(*listed.layers, *layers)),),
        findings=tuple(findings),
    )
