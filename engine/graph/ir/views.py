"""Graphs and tensors as the wire tells them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain
from typing import Literal

import numpy as np
import onnx_ir as ir

from engine.base.errors import UsageError
from engine.base.text import sanitize, shape_text
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import ORIGIN, STANDARD_DOMAINS
from engine.graph.ir.spec import TensorSpec, constant_of, shape_of, spec_of
from engine.wire.model import (
    Channels,
    GraphFacts,
    GraphView,
    Histogram,
    NodeDetail,
    NodeRow,
    Tensor,
    TensorEnd,
    TensorQuant,
    TensorStatistics,
)

_MAX_TEXT = 400
_MAX_ITEMS = 16


class Groups:
    """Numbers the scopes of node names: ``/backbone/s1/Conv_3`` lies in ``/backbone/s1``.

    A node that TFLite fused from several has their names, split by ``;``: the first one counts.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, node_name: str) -> int:
        """The number of the scope of a node; names without a slash share the scope ``""``."""
        scope = node_name.partition(";")[0].rpartition("/")[0]
        return self._numbers.setdefault(scope, len(self._numbers))

    def names(self) -> tuple[str, ...]:
        """The scopes in the order of their numbers."""
        return tuple(sanitize(scope, 200) for scope in self._numbers)


def edges_of(
    steps: Iterable[tuple[Iterable[Hashable], Iterable[Hashable]]],
) -> tuple[int, ...]:
    """The edges of a :class:`GraphView`; in some formats a node writes what it reads.

    Args:
        steps: of each node what it reads and what it writes; None and ``""`` are nothing.
    """
    known = [(tuple(reads), tuple(writes)) for reads, writes in steps]
    first: dict[Hashable, int] = {None: -1, "": -1}
    for at, (_, writes) in enumerate(known):
        for value in writes:
            first.setdefault(value, at)
    pairs: dict[tuple[int, int], None] = {}
    maker = dict(first)
    for at, (reads, writes) in enumerate(known):
        for value in reads:
            if 0 <= (source := maker.get(value, -1)) != at:
                pairs[source, at] = None
        maker.update((value, at) for value in writes if first[value] >= 0)
    return tuple(chain.from_iterable(pairs))


def operator_name(domain: str, op_type: str) -> str:
    """``Conv``, or ``domain:Name`` for operators that are not ONNX's."""
    return op_type if domain in STANDARD_DOMAINS else f"{domain}:{op_type}"


def by_count(operators: Iterable[str]) -> dict[str, int]:
    """Operator -> how many there are, most frequent first."""
    counts = Counter(operators)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def told_tensor(spec: TensorSpec) -> Tensor:
    """An input or output as the views show it."""
    return Tensor(spec.name, spec.shape, spec.dtype)


def describe(graph: Graph) -> GraphFacts:
    """The facts of the model view.

    ``parameters`` counts the elements of all initializers, ``weights_bytes`` their bytes.
    """
    held = [value.const_value for value in graph.model.graph.initializers.values()]
    return GraphFacts(
        inputs=tuple(map(told_tensor, graph.inputs)),
        outputs=tuple(map(told_tensor, graph.outputs)),
        nodes=len(graph),
        operators=by_count(operator_name(node.domain, node.op_type) for node in graph.nodes),
        parameters=sum(int(tensor.size) for tensor in held if tensor is not None),
        weights_bytes=graph.weight_bytes,
    )


def graph_view(graph: Graph) -> GraphView:
    """The whole graph, compact, in the order of execution; a group is the scope in a node's name.

    Names are given as they are (they are keys for :func:`node_detail`): pass them through
    ``sanitize`` before they reach a screen.
    """
    groups = Groups()
    rows: list[NodeRow] = []
    for node in graph.nodes:
        name = node.name or ""
        output, shape, dtype = "", "", ""
        if node.outputs:
            first = spec_of(node.outputs[0])
            output, dtype = first.name, first.dtype
            shape = shape_text(first.shape) if first.rank_known else "?"
        op = operator_name(node.domain, node.op_type)
        rows.append((name, op, output, shape, dtype, groups.number(name)))
    return GraphView(
        nodes=tuple(rows),
        groups=groups.names(),
        inputs=tuple(map(told_tensor, graph.inputs)),
        outputs=tuple(map(told_tensor, graph.outputs)),
        edges=edges_of((node.inputs, node.outputs) for node in graph.nodes),
    )


def tensor_kind(value: ir.Value) -> Literal["constant", "input", "activation"]:
    """``constant``, ``input`` or ``activation``."""
    maker = value.producer()
    if value.const_value is not None or (maker is not None and maker.op_type == "Constant"):
        return "constant"
    return "input" if value.is_graph_input() else "activation"


def node_detail(graph: Graph, name: str) -> NodeDetail:
    """Everything about one node.

    ``quant`` is there for tensors of a QDQ graph with constant parameters.

    Raises:
        GraphError: no node has this name.
    """
    node = graph.node(name)
    return NodeDetail(
        name=node.name or "",
        op=node.op_type,
        domain=node.domain,
        attributes=tuple(
            (key, attribute_text(attribute)) for key, attribute in sorted(node.attributes.items())
        ),
        inputs=tuple(_end(value) for value in node.inputs),
        outputs=tuple(_end(value) for value in node.outputs if value.name),
        origin=tuple(text for text in node.metadata_props.get(ORIGIN, "").split("\n") if text),
    )


def _end(value: ir.Value | None) -> TensorEnd:
    if value is None:
        return TensorEnd("", (), "", "constant", None)
    spec = spec_of(value)
    return TensorEnd(spec.name, spec.shape, spec.dtype, tensor_kind(value), _quant(value))


def _quant(value: ir.Value) -> TensorQuant | None:
    node = value.producer()
    if node is None or node.op_type not in ("DequantizeLinear", "QuantizeLinear"):
        readers = [use for use in value.consumers() if use.op_type == "QuantizeLinear"]
        node = readers[0] if readers else None
    if node is None or len(node.inputs) < 2 or node.inputs[1] is None:
        return None
    scale = constant_of(node.inputs[1])
    zero_value = node.inputs[2] if len(node.inputs) > 2 else None
    zero = None if zero_value is None else constant_of(zero_value)
    if scale is None:
        return None
    scales = np.asarray(scale.numpy(), dtype=np.float64).ravel()
    zeros = np.zeros(scales.size, np.int64) if zero is None else zero.numpy().ravel()
    integers = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    axis = node.attributes.get("axis")
    return TensorQuant(
        dtype=spec_of(integers).dtype if integers is not None else "unknown",
        scale=tuple(scales.tolist()),
        zero_point=tuple(int(point) for point in zeros),
        axis=None if scales.size == 1 else (axis.as_int() if axis is not None else 1),
    )


def attribute_text(attribute: ir.Attr) -> str:
    """An attribute in a line; lists are cut to 16 items, tensors shown by type and shape."""
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        text = f"{tensor.dtype.name.lower()}[{shape_text(shape_of(tensor.shape))}]"
        return f"{text} = {tensor.numpy().ravel().tolist()}" if tensor.size <= _MAX_ITEMS else text
    value = attribute.value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        items = ", ".join(_item(item) for item in value[:_MAX_ITEMS])
        more = f", … {len(value)} in all" if len(value) > _MAX_ITEMS else ""
        return sanitize(f"[{items}{more}]", _MAX_TEXT)
    return sanitize(_item(value), _MAX_TEXT)


def _item(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


# Statistics of one tensor for a screen.

_MAX_BINS = 4096
_MAX_CHANNELS = 4096


def tensor_statistics(array: np.ndarray, bins: int = 64, *, name: str = "") -> TensorStatistics:
    """What a screen shows of a tensor; figures are over its finite values.

    Channels are those of axis 0 where there are two axes or more (the output channels of a weight).

    Args:
        array: numbers or booleans, any shape.
        bins: number of bins of the histogram, 1..4096.
        name: the tensor's name, passed through.

    Raises:
        UsageError: ``bins`` is out of range, or the tensor holds no numbers.
    """
    if not 1 <= bins <= _MAX_BINS:
        raise UsageError(f"A histogram has 1 to {_MAX_BINS} bins, not {bins}.")
    if array.dtype.kind not in "biufV" or array.dtype.names:
        raise UsageError(f"A tensor of type {array.dtype} holds no numbers.")
    numbers = array if array.dtype == np.float32 else array.astype(np.float64)
    mask = np.isfinite(numbers)
    finite = bool(mask.all())
    values = numbers.ravel() if finite else numbers[mask]
    channels = None
    if array.ndim >= 2 and finite and values.size and len(array) <= _MAX_CHANNELS:
        rows = numbers.reshape(len(array), -1)
        channels = Channels(0, tuple(rows.min(axis=1).tolist()), tuple(rows.max(axis=1).tolist()))
    some = values.size > 0
    return TensorStatistics(
        name=name,
        shape=array.shape,
        dtype=array.dtype.name,
        count=int(array.size),
        minimum=float(values.min()) if some else None,
        maximum=float(values.max()) if some else None,
        mean=float(values.mean(dtype=np.float64)) if some else None,
        std=float(values.std(dtype=np.float64)) if some else None,
        zeros=int(array.size - np.count_nonzero(numbers)),
        finite=finite,
        histogram=_histogram(values, bins) if some else None,
        channels=channels,
    )


def _histogram(values: np.ndarray, bins: int) -> Histogram:
    low, high = float(values.min()), float(values.max())
    if low == high:
        counts = [0] * bins
        counts[bins // 2] = int(values.size)
        return Histogram(low, high, tuple(counts))
    # float64 edges: in float32 the bins of a narrow range far from zero would have no width
    counted, _ = np.histogram(values.astype(np.float64), bins=bins, range=(low, high))
    return Histogram(low, high, tuple(counted.tolist()))
