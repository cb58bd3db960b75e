"""A graph as layers of a chip of generation 1: what is fused is known from the manual, no more.

Fused are batch normalization, Relu and Clip into a convolution, and a max pool where the manual's
conditions hold (Trouble Shooting 1.4.0, 6.1). The chip's own layer table is not public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.base.plain import JsonValue
from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor, Window
from engine.cost.lowering.graph import LoweringGraph, Node
from engine.facts.npu import NpuDtype

__all__ = ["FREE", "fuses_pool", "lower_generation1"]

FREE = frozenset({"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast"})
"""Operators that only give a tensor another name or shape."""

_GATES = {"Sigmoid": "Swish", "HardSigmoid": "HardSwish"}
_WINDOWED = frozenset(
    {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool"}
)


def lower_generation1(
    graph: LoweringGraph,
    design: str,
    dtype: NpuDtype,
    layer_dtypes: Mapping[str, NpuDtype] | None = None,
) -> Lowered:
    """The layers of a graph, in order; the graph is left as it is.

    Args:
        graph: of :func:`engine.cost.lowering.read.read_graph`.
        design: the NPU: ``rk1808`` or ``rv1126``.
        dtype: ``int8`` for every quantized dtype of 8 bits, or ``float16``.
        layer_dtypes: source node -> dtype of the layers that have another one.
    """
    return _Lowering(graph, design, dtype, layer_dtypes or {}).run()


def fuses_pool(pool: Window, height: int, width: int, bits: int) -> bool:
    """Whether a max pool behind a convolution is computed with it.

    Args:
        pool: its window.
        height, width: of its input.
        bits: of a value: 8 or 16.
    """
    if pool.kernel not in ((2, 2), (3, 3)) or pool.strides != (2, 2) or any(pool.pads):
        return False
    if pool.kernel == (2, 2):
        return height % 2 == 0 and width % 2 == 0
    return height % 2 == 1 and width % 2 == 1 and 1 < width < (64 if bits == 8 else 32)


@dataclass
class _Lowering:
    """One pass over the nodes; ``taken`` are those that went into a layer before them."""

    graph: LoweringGraph
    design: str
    dtype: NpuDtype
    layer_dtypes: Mapping[str, NpuDtype]
    taken: set[int] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    rewrites: dict[str, int] = field(default_factory=dict)

    def run(self) -> Lowered:
        graph = self.graph
        layers = []
        for node in graph.nodes:
            if id(node) in self.taken:
                continue
            if self._constant(node):
                self.known.update(each for each in node.outputs if each)
                self._count("constant")
            else:
                layers.append(self._layer(node))
        used = {n for each in layers for n in (*each.inputs, *each.consts, *each.outputs)}
        used.update(graph.inputs, graph.outputs)
        tensors = {name: self._tensor(name) for name in used if name in graph.tensors}
        return Lowered(
            family=self.design,
            dtype=self.dtype,
            layers=tuple(layers),
            tensors=tensors,
            inputs=tuple(graph.inputs),
            outputs=tuple(graph.outputs),
            rewrites=self.rewrites,
        )

    def _constant(self, node: Node) -> bool:
        """Whether it is computed when the model is built."""
        return node.op in ("Shape", "Constant", "ConstantOfShape") or (
            bool(node.inputs) and all(self._is_const(each) for each in node.inputs if each)
        )

    def _is_const(self, tensor: str) -> bool:
        return tensor in self.known or self.graph.is_const(tensor)

    def _tensor(self, name: str) -> LoweredTensor:
        found = self.graph.tensors[name]
        const = self._is_const(name)
        dtype = self.dtype if found.dtype.startswith("float") and not const else found.dtype
        return LoweredTensor(name, found.shape, dtype, const)

    def _layer(self, node: Node) -> LoweredLayer:
        op, outputs, sources = node.op, list(node.outputs), list(node.sources)
        if op in ("Conv", "ConvTranspose", "Gemm"):
            fused = self._followers(node)
            op += "".join(each.op for each in fused if each.op != "BatchNormalization")
            for each in fused:
                outputs = list(each.outputs)
                sources += each.sources
        elif op in _GATES:
            gate = self._gated(node)
            if gate is not None:
                self._take(gate, "gate")
                op, outputs = _GATES[op], list(gate.outputs)
                sources += gate.sources
        window = self._window(node)
        return LoweredLayer(
            op=op,
            kind=node.op,
            name=node.name,
            inputs=tuple(each for each in node.inputs if each and not self._is_const(each)),
            consts=tuple(each for each in node.inputs if each and self._is_const(each)),
            outputs=tuple(each for each in outputs if each),
            dtype=next(
                (self.layer_dtypes[each] for each in sources if each in self.layer_dtypes),
                self.dtype,
            ),
            window=window,
            depthwise=self._depthwise(node, window),
            sources=tuple(sources),
        )

    def _followers(self, node: Node) -> list[Node]:
        """What a convolution computes with it, in order."""
        found: list[Node] = []
        last = node
        for ops in (("BatchNormalization",), ("Relu", "Clip"), ("MaxPool",)):
            reader = self.graph.only_reader(last.outputs[0]) if last.outputs else None
            if reader is None or reader.op not in ops or id(reader) in self.taken:
                continue
            if reader.op == "MaxPool" and not self._pool_fuses(reader):
                continue
            self._take(reader, reader.op)
            found.append(reader)
            last = reader
        return found

    def _pool_fuses(self, pool: Node) -> bool:
        shape, window = self.graph.shape(pool.inputs[0]), self._window(pool)
        bits = 8 if self.dtype == "int8" else 16
        return len(shape) == 4 and window is not None and fuses_pool(window, *shape[2:], bits)

    def _gated(self, node: Node) -> Node | None:
        """The Mul that multiplies a sigmoid's output by the sigmoid's input."""
        reader = self.graph.only_reader(node.outputs[0])
        if reader is None or reader.op != "Mul" or id(reader) in self.taken:
            return None
        return reader if sorted(reader.inputs) == sorted([*node.inputs, *node.outputs]) else None

    def _take(self, node: Node, rule: str) -> None:
        self.taken.add(id(node))
        self._count(rule)

    def _count(self, rule: str) -> None:
        self.rewrites[rule] = self.rewrites.get(rule, 0) + 1

    def _window(self, node: Node) -> Window | None:
        if node.op not in _WINDOWED:
            return None
        shape = self.graph.shape(node.inputs[0])
        if node.op.startswith("Global"):
            return Window(kernel=_two(shape[2:]))
        weight = self.graph.shape(node.inputs[1]) if len(node.inputs) > 1 else ()
        return Window(
            kernel=_two(node.ints("kernel_shape") or weight[2:]),
            strides=_two(node.ints("strides")),
            pads=_pads(node.ints("pads"), node.attributes.get("auto_pad")),
            dilations=_two(node.ints("dilations")),
            group=max(1, node.int("group", 1)),
        )

    def _depthwise(self, node: Node, window: Window | None) -> bool:
        shape = self.graph.shape(node.inputs[0]) if node.inputs else ()
        return (
            node.op == "Conv"
            and window is not None
            and window.group > 1
            and len(shape) > 1
            and window.group == shape[1]
        )


def _two(values: tuple[int, ...]) -> tuple[int, int]:
    """Height and width; a one-dimensional window has height 1."""
    if len(values) == 1:
        return 1, max(1, values[0])
    return (max(1, values[0]), max(1, values[1])) if len(values) >= 2 else (1, 1)


def _pads(values: tuple[int, ...], auto: JsonValue) -> tuple[int, int, int, int]:
    if len(values) == 4:
        return values[0], values[1], values[2], values[3]
    if len(values) == 2:
        return 0, values[0], 0, values[1]
    # what SAME comes to is not needed: only whether there is a pad
    return (0, 0, 1, 1) if isinstance(auto, str) and auto.startswith("SAME") else (0, 0, 0, 0)
