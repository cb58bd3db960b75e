"""Which dtype every layer computes in, and where tensors change from one to another.

A layer is named by the tensor that it writes; where a Relu or Clip is part of it, by the tensor
behind that (or any of the tensors between: they mean the same layer).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import UniqueNames, is_custom
from engine.graph.ir.spec import name_of
from engine.graph.layers import LayerMap
from engine.quantize.dtypes.formats import Format, Scheme, layer_dtype
from engine.quantize.planning.node_properties import (
    KEEPS_HALF,
    Role,
    WeightPlan,
    data_inputs,
    is_constant,
    is_float,
)

# Inputs of these beside the first are parameters of the operation, not numbers that it computes
# with: they stay float32.
_PARAMETERS = frozenset({"Resize", "BatchNormalization", "Clip", "Pad"})


@dataclass(frozen=True)
class DtypeBoundary:
    """Where the dtype changes: a tensor in a second format, for readers that compute in it.

    Attributes:
        tensor: the tensor.
        form: the format.
        name: of the converted tensor, ``<tensor>__<dtype>`` as the vendor names it.
    """

    tensor: str
    form: Format
    name: str


def operands(
    node: ir.Node, role: Role, scheme: Scheme, weight: WeightPlan | None
) -> list[ir.Value]:
    """The inputs that a node takes in the format of its activations; weights and biases aside."""
    wide = role in (Role.FLOAT, Role.EMULATED) and scheme.activation.is_float
    if wide and not is_custom(node) and node.op_type not in _PARAMETERS:
        values = [value for value in node.inputs if value is not None and is_float(value)]
    else:
        values = [value for value in data_inputs(node) if is_float(value)]
    own = () if weight is None else (weight.weight, weight.bias)
    return [value for value in values if value.name not in own]


def preserves_format(node: ir.Node, role: Role, scheme: Scheme) -> bool:
    """Whether what a node writes is in its format without rounding, since its inputs are."""
    return scheme.activation.is_float and (role is Role.PASSTHROUGH or node.op_type in KEEPS_HALF)


def format_suffix(form: Format) -> str:
    """The end of the name of a tensor that was converted to a format."""
    return f"dfp{form.bits}" if form.kind == "dynamic_fixed_point" else form.dtype


def assign_schemes(
    layers: LayerMap,
    roles: Mapping[str, Role],
    reasons: Mapping[str, str],
    base: Scheme,
    dtypes: Mapping[str, str],
) -> dict[str, Scheme]:
    """The scheme of every node that takes part in quantization.

    Args:
        layers: of the float graph.
        roles, reasons: node name -> role, and why it is float.
        base: what nodes compute in that no entry of ``dtypes`` names.
        dtypes: layer, by any of its names -> its dtype.

    Raises:
        QuantizationError: a name that is no layer's, or a dtype that the layer cannot have.
    """
    schemes = {
        name: base
        for name in layers.by_node
        if roles[name] is not Role.FLOAT or base.activation.is_float
    }
    chosen: dict[str, tuple[str, str]] = {}
    for name, dtype in dtypes.items():
        own_dtype = layer_dtype(dtype)
        layer = layers.find(name)
        if layer is None:
            raise _no_layer(name, layers.names)
        if not layer.can_promote and not own_dtype.scheme.activation.is_float:
            raise _only_float(name, dtype, reasons.get(layer.node, ""))
        other, earlier = chosen.setdefault(layer.id, (name, dtype))
        if earlier != dtype:
            raise QuantizationError(
                f"{sanitize(other, 120)!r} and {sanitize(name, 120)!r} belong to one layer "
                f"and are given two dtypes, {earlier} and {dtype}.",
                remedy="Give the layer one dtype.",
            )
        schemes.update(dict.fromkeys(layer.nodes, own_dtype.scheme))
    return schemes


def _no_layer(name: str, known: list[str]) -> QuantizationError:
    return QuantizationError(
        f"The model has no layer {sanitize(name, 120)!r}.",
        cause="A layer is named by the tensor that it writes, by its node, or by the layer of the "
        "source model that it was made of.",
        remedy=did_you_mean(name, known) or "Take a name from the table of layers.",
    )


def _only_float(name: str, dtype: str, reason: str) -> QuantizationError:
    return QuantizationError(
        f"The layer {sanitize(name, 120)!r} cannot compute in {dtype}.",
        cause=f"It is a float layer: {reason}." if reason else "It is a float layer.",
        remedy="Leave it, or give it float16.",
    )


def data_flow(
    nodes: Iterable[ir.Node],
    roles: Mapping[str, Role],
    schemes: Mapping[str, Scheme],
    weights: Mapping[str, WeightPlan],
    absorbed: set[str],
    base: Scheme,
) -> tuple[dict[str, Format], dict[str, tuple[DtypeBoundary, ...]]]:
    """The format of every tensor, and the conversions that its readers need.

    The first has tensors and constants that take part, in the order of the graph; the second those
    that are read in other formats as well.

    A tensor has the format of the layer that writes it. One that comes in float (graph inputs,
    results of float operators) is converted to the model's format, or to that of its readers where
    none computes in the model's.
    """
    nodes = list(nodes)
    written: dict[str, Format] = {}
    formats_read: dict[str, list[Format]] = {}
    for node in nodes:
        scheme = schemes.get(node.name or "")
        if scheme is None:
            continue
        role = roles[node.name or ""]
        for value in operands(node, role, scheme, weights.get(node.name or "")):
            # a float kernel takes float constants: a small divisor must not become 0
            whole = role is Role.INTEGER or scheme.activation.is_float
            if name_of(value) not in absorbed and (whole or not is_constant(value)):
                readers = formats_read.setdefault(name_of(value), [])
                if scheme.activation not in readers:
                    readers.append(scheme.activation)
        for value in node.outputs:
            used = bool(value.uses()) or value.is_graph_output()
            if value.name and is_float(value) and used and value.name not in absorbed:
                written[value.name] = scheme.activation
                formats_read.setdefault(value.name, [])
    taken = {name_of(v) for node in nodes for v in (*node.inputs, *node.outputs) if v}
    names = UniqueNames(taken | {node.name or "" for node in nodes})
    formats: dict[str, Format] = {}
    boundaries: dict[str, tuple[DtypeBoundary, ...]] = {}
    for tensor, readers in formats_read.items():
        own = written.get(tensor)
        if own is None:
            own = base.activation if base.activation in readers else readers[0]
        formats[tensor] = own
        others = [form for form in readers if form != own]
        if others:
            boundaries[tensor] = tuple(
                DtypeBoundary(tensor, form, names.claim(f"{tensor}__{format_suffix(form)}"))
                for form in others
            )
    return formats, boundaries


def float_kernel_reason(scheme: Scheme) -> str:
    """Why a layer of a scheme without integer kernels runs in float; empty where it has them."""
    if scheme.integer:
        return ""
    if scheme.activation.is_float:
        return (
            f"{scheme.name}: float16 activations, a float kernel between tensors of half precision"
        )
    return (
        f"{scheme.name}: ONNX Runtime has no 16-bit integer kernels, float between 16-bit tensors"
    )
