"""Files of the vendor as plain data for screens, in the forms of :mod:`engine.graph.ir.views`.

All numbers are as the file declares them; none is measured or estimated here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from engine.base.errors import GraphError
from engine.base.text import did_you_mean, printable, shape_text
from engine.container.vendor.model import (
    CustomSection,
    VendorGraph,
    VendorLayer,
    VendorModel,
    VendorPort,
    VendorQuant,
    VendorTensor,
)
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.views import Groups

__all__ = ["vendor_graph_view", "vendor_node_detail", "vendor_view"]

_MAX_TEXT = 400
_MAX_ITEMS = 16


def vendor_view(model: VendorModel) -> dict[str, Any]:
    """The model view, and under ``vendor`` what only the vendor's files have.

    ``parameters`` counts the elements of weights and small constants in their logical shapes,
    ``weights_bytes`` is the size that the file declares, or the sum of its weights' sizes.
    """
    graph = _first(model)
    constants = [tensor for tensor in graph.tensors if tensor.constant]
    declared = model.memory.weights
    counts = Counter(layer.op for layer in graph.layers)
    return {
        "kind": "rknn_vendor",
        "path": model.path,
        "name": printable(model.path.rpartition("/")[2]),
        "format": model.form,
        "sha256": model.sha256,
        "inputs": [_port(port) for port in model.inputs],
        "outputs": [_port(port) for port in model.outputs],
        "nodes": len(graph.layers),
        "operators": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "parameters": sum(_elements(tensor) for tensor in constants),
        "weights_bytes": sum(t.bytes or 0 for t in constants) if declared is None else declared,
        "findings": [_shown(finding.to_dict()) for finding in model.findings],
        "recipe": None,
        "summary": None,
        "vendor": _shown(_facts(model, graph)),
    }


def vendor_graph_view(model: VendorModel) -> dict[str, Any]:
    """The graph view of the first, largest graph: ``nodes, groups, inputs, outputs``.

    Names of nodes are keys for :func:`vendor_node_detail`: a layer without a name has its type and
    a number, and a name that came before gets a number behind it.
    """
    graph = _first(model)
    groups = Groups()
    rows = []
    for name, layer in _named(graph):
        output = graph.tensors[layer.outputs[0]] if layer.outputs else VendorTensor("")
        shape = shape_text(output.shape) if layer.outputs else ""
        group = groups.number(layer.source_name)
        rows.append([name, layer.op, output.name, shape, output.dtype, group])
    return {
        "nodes": rows,
        "groups": groups.names(),
        "inputs": [_spec(port.tensor) for port in model.inputs],
        "outputs": [_spec(port.tensor) for port in model.outputs],
    }


def vendor_node_detail(model: VendorModel, name: str) -> dict[str, Any]:
    """Everything about one layer of the first graph, as ``node_detail`` has it.

    Where the compiler changed an attribute (padding that it trimmed), the source model's value
    stands beside it as ``NAME (source)``.

    Raises:
        GraphError: no layer has this name in :func:`vendor_graph_view`.
    """
    graph = _first(model)
    layer = next((layer for key, layer in _named(graph) if key == name), None)
    if layer is None:
        near = did_you_mean(name, (key for key, _ in _named(graph)))
        raise GraphError(f"{name} is no layer of {model.path}.", remedy=near)
    return {
        "name": name,
        "op": layer.op,
        "domain": "",
        "attributes": [[key, _text(value)] for key, value in _attributes(layer)],
        "inputs": [_tensor(graph.tensors[i]) for i in layer.inputs],
        "outputs": [_tensor(graph.tensors[i]) for i in layer.outputs],
        "origin": [printable(text) for text in (layer.name, layer.note) if text],
    }


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


def _spec(tensor: VendorTensor) -> dict[str, Any]:
    return {"name": tensor.name, "shape": list(tensor.shape), "dtype": tensor.dtype}


def _port(port: VendorPort) -> dict[str, Any]:
    return {
        **_spec(port.tensor),
        "layout": printable(port.layout),
        "runtime_dtype": printable(port.runtime_dtype),
        "runtime_layout": printable(port.runtime_layout),
        "source_dtype": printable(port.source_dtype),
        "mean": list(port.mean),
        "std": list(port.std),
        "rgb2bgr": port.rgb2bgr,
        "quant": _quant(port.tensor.quant),
    }


def _tensor(tensor: VendorTensor) -> dict[str, Any]:
    kind = "constant" if tensor.constant or tensor.kind in ("table", "copy") else "activation"
    return {
        **_spec(tensor),
        "kind": "input" if tensor.kind == "input" else kind,
        "quant": _quant(tensor.quant),
        "native_shape": list(tensor.native_shape),
        "bytes": tensor.bytes,
    }


def _quant(quant: VendorQuant | None) -> dict[str, Any] | None:
    if quant is None:
        return None
    return {
        "dtype": printable(quant.dtype),
        "scale": list(quant.scale),
        "zero_point": list(quant.zero_point),
        "axis": None,
        "method": printable(quant.method),
        "minimum": list(quant.minimum),
        "maximum": list(quant.maximum),
        "observed": None if quant.observed is None else list(quant.observed),
        "fraction": quant.fraction,
    }


def _facts(model: VendorModel, graph: VendorGraph) -> dict[str, Any]:
    memory = model.memory
    return {
        "kind": model.kind,
        "size": model.size,
        "platforms": list(model.platforms),
        "chips": list(model.chips),
        "generation": model.generation,
        "npu": model.npu,
        "container_version": model.container_version,
        "toolkit": model.toolkit,
        "compiler": model.compiler,
        "framework": model.framework,
        "network": model.name,
        "custom_string": model.custom_string,
        "encryption_level": model.encryption_level,
        "memory": {
            "source": "declared by the file",
            "weights": memory.weights,
            "internal": memory.internal,
            "copies": memory.copies,
            "sections": [list(section) for section in memory.sections],
        },
        "quantization": _quantization(graph),
        "dynamic": model.dynamic,
        "shape_sets": [_shape_set(each) for each in model.graphs],
        "custom_operators": [_operator(operator) for operator in model.custom_operators],
    }


def _quantization(graph: VendorGraph) -> dict[str, Any]:
    """How many tensors have parameters, by type and by method."""
    quants = [tensor.quant for tensor in graph.tensors if tensor.quant is not None]
    return {
        "tensors": len(quants),
        "dtypes": dict(Counter(quant.dtype for quant in quants)),
        "methods": dict(Counter(quant.method for quant in quants if quant.method)),
    }


def _shape_set(graph: VendorGraph) -> dict[str, Any]:
    return {
        "inputs": [_spec(graph.tensors[i]) for i in graph.inputs],
        "outputs": [_spec(graph.tensors[i]) for i in graph.outputs],
        "nodes": len(graph.layers),
    }


def _operator(operator: CustomSection) -> dict[str, Any]:
    return {
        "name": operator.name,
        "inputs": [list(pair) for pair in operator.inputs],
        "outputs": [list(pair) for pair in operator.outputs],
        "params": [list(pair) for pair in operator.params],
        "code": [list(pair) for pair in operator.code],
    }


def _shown(value: Any) -> Any:
    """Plain data with every text made safe for a screen."""
    if isinstance(value, str):
        return printable(value, 2000)
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {_shown(key): _shown(item) for key, item in value.items()}
    return value


def _text(value: Any) -> str:
    """An attribute in a line; lists are cut to 16 items."""
    if isinstance(value, list | tuple):
        items = ", ".join(_item(item) for item in value[:_MAX_ITEMS])
        more = f", … {len(value)} in all" if len(value) > _MAX_ITEMS else ""
        return printable(f"[{items}{more}]", _MAX_TEXT)
    return printable(_item(value), _MAX_TEXT)


def _item(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)
