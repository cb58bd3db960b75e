"""Which tensors of a float graph are quantized, and which of them share one scale.

The plan depends on the graph alone, so calibration can watch exactly the tensors that quantization
needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, is_custom
from engine.graph.ir.shapes import with_types
from engine.graph.ir.spec import array_of, clamp_bounds, name_of
from engine.graph.layers import FUSED_ACTIVATIONS, LayerMap
from engine.quantize.dtypes.formats import Format, Scheme, scheme_of
from engine.quantize.planning.layers import find_layers, with_dtypes
from engine.quantize.planning.mixed import (
    DtypeBoundary,
    assign_schemes,
    data_flow,
    float_kernel_reason,
)
from engine.quantize.planning.node_properties import (
    ARITHMETIC,
    CUSTOM_REASON,
    WEIGHTED,
    Clamp,
    Role,
    WeightPlan,
    data_inputs,
    has_constant_matrix,
    interpolates_within,
    is_constant,
    is_float,
    pads_with_zero,
    pool_needs_float,
    role_of,
    unquantized_reason,
    weight_plan,
)

QDQ_OPS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})

_ACTIVE = frozenset({Role.INTEGER, Role.PASSTHROUGH, Role.CLAMP, Role.EMULATED})


@dataclass(frozen=True)
class ConcatPlan:
    """A quantized Concat.

    Attributes:
        output: the tensor it writes.
        sharing: roots (see :attr:`Plan.sources`) of those inputs that nothing else reads. They may
            take the output's scale: written with it at once they are rounded once and not twice,
            and the Concat only copies. An input with another reader keeps its own, finer scale.
    """

    output: str
    sharing: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What :func:`plan` decided.

    Attributes:
        roles: node name -> role.
        reasons: node name -> why it stays in float or runs in a float kernel.
        tensors: activation tensors that need a range, in the order of the graph: those that are
            integers where they are written or where they are read.
        sources: tensor -> the tensor whose scale it takes (through Transpose, MaxPool, ...).
        concats: every quantized Concat, in the order of the graph.
        constants: constants that are stored as activations are (operands of Add and Mul).
        clamps: tensor -> the clamps that end in it, in the order of the graph.
        weights: node name -> its constants.
        guarded: nodes for which ONNX Runtime has an integer kernel that is wrong in their form; a
            guard behind them keeps it from choosing that kernel.
        schemes: node name -> the dtype that it computes in; nodes that are left out stay float32.
        formats: tensor or constant -> the format in which it is written, in the order of the graph.
        boundaries: tensor or constant -> the other formats in which it is read.
        layers: of the graph.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    tensors: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    concats: tuple[ConcatPlan, ...] = ()
    constants: tuple[str, ...] = ()
    clamps: Mapping[str, tuple[Clamp, ...]] = field(default_factory=dict)
    weights: Mapping[str, WeightPlan] = field(default_factory=dict)
    guarded: frozenset[str] = frozenset()
    schemes: Mapping[str, Scheme] = field(default_factory=dict)
    formats: Mapping[str, Format] = field(default_factory=dict)
    boundaries: Mapping[str, tuple[DtypeBoundary, ...]] = field(default_factory=dict)
    layers: LayerMap = field(default_factory=LayerMap)

    def weighted(self, graph: Graph) -> Iterator[tuple[ir.Node, WeightPlan, str]]:
        """Each weighted node of the graph, its constants, and the tensor that they multiply."""
        for node in graph.nodes:
            weights = self.weights.get(node.name or "")
            if weights is not None:
                names = (name_of(value) for value in data_inputs(node))
                yield node, weights, next(name for name in names if name != weights.weight)

    def read_as(self, tensor: str, node: str) -> str:
        """The key of the parameters with which a node reads a tensor, in the activations' table.

        It is the tensor's own name, or that of its converted twin where the node computes in
        another format than the tensor is written in.
        """
        scheme = self.schemes.get(node)
        for boundary in self.boundaries.get(tensor, ()):
            if scheme is not None and boundary.form == scheme.activation:
                return boundary.name
        return tensor


def is_quantized_source(graph: Graph) -> bool:
    """Whether the graph has quantization of its own (any Q/DQ node)."""
    return any(node.op_type in QDQ_OPS and node.domain == "" for node in graph.nodes)


def plan(graph: Graph, dtype: str = "w8a8", layers: Mapping[str, str] | None = None) -> Plan:
    """Decide what is quantized; linear in the number of nodes.

    Args:
        graph: the float graph.
        dtype: quantized dtype of the whole model. The tensors that need a range are for every
            dtype among those of ``w8a8``, so one calibration serves all of them.
        layers: output tensor -> dtype of single layers that differ.

    Raises:
        GraphError: the types of the graph's values cannot be inferred.
        QuantizationError: a dtype that does not exist, or ``layers`` names what is no layer.
    """
    return _Planner(with_types(graph), scheme_of(dtype), layers or {}).run()


class _Planner:
    """One run of :func:`plan`: roles from nodes, then from their neighbours, then tensors."""

    def __init__(self, graph: Graph, base: Scheme, layers: Mapping[str, str]) -> None:
        self._base = base
        self._layers = layers
        self._nodes = list(graph.nodes)
        self._values = {
            name_of(v): v for node in self._nodes for v in (*node.inputs, *node.outputs) if v
        }
        self._roles: dict[str, Role] = {}
        self._reasons: dict[str, str] = {}
        self._weights: dict[str, WeightPlan] = {}
        self._clamps: dict[str, tuple[Clamp, ...]] = {}
        self._guarded: set[str] = set()
        self._interpolating: set[str] = set()

    def run(self) -> Plan:
        for node in self._nodes:
            reason = self._first_role(node)
            if reason:
                self._to_float(node, reason)
        self._leave_arithmetic_of_float()
        self._leave_float_fed()
        absorbed = self._absorb_clamps()
        layers = find_layers(self._nodes, self._roles, self._weights, self._clamps)
        schemes = assign_schemes(layers, self._roles, self._reasons, self._base, self._layers)
        for name, scheme in schemes.items():
            if not scheme.integer:
                self._reasons[name] = float_kernel_reason(scheme)
        formats, boundaries = data_flow(
            self._nodes, self._roles, schemes, self._weights, absorbed, self._base
        )
        return self._plan(schemes, formats, boundaries, with_dtypes(layers, schemes))

    def _to_float(self, node: ir.Node, reason: str) -> None:
        self._roles[node.name or ""] = Role.FLOAT
        self._reasons[node.name or ""] = reason
        self._weights.pop(node.name or "", None)

    def _role(self, node: ir.Node | None) -> Role | None:
        return None if node is None else self._roles.get(node.name or "")

    def _first_role(self, node: ir.Node) -> str:
        """Set the role that the node has by itself; the reason where it must stay in float."""
        name = node.name or ""
        if not node.outputs or not is_float(node.outputs[0]):
            if any(value is not None and is_float(value) for value in node.inputs):
                self._roles[name] = Role.FLOAT
                self._reasons[name] = f"{node.op_type} gives no float tensor"
            return ""  # shapes and indices are no layers
        data = data_inputs(node)
        if not data or all(is_constant(value) for value in data):
            return "it only has constants"
        if is_custom(node):
            self._roles[name] = Role.EMULATED
            self._reasons[name] = CUSTOM_REASON
            return ""
        if not all(is_float(value) for value in data):
            return f"its input is {data[0].dtype}, not float32"
        role = role_of(node.op_type)
        self._roles[name] = role
        if role is Role.FLOAT:
            return unquantized_reason(node.op_type)
        return self._special(node)

    def _special(self, node: ir.Node) -> str:
        """Conditions of single operators; the reason where they are not met."""
        name, op = node.name or "", node.op_type
        if op not in WEIGHTED and not all(map(_is_finite, data_inputs(node))):
            return "a constant of it is infinite (a mask) or NaN, which integers cannot hold"
        if op in WEIGHTED and not (op == "MatMul" and not has_constant_matrix(node)):
            weight, reason = weight_plan(node)
            if weight is None:
                return reason
            self._weights[name] = weight
        if op == "Resize" and node.attributes.get_string("mode", "nearest") != "nearest":
            self._roles[name] = Role.EMULATED
            if interpolates_within(node):
                self._interpolating.add(name)
        if op == "Pad" and not pads_with_zero(node):
            return "its padding value is not 0"
        if op == "AveragePool" and pool_needs_float(node):
            self._guarded.add(name)
            self._roles[name] = Role.EMULATED
            self._reasons[name] = "ONNX Runtime's integer AveragePool is wrong with these windows"
            return ""
        if op == "Clip" and clamp_bounds(node) is None:
            self._roles[name] = Role.EMULATED
        if self._roles[name] is Role.EMULATED:
            self._reasons[name] = unquantized_reason(op)
        return ""

    def _leave_arithmetic_of_float(self) -> None:
        """Arithmetic that only float operators read (an attention mask before Softmax) is float.

        So is a quotient by a float result, such as the root in a normalization: in 8 bits small
        divisors are 0. Its gain and what it adds are of the same layer.
        """
        for node in reversed(self._nodes):
            if node.op_type not in ARITHMETIC or self._role(node) not in _ACTIVE:
                continue
            divisor = node.inputs[1] if node.op_type == "Div" else None
            if divisor is not None and self._role(divisor.producer()) is Role.FLOAT:
                self._to_float(node, "8 bits have 0 for small divisors")
                behind: ir.Node | None = node
                for op in ("Mul", "Add"):
                    readers = [] if behind is None else _readers(behind)
                    behind = readers[0] if len(readers) == 1 else None
                    if behind is None or behind.op_type != op or not _has_constant(behind):
                        break
                    self._to_float(behind, "it is part of a normalization")
                continue
            readers = _readers(node)
            if readers and all(self._role(reader) is Role.FLOAT for reader in readers):
                self._to_float(node, f"only float operators read it ({readers[0].op_type})")

    def _leave_float_fed(self) -> None:
        """What takes only float results and serves no quantized operator stays in float."""
        fed = {name for name, role in self._roles.items() if role is Role.FLOAT}
        candidates = []
        for node in self._nodes:
            passive = (
                node.op_type in ARITHMETIC
                or node.op_type == "Concat"
                or self._role(node) in (Role.PASSTHROUGH, Role.CLAMP)
                or is_custom(node)
            )
            if not passive or self._role(node) not in _ACTIVE:
                continue
            producers = [v.producer() for v in data_inputs(node) if not is_constant(v)]
            if all(p is not None and (p.name or "") in fed for p in producers):
                fed.add(node.name or "")
                candidates.append(node)
        for node in reversed(candidates):
            quantized = [r for r in _readers(node) if self._role(r) in _ACTIVE]
            # a clamp of a float result costs nothing in float, whoever reads it
            if not quantized or node.op_type in FUSED_ACTIVATIONS:
                source = data_inputs(node)[0].producer()
                of = "" if source is None else f" ({source.op_type})"
                self._to_float(node, f"it only handles a float operator's results{of}")

    def _absorb_clamps(self) -> set[str]:
        """Find clamps that end in saturation; the tensors before them need no scale."""
        absorbed: set[str] = set()
        chains: dict[str, tuple[Clamp, ...]] = {}
        for node in self._nodes:
            if self._role(node) is not Role.CLAMP:
                continue
            value, bounds = node.inputs[0], clamp_bounds(node)
            if value is None or bounds is None:
                continue
            chain = chains.get(name_of(value), ())
            before = bool(chain) or self._may_end_in_clamp(value.producer())
            if before and len(value.uses()) == 1 and not value.is_graph_output():
                absorbed.add(name_of(value))
                output = name_of(node.outputs[0])
                chains[output] = (*chain, Clamp(node.name or "", *bounds))
            else:
                self._reasons[node.name or ""] = unquantized_reason(node.op_type)
        self._clamps = {name: chain for name, chain in chains.items() if name not in absorbed}
        return absorbed

    def _may_end_in_clamp(self, writer: ir.Node | None) -> bool:
        """Whether a clamp behind a node can be part of it.

        A custom operator writes a tensor; a Concat has no accumulator that could saturate, and its
        inputs may take the scale of what it writes.
        """
        if writer is None or is_custom(writer) or writer.op_type == "Concat":
            return False
        return self._role(writer) in (Role.INTEGER, Role.EMULATED)

    def _plan(
        self,
        schemes: Mapping[str, Scheme],
        formats: Mapping[str, Format],
        boundaries: Mapping[str, tuple[DtypeBoundary, ...]],
        layers: LayerMap,
    ) -> Plan:
        sources: dict[str, str] = {}
        concats: list[ir.Node] = []
        for node in self._nodes:
            scheme = schemes.get(node.name or "")
            if scheme is None or self._role(node) is Role.FLOAT:
                continue
            if node.name in self._interpolating and not self._keeps_format(node, formats):
                self._interpolating.remove(node.name or "")
            if self._shares(node):
                source = name_of(data_inputs(node)[0])
                sources.update({name_of(v): source for v in node.outputs if v.name in formats})
            elif node.op_type == "Concat":
                concats.append(node)
        constant = {name for name in formats if is_constant(self._values[name])}
        integer = {
            name
            for name, form in formats.items()
            if not form.is_float or any(not b.form.is_float for b in boundaries.get(name, ()))
        } - constant
        integer |= {root_of(name, sources) for name in integer}
        return Plan(
            roles=self._roles,
            reasons=self._reasons,
            tensors=tuple(name for name in formats if name in integer),
            sources=sources,
            concats=self._concats(concats, sources, formats),
            constants=tuple(name for name in formats if name in constant),
            clamps=self._clamps,
            weights=self._weights,
            # ONNX Runtime interpolates between integers without rounding
            guarded=frozenset(self._guarded | self._interpolating),
            schemes=schemes,
            formats=formats,
            boundaries=boundaries,
            layers=layers,
        )

    def _shares(self, node: ir.Node) -> bool:
        """Whether what a node writes has the parameters of its first input."""
        return self._role(node) is Role.PASSTHROUGH or node.name in self._interpolating

    def _keeps_format(self, node: ir.Node, formats: Mapping[str, Format]) -> bool:
        source = formats.get(name_of(data_inputs(node)[0]))
        return (
            source is not None
            and not source.is_float
            and source == formats.get(name_of(node.outputs[0]))
        )

    def _concats(
        self, nodes: list[ir.Node], sources: Mapping[str, str], formats: Mapping[str, Format]
    ) -> tuple[ConcatPlan, ...]:
        groups: dict[str, list[ir.Value]] = {}
        for name in sources:
            groups.setdefault(root_of(name, sources), []).append(self._values[name])
        concats = []
        for node in nodes:
            output = name_of(node.outputs[0])
            roots = dict.fromkeys(
                root_of(name_of(v), sources) for v in data_inputs(node) if not is_constant(v)
            )
            sharing = tuple(
                root
                for root in roots
                if all(
                    self._only_for(v, node) and _may_widen(formats[name_of(v)], formats[output])
                    for v in (self._values[root], *groups.get(root, ()))
                )
            )
            concats.append(ConcatPlan(output, sharing))
        return tuple(concats)

    def _only_for(self, value: ir.Value, concat: ir.Node) -> bool:
        return not value.is_graph_output() and all(
            use.node is concat
            or use.node.op_type == "Shape"
            or (self._shares(use.node) and use.idx == 0)
            for use in value.uses()
        )


def _may_widen(form: Format, concat: Format) -> bool:
    """Whether a tensor loses nothing by the wider range of the Concat that reads it."""
    return not concat.is_float and (form.is_float or form.bits >= concat.bits)


def root_of(tensor: str, sources: Mapping[str, str]) -> str:
    """The tensor at the start of a chain of shared scales."""
    while tensor in sources:
        tensor = sources[tensor]
    return tensor


def _is_finite(value: ir.Value) -> bool:
    """Whether a value is none of a constant with NaN or infinity in it."""
    array = array_of(value) if is_constant(value) else None
    return array is None or array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _has_constant(node: ir.Node) -> bool:
    return any(value is not None and is_constant(value) for value in node.inputs)


def _readers(node: ir.Node) -> list[ir.Node]:
    return [use.node for value in node.outputs for use in value.uses()]
