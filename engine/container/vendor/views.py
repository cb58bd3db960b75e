"""Files of the vendor as the wire tells them.

All numbers are as the file declares them; none is measured or estimated here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from engine.base.errors import GraphError
from engine.base.findings import Finding
from engine.base.plain import JsonValue
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.container.vendor.model import (
    VendorGraph,
    VendorLayer,
    VendorModel,
    VendorPort,
    VendorTensor,
)
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.views import Groups, by_count, edges_of
from engine.wire.codec import encode
from engine.wire.model import GraphView, ModelView, NodeDetail, NodeRow, Port, Tensor, VendorEnd

_MAX_TEXT = 400
_MAX_ITEMS = 16


def vendor_view(model: VendorModel) -> ModelView:
    """The model view, and under ``vendor`` what only the vendor's files have.

    ``parameters`` counts the elements of weights and small constants in their logical shapes,
    ``weights_bytes`` is the size that the file declares, or the sum of its weights' sizes.
    """
    graph = _first(model)
    constants = [tensor for tensor in graph.tensors if tensor.constant]
    declared = model.memory.weights
    return ModelView(
        kind="rknn_vendor",
        path=model.path,
        name=sanitize(model.path.rpartition("/")[2]),
        format=model.form,
        sha256=model.sha256,
        inputs=tuple(map(_port, model.inputs)),
        outputs=tuple(map(_port, model.outputs)),
        nodes=len(graph.layers),
        operators=by_count(layer.op for layer in graph.layers),
        parameters=sum(_elements(tensor) for tensor in constants),
        weights_bytes=sum(t.bytes or 0 for t in constants) if declared is None else declared,
        findings=tuple(Finding(**_shown(finding.to_dict())) for finding in model.findings),
        recipe=None,
        summary=None,
        vendor=_shown(_facts(model, graph)),
    )


def vendor_graph_view(model: VendorModel) -> GraphView:
    """The graph view of the first, largest graph.

    Names of nodes are keys for :func:`vendor_node_detail`: a layer without a name has its type and
    a number, and a name that came before gets a number behind it.
    """
    graph = _first(model)
    groups = Groups()
    rows: list[NodeRow] = []
    for name, layer in _named(graph):
        outputs = (graph.tensors[i] for i in layer.outputs)
        output = next((tensor for tensor in outputs if tensor.kind != "none"), None)
        shape = "" if output is None else shape_text(output.shape)
        output = output or VendorTensor("")
        group = groups.number(layer.source_name)
        rows.append((name, layer.op, output.name, shape, output.dtype, group))
    return GraphView(
        nodes=tuple(rows),
        groups=groups.names(),
        inputs=tuple(_spec(port.tensor) for port in model.inputs),
        outputs=tuple(_spec(port.tensor) for port in model.outputs),
        edges=edges_of(
            (
                layer.inputs,
                [at if graph.tensors[at].kind != "none" else None for at in layer.outputs],
            )
            for _, layer in _named(graph)
        ),
    )


def vendor_node_detail(model: VendorModel, name: str) -> NodeDetail:
    """Everything about one layer of the first graph.

    Where the compiler changed an attribute (padding that it trimmed), the source model's value
    stands beside it as ``NAME (source)``.

    Raises:
        GraphError: no layer has this name in :func:`vendor_graph_view`.
    """
    graph = _first(model)
    layer = next((layer for key, layer in _named(graph) if key == name), None)
    if layer is None:
        near = did_you_mean(name, (key for key, _ in _named(graph)))
        raise GraphError(f"{name} is not a layer of {model.path}.", remedy=near)
    return NodeDetail(
        name=name,
        op=layer.op,
        domain="",
        attributes=tuple((key, _text(value)) for key, value in _attributes(layer)),
        inputs=tuple(_tensor(graph.tensors[i]) for i in layer.inputs),
        outputs=tuple(_tensor(graph.tensors[i]) for i in layer.outputs),
        origin=tuple(sanitize(text) for text in (layer.name, layer.note) if text),
    )


def _first(model: VendorModel) -> VendorGraph:
    return model.graphs[0] if model.graphs else VendorGraph()


def _named(graph: VendorGraph) -> Iterator[tuple[str, VendorLayer]]:
    names = UniqueNames(set())
    for position, layer in enumerate(graph.layers):
        yield names.claim(layer.name or f"{layer.op}_{position}"), layer


def _attributes(layer: VendorLayer) -> list[tuple[str, Any]]:
    compiled = dict(layer.attributes)
    changed = [
        (key if key not in compiled else f"{key} (source)", value)
        for key, value in layer.source_attributes
        if key not in compiled or compiled[key] != value
    ]
    return sorted([*compiled.items(), *changed], key=lambda item: item[0])


def _elements(tensor: VendorTensor) -> int:
    return math.prod(tensor.shape) if all(dim >= 0 for dim in tensor.shape) else 0


def _spec(tensor: VendorTensor) -> Tensor:
    return Tensor(tensor.name, tensor.shape, tensor.dtype)


def _port(port: VendorPort) -> Port:
    tensor = port.tensor
    return Port(
        name=tensor.name,
        shape=tensor.shape,
        dtype=tensor.dtype,
        layout=sanitize(port.layout),
        runtime_dtype=sanitize(port.runtime_dtype),
        runtime_layout=sanitize(port.runtime_layout),
        source_dtype=sanitize(port.source_dtype),
        mean=port.mean,
        std=port.std,
        rgb2bgr=port.rgb2bgr,
        quant=tensor.quant,
    )


def _tensor(tensor: VendorTensor) -> VendorEnd:
    constant = tensor.constant or tensor.kind in ("table", "copy")
    return VendorEnd(
        name=tensor.name if tensor.kind != "none" else "(none)",
        shape=tensor.shape,
        dtype=tensor.dtype,
        kind="input" if tensor.kind == "input" else "constant" if constant else "activation",
        quant=tensor.quant,
        native_shape=tensor.native_shape,
        bytes=tensor.bytes,
    )


_FACTS = (
    "kind",
    "size",
    "platforms",
    "chips",
    "generation",
    "npu",
    "container_version",
    "toolkit",
    "compiler",
    "framework",
    "custom_string",
    "encryption_level",
    "dynamic",
)
"""What the view tells of a model as the file has it."""
_OPERATOR = ("name", "inputs", "outputs", "params", "code")


def _facts(model: VendorModel, graph: VendorGraph) -> dict[str, JsonValue]:
    return {
        **{name: getattr(model, name) for name in _FACTS},
        "network": model.name,
        "memory": {"source": "declared by the file", **vars(model.memory)},
        "quantization": _quantization(graph),
        "shape_sets": [_shape_set(shape_set) for shape_set in model.graphs],
        "custom_operators": [
            {name: getattr(operator, name) for name in _OPERATOR}
            for operator in model.custom_operators
        ],
    }


def _quantization(graph: VendorGraph) -> dict[str, JsonValue]:
    """How many tensors have parameters, by type and by method."""
    quants = [tensor.quant for tensor in graph.tensors if tensor.quant is not None]
    return {
        "tensors": len(quants),
        "dtypes": dict(Counter(quant.dtype for quant in quants)),
        "methods": dict(Counter(quant.method for quant in quants if quant.method)),
    }


def _shape_set(graph: VendorGraph) -> dict[str, JsonValue]:
    return {
        "inputs": [encode(_spec(graph.tensors[i])) for i in graph.inputs],
        "outputs": [encode(_spec(graph.tensors[i])) for i in graph.outputs],
        "nodes": len(graph.layers),
    }


def _shown(value: Any) -> Any:
    """Plain data with every text made safe for a screen."""
    if isinstance(value, str):
        return sanitize(value, 2000)
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {_shown(key): _shown(item) for key, item in value.items()}
    return value


def _text(value: Any) -> str:
    """An attribute in a line; lists are cut to 16 items."""
    if isinstance(value, list | tuple):
        items = ", ".join(_item(item) for item in value[:_MAX_ITEMS])
        more = f", … {len(value)} in all" if len(value) > _MAX_ITEMS else ""
        return sanitize(f"[{items}{more}]", _MAX_TEXT)
    return sanitize(_item(value), _MAX_TEXT)


def _item(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)
