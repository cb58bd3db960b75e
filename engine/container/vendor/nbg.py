"""Precompiled graphs of generation 1 (VPMN, also called NBG): names of layers and nothing else.

Layout as the public reader of Netron has it (source/rknn.js, ``openvx.Model``).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.container.vendor.bounded_reader import BoundedReader
from engine.container.vendor.model import VendorGraph, VendorLayer

__all__ = ["NBG_MAGIC", "NbgModel", "read_nbg"]

NBG_MAGIC = b"VPMN"
_NAME = 64
_HEAD = 80
_MOST_LAYERS = 50_000


@dataclass(frozen=True)
class NbgModel:
    """Version ``major.minor``, name of the network, layers without links."""

    version: str
    name: str
    graph: VendorGraph


def _skipped(major: int) -> int:
    """Bytes between the head and the table of offsets."""
    if major <= 1:
        return 32
    return 288 if major <= 3 else 296


def read_nbg(span: BoundedReader) -> NbgModel:
    """A precompiled graph.

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
    return NbgModel(f"{major}.{minor}", name, VendorGraph(tuple(layers)))
