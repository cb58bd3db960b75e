"""Generation 1: the layer list in JSON, and the wrapper of the same form around generation 2.

The links between nodes, tensors and ports as the public reader of Netron follows them
(source/rknn.js). Sizes are stored fastest dimension first in generation 1; they are turned round.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from engine.base.plain import JsonObject
from engine.base.text import sanitize
from engine.container.vendor.model import (
    VendorGraph,
    VendorLayer,
    VendorModel,
    VendorPort,
    VendorTensor,
)
from engine.container.vendor.values import (
    BoundedReader,
    as_floats,
    as_ints,
    as_list,
    as_mapping,
    as_text,
    checked_shape,
)
from engine.wire.model import VendorQuant

_PREFIXES = ("VSI_NN_OP_", "RKNN_OP_")
_TYPE_PREFIX = "VSI_NN_TYPE_"
_QUANT_PREFIX = "VSI_NN_QNT_TYPE_"
_MOST = 50_000
_MOST_PLATFORMS = 16


def read_layer_list(data: JsonObject, span: BoundedReader, base: VendorModel) -> VendorModel:
    """A layer list that was parsed; of generation 2 its graph is the one wrapper.

    Raises:
        ContainerError: it has no nodes, or a link leads to nothing.
    """
    if not isinstance(data.get("nodes"), list) or not as_text(data.get("version")):
        raise span.damaged_error("there is no list of layers with a version")
    first = "ovxlib_version" in data
    graph = _Reader(data, span, turned=first).graph()
    platforms = map(as_text, as_list(data.get("target_platform"))[:_MOST_PLATFORMS])
    return replace(
        base,
        platforms=tuple(filter(None, platforms)),
        generation=1 if first else None,
        toolkit=as_text(data["version"]),
        framework=as_text(data.get("ori_network_platform") or data.get("network_platform")),
        name=as_text(data.get("name")),
        graphs=(graph,),
        inputs=_prepared(data, [graph.tensors[i] for i in graph.inputs]),
        outputs=tuple(VendorPort(graph.tensors[i]) for i in graph.outputs),
    )


def _prepared(data: JsonObject, inputs: list[VendorTensor]) -> tuple[VendorPort, ...]:
    """Inputs with mean, std and channel order.

    ``mean_value`` holds the numbers of all inputs one behind the other, ``mean_value_chns`` how
    many each has. In files of toolkit 1.7.5 these are the means of the channels, and ``std_value``
    holds as many divisors; files of toolkit 1.3.0 have no ``std_value``, and the last number of
    each input is its one divisor, as in ``channel_mean_value``. ``reorder`` holds three numbers an
    input, 2 1 0 where red and blue are swapped. Lists of other lengths are left out: whose numbers
    they hold would be a guess.
    """
    means = _shares(as_floats(as_list(data.get("mean_value"))), data, len(inputs))
    if data.get("std_value") is None:
        stds = [numbers[-1:] * len(numbers[:-1]) for numbers in means]
        means = [numbers[:-1] for numbers in means]
    else:
        stds = _shares(as_floats(as_list(data.get("std_value"))), data, len(inputs))
    order = as_ints(data.get("reorder"))
    if len(order) != 3 * len(inputs):
        order = ()
    swapped = [
        order[i : i + 3] == (2, 1, 0) if order else None for i in range(0, 3 * len(inputs), 3)
    ]
    return tuple(
        VendorPort(tensor, mean=mean, std=std, rgb2bgr=swap)
        for tensor, mean, std, swap in zip(inputs, means, stds, swapped, strict=True)
    )


def _shares(values: tuple[float, ...], data: JsonObject, inputs: int) -> list[tuple[float, ...]]:
    """The numbers of each input; empty where the lengths do not fit."""
    counts = as_ints(data.get("mean_value_chns"))
    if len(counts) != inputs or min(counts, default=0) < 0 or sum(counts) != len(values):
        return [()] * inputs
    ends = list(accumulate(counts))
    return [values[end - count : end] for end, count in zip(ends, counts, strict=True)]


@dataclass
class _Links:
    """What a node takes, in order, and gives, by port; ``ports`` is one more than the largest."""

    inputs: list[int] = field(default_factory=list)
    outputs: dict[int, int] = field(default_factory=dict)
    ports: int = 0

    def set_output(self, port: int, tensor: int) -> None:
        """``tensor`` comes out of ``port``."""
        self.outputs[port] = tensor
        self.ports = max(self.ports, port + 1)


class _Reader:
    def __init__(self, data: JsonObject, span: BoundedReader, *, turned: bool) -> None:
        self._data = data
        self._span = span
        self._turned = turned
        self._tensors: list[VendorTensor] = []
        self._positions: dict[str, int] = {}

    def graph(self) -> VendorGraph:
        """The layers with their tensors."""
        for part, kind in (("const_tensor", "weight"), ("norm_tensor", "activation")):
            for entry in self._entries(part):
                self._add(part, entry, kind)
        inputs, outputs = self._ports("input"), self._ports("output")
        for positions, kind in ((inputs, "input"), (outputs, "output")):
            for position in positions:
                tensor = self._tensors[position]
                self._tensors[position] = VendorTensor(
                    tensor.name, tensor.shape, tensor.dtype, kind, quant=tensor.quant
                )
        nodes = self._entries("nodes")
        links = self._links(len(nodes))
        layers = tuple(
            VendorLayer(
                name=as_text(node.get("name")),
                op=_operator(as_text(node.get("op"))),
                inputs=tuple(links[number].inputs),
                outputs=tuple(tensor for _, tensor in sorted(links[number].outputs.items())),
                attributes=_attributes(node),
                uid=_uid(node),
            )
            for number, node in enumerate(nodes)
        )
        return VendorGraph(layers, tuple(self._tensors), inputs, outputs)

    def _entries(self, part: str) -> list[JsonObject]:
        entries = as_list(self._data.get(part))
        if len(entries) > _MOST:
            raise self._span.damaged_error(f"{part} has more than {_MOST} entries")
        tables: list[JsonObject] = [entry for entry in entries if isinstance(entry, dict)]
        if len(tables) < len(entries):
            raise self._span.damaged_error(f"{part} holds something else than tables")
        return tables

    def _add(self, part: str, entry: JsonObject, kind: str) -> None:
        number = self._number(entry, "tensor_id", part)
        key = f"{part}:{number}"
        shape = checked_shape(as_ints(entry.get("size")), self._span)
        dtype = as_mapping(entry.get("dtype"))
        name = as_text(entry.get("url")) or key
        self._positions[key] = len(self._tensors)
        self._tensors.append(
            VendorTensor(
                name,
                shape[::-1] if self._turned else shape,
                as_text(dtype.get("vx_type")).removeprefix(_TYPE_PREFIX).lower(),
                kind,
                quant=_quant(dtype),
            )
        )

    def _position(self, key: str) -> int:
        """The tensor of that key; links between nodes have no table entry of their own."""
        if key not in self._positions:
            self._positions[key] = len(self._tensors)
            self._tensors.append(VendorTensor(key))
        return self._positions[key]

    def _number(self, entry: JsonObject, field: str, part: str, most: int = 1 << 31) -> int:
        value = entry.get(field)
        if type(value) is not int or not 0 <= value < most:
            raise self._span.damaged_error(f"{part} has the {field} {str(value)[:40]!r}")
        return value

    def _ports(self, side: str) -> tuple[int, ...]:
        positions: dict[int, int] = {}
        for entry in self._entries("graph"):
            if entry.get("left") not in ("input", "output"):
                raise self._span.damaged_error("a port of the graph is neither input nor output")
            if entry["left"] == side:
                number = self._number(entry, "right_tensor_id", "graph")
                key = f"{as_text(entry.get('right'))}:{number}"
                positions[self._number(entry, "left_tensor_id", "graph")] = self._position(key)
        return tuple(positions[port] for port in sorted(positions))

    def _links(self, nodes: int) -> list[_Links]:
        """The links of each node."""
        links = [_Links() for _ in range(nodes)]
        for entry in self._entries("connection"):
            node = self._number(entry, "node_id", "connection", nodes)
            tensor = self._far_end(entry, links)
            if entry.get("left") == "input":
                links[node].inputs.append(tensor)
            elif entry.get("left") == "output":
                links[node].set_output(links[node].ports, tensor)
            else:
                raise self._span.damaged_error("a connection is neither input nor output")
        return links

    def _far_end(self, entry: JsonObject, links: list[_Links]) -> int:
        far = entry.get("right_tensor")
        if isinstance(far, dict):
            number = self._number(far, "tensor_id", "connection")
            return self._position(f"{as_text(far.get('type'))}:{number}")
        far = as_mapping(entry.get("right_node"))
        node = self._number(far, "node_id", "connection", len(links))
        port = self._number(far, "tensor_id", "connection")
        tensor = self._position(f"{node}:{port}")
        if entry.get("left") == "input":
            links[node].set_output(port, tensor)
        return tensor


def _operator(op: str) -> str:
    for prefix in _PREFIXES:
        op = op.removeprefix(prefix)
    return op


def _attributes(node: JsonObject) -> tuple[tuple[str, Any], ...]:
    """``nn.{kind}.{name: value}`` of a node."""
    return tuple(
        (name, value)
        for params in as_mapping(node.get("nn")).values()
        for name, value in as_mapping(params).items()
    )


def _quant(dtype: JsonObject) -> VendorQuant | None:
    """Parameters beside a type; names as the public headers of ovxlib have them."""
    qtype = as_text(dtype.get("qnt_type")).removeprefix(_QUANT_PREFIX)
    scale, zero = as_floats(dtype.get("scale")), dtype.get("zero_point")
    fraction = dtype.get("fl")
    if qtype in ("", "NONE"):
        return None
    return VendorQuant(
        dtype=sanitize(qtype.lower()),
        method=sanitize(as_text(dtype.get("qnt_method"))),
        axis=None,
        scale=scale,
        zero_point=as_ints(zero if isinstance(zero, list) else [zero]) if zero is not None else (),
        minimum=(),
        maximum=(),
        observed=None,
        fraction=fraction if type(fraction) is int else None,
    )


def _uid(node: JsonObject) -> int | None:
    """What ``eval_perf`` shows as Uid; in files of toolkit 1.3.0 and 1.7.5 each layer has one."""
    uid = node.get("uid")
    return uid if type(uid) is int and 0 <= uid < 1 << 31 else None
